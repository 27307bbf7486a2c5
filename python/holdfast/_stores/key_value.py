"""The key-value store: values by key, in the order of the keys' unsigned bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from holdfast import _core
from holdfast._stores.base import StateStore, StoreReads
from holdfast._stores.bounds import key_bounds, prefix_bounds
from holdfast._stores.iterator import StoreIterator
from holdfast._stores.serdes import Serdes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast._options import IsolationLevel
    from holdfast._position import PositionBound
    from holdfast._stores.owner import StoreOwner
    from holdfast.stores import StoreBuilder

K = TypeVar("K")
V = TypeVar("V")


class ReadOnlyKeyValueStore(StoreReads[K, V, "_core.KeyValueStore"]):
    """The reads of a key-value store at one isolation level, from any thread.

    They raise what `StateStore` lists.
    """

    def __init__(self, core: _core.KeyValueStore, serdes: Serdes[K, V]) -> None:
        """Called by the store's `read_only`."""
        super().__init__(core, serdes)
        self._call_directly("get", ReadOnlyKeyValueStore.get)

    def _call_directly(self, name: str, method: object) -> None:
        """Replaces a method of a store of bytes by the extension's, which takes the same arguments.

        In a call of `method` Python takes as long as the engine does for a put. A subclass keeps
        its own method. A processor's store, whose `_core` is no object of the extension, has none.
        """
        is_ours = getattr(type(self), name) is method and isinstance(
            self._core, _core.KeyValueStore
        )
        if is_ours and self._serdes.are_bytes:
            setattr(self, name, getattr(self._core, name))

    def get(self, key: K) -> V | None:
        """Returns the key's value, None if it has none."""
        data = self._core.get(found := self._serdes.to_key(key))
        return None if data is None else self._serdes.from_value(data, found)

    def range(
        self, start: K | None = None, end: K | None = None, *, reverse: bool = False
    ) -> StoreIterator[K, V]:
        """Returns the rows of the keys from `start` to `end`, both included.

        An end of None is open. If `start` is above `end`, the result is empty.
        """
        return self._iterator(self._core.range(*key_bounds(self._serdes, start, end), reverse))

    def prefix_scan(self, prefix: K) -> StoreIterator[K, V]:
        """Returns the rows of the keys whose bytes begin with those of `prefix`.

        For struct keys, `prefix` is a tuple or dict of the first fields.
        """
        return self._iterator(self._core.prefix_scan(*prefix_bounds(self._serdes, prefix)))

    def approximate_num_entries(self) -> int:
        """Returns the approximate number of keys, including uncommitted ones that reads see."""
        return self._core.approximate_num_entries()

    def get_batch(self, keys: Any) -> _core.ArrowArray:
        """Returns a column of values, null where a key has none."""
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
        """Returns the rows of `range` in batches with the columns `key` and `value`."""
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

    Keys and values are bytes unless the store has serdes. A value of None deletes the key; `b""` is
    a value.
    """

    def __init__(self, owner: StoreOwner, builder: StoreBuilder, core: _core.KeyValueStore) -> None:
        """Called by the owner."""
        StateStore.__init__(self, owner, builder)
        ReadOnlyKeyValueStore.__init__(self, core, Serdes(builder))
        self._call_directly("put", KeyValueStore.put)

    def put(self, key: K, value: V | None) -> None:
        """Sets the key's value; None deletes the key."""
        self._core.put(self._serdes.to_key(key), self._serdes.to_value(value))

    def put_if_absent(self, key: K, value: V | None) -> V | None:
        """Returns the key's value if it has one; else sets `value` and returns None."""
        data = self._core.put_if_absent(
            found := self._serdes.to_key(key), self._serdes.to_value(value)
        )
        return None if data is None else self._serdes.from_value(data, found)

    def put_all(self, entries: Iterable[tuple[K, V | None]]) -> None:
        """Sets all (key, value) in order; None deletes. If one is invalid, nothing is written."""
        to_key, to_value = self._serdes.to_key, self._serdes.to_value
        self._core.put_all([(to_key(key), to_value(value)) for key, value in entries])

    def delete(self, key: K) -> V | None:
        """Removes the key and returns its value.

        If the value cannot be converted, the key is not removed.
        """
        if not self._serdes.values_are_bytes:
            self.get(key)  # raises before the removal
        data = self._core.delete(found := self._serdes.to_key(key))
        return None if data is None else self._serdes.from_value(data, found)

    def put_batch(self, keys: Any, values: Any) -> None:
        """Sets one value per key, in order; null deletes the key."""
        self._core.put_batch(self._serdes.encode_keys(keys), self._serdes.encode_values(values))

    def delete_batch(self, keys: Any) -> None:
        """Removes all of the keys."""
        self._core.delete_batch(self._serdes.encode_keys(keys))

    def delete_range(self, start: K | None = None, end: K | None = None) -> None:
        """Removes the keys from `start` to `end`, both included; an end of None is open.

        If `start` is above `end`, nothing is removed. For a store in files, the call takes the time
        of two seeks for any number of stored keys, and removes uncommitted keys in memory one by
        one. Reads that cross many removed ranges are slower until a compaction has removed their
        rows.
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
