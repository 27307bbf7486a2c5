"""The timestamped key-value store: values with a timestamp by key, in the order of the keys.

>>> import holdfast as hf
>>> import tempfile
>>> db = hf.open(tempfile.mkdtemp() + "/db", [hf.stores.timestamped_key_value("totals")])
>>> db["totals"].put(b"customer 7", b"120.50", 1_000_000)
>>> db["totals"].get(b"customer 7")
ValueAndTimestamp(value=b'120.50', timestamp=1000000)
>>> db.close()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from holdfast._stores.base import StateStore, StoreReads
from holdfast._stores.bounds import key_bounds, prefix_bounds
from holdfast._stores.iterator import StoreIterator
from holdfast._stores.records import ValueAndTimestamp
from holdfast._stores.serdes import Serdes
from holdfast._time import Timestamp, timestamp_micros

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast import _core
    from holdfast._options import IsolationLevel
    from holdfast._position import PositionBound
    from holdfast._stores.owner import StoreOwner
    from holdfast.stores import StoreBuilder

K = TypeVar("K")
V = TypeVar("V")


class ReadOnlyTimestampedKeyValueStore(StoreReads[K, V, "_core.TimestampedKeyValueStore"]):
    """The reads of a timestamped key-value store at one isolation level, from any thread.

    They raise what `StateStore` lists.
    """

    def get(self, key: K) -> ValueAndTimestamp[V] | None:
        """Returns the key's value and timestamp, None if it has none."""
        data = self._serdes.to_key(key)
        return self._record(data, self._core.get(data))

    def range(
        self, start: K | None = None, end: K | None = None, *, reverse: bool = False
    ) -> StoreIterator[K, ValueAndTimestamp[V]]:
        """Returns the rows of the keys from `start` to `end`, both included.

        An end of None is open. If `start` is above `end`, the result is empty.
        """
        return self._iterator(self._core.range(*key_bounds(self._serdes, start, end), reverse))

    def prefix_scan(self, prefix: K) -> StoreIterator[K, ValueAndTimestamp[V]]:
        """Returns the rows of the keys whose bytes begin with those of `prefix`.

        For struct keys, `prefix` is a tuple or dict of the first fields.
        """
        return self._iterator(self._core.prefix_scan(*prefix_bounds(self._serdes, prefix)))

    def approximate_num_entries(self) -> int:
        """Returns the approximate number of keys, including uncommitted ones that reads see."""
        return self._core.approximate_num_entries()

    def get_batch(self, keys: Any) -> _core.ArrowBatch:
        """Returns one row per key: `value` and `timestamp`, both null where the key has none."""
        encoded = self._serdes.encode_keys(keys)
        return self._serdes.decode_batch(self._core.get_batch(encoded), encoded)

    def range_batches(
        self,
        start: K | None = None,
        end: K | None = None,
        *,
        reverse: bool = False,
        batch_rows: int = 10_000,
    ) -> _core.ArrowReader:
        """Returns the rows of `range` in batches of `key`, `value` and `timestamp`."""
        bounds = key_bounds(self._serdes, start, end)
        return self._serdes.decode_reader(self._core.range_batches(*bounds, reverse, batch_rows))

    def _record(self, key: bytes, row: tuple[bytes, int] | None) -> ValueAndTimestamp[V] | None:
        return (
            None if row is None else ValueAndTimestamp(self._serdes.from_value(row[0], key), row[1])
        )

    def _iterator(self, rows: _core.TimestampedIterator) -> StoreIterator[K, ValueAndTimestamp[V]]:
        from_key, from_value = self._serdes.from_key, self._serdes.from_value
        return StoreIterator(
            rows,
            from_key,
            lambda row: (from_key(row[0]), ValueAndTimestamp(from_value(row[1], row[0]), row[2])),
        )


class TimestampedKeyValueStore(StateStore, ReadOnlyTimestampedKeyValueStore[K, V]):
    """A timestamped key-value store of a database: `db[name]`.

    Keys and values are bytes unless the store has serdes. A value of None deletes the key; `b""` is
    a value. A value that was written when the store had no timestamps has timestamp -1.
    """

    def __init__(
        self, owner: StoreOwner, builder: StoreBuilder, core: _core.TimestampedKeyValueStore
    ) -> None:
        """Called by the owner."""
        StateStore.__init__(self, owner, builder)
        ReadOnlyTimestampedKeyValueStore.__init__(self, core, Serdes(builder))

    def put(self, key: K, value: V | None, timestamp: Timestamp) -> None:
        """Sets the key's value and timestamp; None deletes the key."""
        self._core.put(
            self._serdes.to_key(key),
            self._serdes.to_value(value),
            timestamp_micros(timestamp, "timestamp"),
        )

    def put_if_absent(
        self, key: K, value: V | None, timestamp: Timestamp
    ) -> ValueAndTimestamp[V] | None:
        """Returns the key's record if it has one; else sets `value` and returns None."""
        data, at = self._serdes.to_key(key), timestamp_micros(timestamp, "timestamp")
        return self._record(data, self._core.put_if_absent(data, self._serdes.to_value(value), at))

    def put_all(self, entries: Iterable[tuple[K, V | None, Timestamp]]) -> None:
        """Sets all (key, value, timestamp) in order; None deletes.

        If one is invalid, nothing is written.
        """
        to_key, to_value = self._serdes.to_key, self._serdes.to_value
        self._core.put_all(
            [
                (to_key(key), to_value(value), timestamp_micros(at, "timestamp"))
                for key, value, at in entries
            ]
        )

    def delete(self, key: K) -> ValueAndTimestamp[V] | None:
        """Removes the key and returns its value and timestamp.

        If the value cannot be converted, the key is not removed.
        """
        data = self._serdes.to_key(key)
        if not self._serdes.values_are_bytes:
            self._record(data, self._core.get(data))  # raises before the removal
        return self._record(data, self._core.delete(data))

    def put_batch(self, keys: Any, values: Any, timestamps: Any) -> None:
        """Sets one value and timestamp per key, in order; null deletes the key."""
        self._core.put_batch(
            self._serdes.encode_keys(keys), self._serdes.encode_values(values), timestamps
        )

    def delete_batch(self, keys: Any) -> None:
        """Removes all of the keys."""
        self._core.delete_batch(self._serdes.encode_keys(keys))

    def delete_range(self, start: K | None = None, end: K | None = None) -> None:
        """Removes the keys from `start` to `end`, both included; an end of None is open.

        If `start` is above `end`, nothing is removed. For a store in files, the call takes the time
        of two seeks for any number of stored keys, and removes uncommitted keys in memory one by
        one. Reads that cross many removed ranges are slower until a compaction has removed their
        rows. Rows that were written when the store had no timestamps are removed one by one.
        """
        self._core.delete_range(*key_bounds(self._serdes, start, end))

    def read_only(
        self,
        isolation_level: IsolationLevel | None = None,
        *,
        position_bound: PositionBound | None = None,
    ) -> ReadOnlyTimestampedKeyValueStore[K, V]:
        """Returns the reads at an isolation level, as `StateStore.read_only` describes."""
        return ReadOnlyTimestampedKeyValueStore(
            self._core.read_only(*self._view(isolation_level, position_bound)), self._serdes
        )
