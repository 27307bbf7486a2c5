"""The versioned store: the value of a key at any time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from holdfast._stores.base import StateStore, StoreReads
from holdfast._stores.iterator import StoreIterator
from holdfast._stores.records import PutResult, VersionedRecord
from holdfast._stores.serdes import Serdes
from holdfast._time import Timestamp, timestamp_micros

if TYPE_CHECKING:
    from holdfast import _core
    from holdfast._options import IsolationLevel
    from holdfast._position import PositionBound
    from holdfast._stores.owner import StoreOwner
    from holdfast.stores import StoreBuilder

K = TypeVar("K")
V = TypeVar("V")


class ReadOnlyVersionedKeyValueStore(StoreReads[K, V, "_core.VersionedKeyValueStore"]):
    """The reads of a versioned store at one isolation level, from any thread.

    History reaches back to `stream_time - history_retention`. A read as of an earlier time finds
    only the newest version of each key, and only if it was valid at that time. The same holds for
    `versions` with an earlier `end`. A read that leaves out a key for this reason is counted in
    `expired-reads-total`. The log has a warning, at most one a minute for each store.

    Reads raise what `StateStore` lists.
    """

    @property
    def stream_time(self) -> int | None:
        """The greatest timestamp of an accepted write of any key, in epoch microseconds.

        None before the first write.
        """
        return self._core.stream_time()

    def get(self, key: K, as_of: Timestamp | None = None) -> VersionedRecord[V] | None:
        """Returns the newest version, or the one that was valid at `as_of`.

        None if there is no such version, or if it is a tombstone. If `as_of` is before the history,
        only the newest version is found.
        """
        at = None if as_of is None else timestamp_micros(as_of, "as_of")
        data = self._serdes.to_key(key)
        return self._record(data, self._core.get(data, at))

    def versions(
        self, key: K, start: Timestamp, end: Timestamp, *, descending: bool = True
    ) -> StoreIterator[K, VersionedRecord[V]]:
        """Returns the versions of a key that were valid in `[start, end]`, newest first.

        With `descending` False the oldest is first. Tombstones and versions that ended before the
        history are left out.
        """
        span = timestamp_micros(start, "start"), timestamp_micros(end, "end")
        return self._iterator(self._core.versions(self._serdes.to_key(key), *span, descending))

    def versions_range(
        self, key_from: K | None, key_to: K | None, start: Timestamp, end: Timestamp
    ) -> StoreIterator[K, VersionedRecord[V]]:
        """Returns the `versions` of the keys from `key_from` to `key_to`, by (key, timestamp).

        Both keys are included; None is an open end.
        """
        bounds = self._serdes.to_bound(key_from), self._serdes.to_bound(key_to)
        return self._iterator(
            self._core.versions_range(
                *bounds, timestamp_micros(start, "start"), timestamp_micros(end, "end")
            )
        )

    def scan(self, as_of: Timestamp | None = None) -> StoreIterator[K, VersionedRecord[V]]:
        """Returns the newest version of each key, or the one valid at `as_of`, in key order.

        For a time before the history, the result may be only a part of the table.
        """
        return self._iterator(
            self._core.scan(None if as_of is None else timestamp_micros(as_of, "as_of"))
        )

    def get_batch(self, keys: Any, as_of: Any = None) -> _core.ArrowBatch:
        """Returns one row per key: `value`, `timestamp`, `valid_to`.

        All are null where `get` with the row's `as_of` returns None.
        """
        encoded = self._serdes.encode_keys(keys)
        return self._serdes.decode_batch(self._core.get_batch(encoded, as_of), encoded)

    def versions_batches(
        self,
        key_from: K | None,
        key_to: K | None,
        start: Timestamp,
        end: Timestamp,
        *,
        batch_rows: int = 10_000,
    ) -> _core.ArrowReader:
        """Returns `versions_range` in batches of `key`, `value`, `timestamp`, `valid_to`."""
        bounds = self._serdes.to_bound(key_from), self._serdes.to_bound(key_to)
        span = timestamp_micros(start, "start"), timestamp_micros(end, "end")
        return self._serdes.decode_reader(self._core.versions_batches(*bounds, *span, batch_rows))

    def scan_batches(
        self, as_of: Timestamp | None = None, *, batch_rows: int = 10_000
    ) -> _core.ArrowReader:
        """Returns the rows of `scan` in batches of `key`, `value`, `timestamp`, `valid_to`."""
        at = None if as_of is None else timestamp_micros(as_of, "as_of")
        return self._serdes.decode_reader(self._core.scan_batches(at, batch_rows))

    def _record(
        self, key: bytes, row: tuple[bytes, int, int | None] | None
    ) -> VersionedRecord[V] | None:
        return (
            None
            if row is None
            else VersionedRecord(self._serdes.from_value(row[0], key), row[1], row[2])
        )

    def _iterator(self, rows: _core.VersionIterator) -> StoreIterator[K, VersionedRecord[V]]:
        from_key, from_value = self._serdes.from_key, self._serdes.from_value
        return StoreIterator(
            rows,
            from_key,
            lambda row: (
                from_key(row[0]),
                VersionedRecord(from_value(row[1], row[0]), row[2], row[3]),
            ),
        )


class VersionedKeyValueStore(StateStore, ReadOnlyVersionedKeyValueStore[K, V]):
    """A versioned store of a database: `db[name]`.

    A version is valid in `[timestamp, next timestamp of the key)`. A value of None is a tombstone:
    the key has no value from then on. A put older than `stream_time - history_retention` is
    refused; any other late put is inserted between the versions around it.
    """

    def __init__(
        self, owner: StoreOwner, builder: StoreBuilder, core: _core.VersionedKeyValueStore
    ) -> None:
        """Called by the owner."""
        StateStore.__init__(self, owner, builder)
        ReadOnlyVersionedKeyValueStore.__init__(self, core, Serdes(builder))

    @property
    def history_retention(self) -> int:
        """How far back, in microseconds, history is retained and late writes are accepted."""
        retention = self._builder.history_retention
        assert retention is not None  # noqa: S101  # the builder always sets one
        return retention

    @property
    def segment_interval(self) -> int:
        """The unit, in microseconds, in which old history is dropped."""
        interval = self._builder.segment_interval
        assert interval is not None  # noqa: S101  # the builder of a versioned store always has one
        return interval

    def put(self, key: K, value: V | None, timestamp: Timestamp) -> PutResult:
        """Sets the value from `timestamp` until the key's next version; None is a tombstone."""
        at = timestamp_micros(timestamp, "timestamp")
        return PutResult(
            *self._core.put(self._serdes.to_key(key), self._serdes.to_value(value), at)
        )

    def delete(self, key: K, timestamp: Timestamp) -> VersionedRecord[V] | None:
        """Ends the value at `timestamp`; returns the version valid there, with its old end.

        If the value of that version cannot be converted, nothing is deleted. A delete at a time
        before the history is refused and returns None.
        """
        data, at = self._serdes.to_key(key), timestamp_micros(timestamp, "timestamp")
        if not self._serdes.values_are_bytes:
            self._record(data, self._core.get(data, at))  # raises before the deletion
        return self._record(data, self._core.delete(data, at))

    def put_batch(self, keys: Any, values: Any, timestamps: Any) -> _core.ArrowBatch:
        """Puts one version per row, in order; returns `accepted` and `valid_to` per row."""
        return self._core.put_batch(
            self._serdes.encode_keys(keys), self._serdes.encode_values(values), timestamps
        )

    def apply_batch(self, is_put: Any, keys: Any, values: Any, timestamps: Any) -> _core.ArrowBatch:
        """Applies puts, and gets as of a time, row by row; a get does not see puts of later rows.

        This is the inner loop of the as-of join in one call. Returns `accepted`, `value`,
        `timestamp`, `valid_to` per row. A put has `accepted` and `valid_to`. A get has the version
        that was valid: `value`, its start as `timestamp`, and `valid_to`. The other columns are
        null. After an error, including one in deserializing a stored value, the batch's puts cannot
        be committed.
        """
        encoded = self._serdes.encode_keys(keys)
        values = self._serdes.encode_values(values)
        return self._core.apply_batch(is_put, encoded, values, timestamps, self._serdes.value_core)

    def read_only(
        self,
        isolation_level: IsolationLevel | None = None,
        *,
        position_bound: PositionBound | None = None,
    ) -> ReadOnlyVersionedKeyValueStore[K, V]:
        """Returns the reads at an isolation level, as `StateStore.read_only` describes."""
        return ReadOnlyVersionedKeyValueStore(
            self._core.read_only(*self._view(isolation_level, position_bound)), self._serdes
        )
