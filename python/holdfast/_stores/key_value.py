"""The key-value store: key to value, ordered by the unsigned bytes of the keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from holdfast._stores.base import StateStore, StoreReads
from holdfast._stores.bounds import key_bounds, prefix_bounds
from holdfast._stores.iterator import StoreIterator
from holdfast._stores.serdes import Serdes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast import _core
    from holdfast._options import IsolationLevel
    from holdfast._position import PositionBound
    from holdfast._stores.owner import StoreOwner
    from holdfast.stores import StoreBuilder

K = TypeVar("K")
V = TypeVar("V")


class ReadOnlyKeyValueStore(StoreReads[K, V, "_core.KeyValueStore"]):
    """A key-value store's reads at one isolation level, from any thread; what they raise says
    `StateStore`.
    """

    def get(self, key: K) -> V | None:
        """The key's value, None if there is none."""
        data = self._core.get(found := self._serdes.to_key(key))
        return None if data is None else self._serdes.from_value(data, found)

    def range(
        self, start: K | None = None, end: K | None = None, *, reverse: bool = False
    ) -> StoreIterator[K, V]:
        """Keys from `start` to `end`, both included; None leaves that end open. `start > end` is
        empty.
        """
        return self._iterator(self._core.range(*key_bounds(self._serdes, start, end), reverse))

    def prefix_scan(self, prefix: K) -> StoreIterator[K, V]:
        """Keys whose bytes start with those of `prefix`; of a struct key, those with the first
        fields in a tuple or dict.
        """
        return self._iterator(self._core.prefix_scan(*prefix_bounds(self._serdes, prefix)))

    def approximate_num_entries(self) -> int:
        """About how many keys there are, staged ones included."""
        return self._core.approximate_num_entries()

    def get_batch(self, keys: Any) -> _core.ArrowArray:
        """A column of values, null where a key has none."""
        encoded = self._serdes.encode_keys(keys)
        return self._serdes.decode_values(self._core.get_batch(encoded), encoded)

    def range_batches(
        self,
        start: K | None = None,
        end: K | None = None,
        *,
        reverse: bool = False,
        batch_rows: int = 10_000,
    ) -> _core.ArrowReader:
        """As `range`, in batches of the columns `key` and `value`."""
        bounds = key_bounds(self._serdes, start, end)
        return self._serdes.decode_reader(self._core.range_batches(*bounds, reverse, batch_rows))

    def _iterator(self, rows: _core.KeyValueIterator) -> StoreIterator[K, V]:
        from_key, from_value = self._serdes.from_key, self._serdes.from_value
        if self._serdes.are_bytes:
            return StoreIterator(rows, from_key, None)
        return StoreIterator(
            rows, from_key, lambda row: (from_key(row[0]), from_value(row[1], row[0]))
        )


class KeyValueStore(StateStore, ReadOnlyKeyValueStore[K, V]):
    """A key-value store of a database: `db[name]`.

    Keys and values are bytes unless the store has serdes. `None` as a value deletes; `b""` is a
    value.
    """

    def __init__(self, owner: StoreOwner, builder: StoreBuilder, core: _core.KeyValueStore) -> None:
        """Made by the owner."""
        StateStore.__init__(self, owner, builder)
        ReadOnlyKeyValueStore.__init__(self, core, Serdes(builder))

    def put(self, key: K, value: V | None) -> None:
        """Sets the key's value; None deletes it."""
        self._core.put(self._serdes.to_key(key), self._serdes.to_value(value))

    def put_if_absent(self, key: K, value: V | None) -> V | None:
        """The key's value if it has one, and nothing changes; else None, and `value` is set."""
        data = self._core.put_if_absent(
            found := self._serdes.to_key(key), self._serdes.to_value(value)
        )
        return None if data is None else self._serdes.from_value(data, found)

    def put_all(self, entries: Iterable[tuple[K, V | None]]) -> None:
        """Sets all entries in order; None deletes. If one is bad, nothing is written."""
        to_key, to_value = self._serdes.to_key, self._serdes.to_value
        self._core.put_all([(to_key(key), to_value(value)) for key, value in entries])

    def delete(self, key: K) -> V | None:
        """Removes the key and returns the value that it had; the key of one that cannot be
        converted stays.
        """
        if not self._serdes.values_are_bytes:
            self.get(key)  # what cannot be returned is not removed
        data = self._core.delete(found := self._serdes.to_key(key))
        return None if data is None else self._serdes.from_value(data, found)

    def put_batch(self, keys: Any, values: Any) -> None:
        """Sets a value a key, in order; null deletes. If one row is bad, nothing is written."""
        self._core.put_batch(self._serdes.encode_keys(keys), self._serdes.encode_values(values))

    def delete_batch(self, keys: Any) -> None:
        """Removes all of the keys."""
        self._core.delete_batch(self._serdes.encode_keys(keys))

    def delete_range(self, start: K | None = None, end: K | None = None) -> None:
        """Removes all keys from `start` to `end`, both included; None leaves that end open.
        `start > end` removes nothing.

        In files it takes the time of two seeks, whatever the number of keys; reads that meet many
        removed ranges are slower until a compaction has taken their rows away.
        """
        self._core.delete_range(*key_bounds(self._serdes, start, end))

    def read_only(
        self,
        isolation_level: IsolationLevel | None = None,
        *,
        position_bound: PositionBound | None = None,
    ) -> ReadOnlyKeyValueStore[K, V]:
        """Returns the reads at an isolation level, as `StateStore.read_only` describes."""
        return ReadOnlyKeyValueStore(
            self._core.read_only(*self._view(isolation_level, position_bound)), self._serdes
        )
