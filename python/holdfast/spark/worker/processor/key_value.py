"""Key-value stores that prefetch a batch's keys and buffer its puts; reads see both."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from holdfast.spark.worker.processor.remote import (
    BYTES,
    WRITES,
    RemoteRows,
    RemoteStore,
    column,
    columns,
    tuples,
)

if TYPE_CHECKING:
    from holdfast import _core

_FIRST_KEYS: Final = 256
"""The number of keys in the first prefetch, which shows how large their entries are."""

_CACHED_MESSAGES: Final = 4
"""The cache is cleared when it has the keys, or the bytes, of more than this many messages."""


class _ByKey(RemoteStore, ABC):
    """The part that both kinds of key-value stores share.

    An entry is a key's value, with its timestamp in a timestamped store; None if the key has no
    value.
    """

    def __init__(self, calls: "_core.HostCalls", name: str) -> None:
        """Creates a store of a session."""
        super().__init__(calls, name)
        # Entries by key, and the buffered ones among them, which the host does not have yet. A key
        # that is not in the cache has no buffered write.
        self._cache: dict[bytes, Any] = {}
        self._written: dict[bytes, Any] = {}
        # The approximate bytes of cached entries that were read or written one by one; prefetched
        # ones are bounded by the batch.
        self._cached_bytes = 0
        self._batch_keys: Callable[[], list[bytes]] = list
        # Keys of the batch that are not prefetched yet. None until the first read: a processor that
        # only uses batch calls does not compute them.
        self._to_prefetch: deque[bytes] | None = None
        # The maximum number of keys of the next prefetch. Their entries fit into about one message
        # if they are as large as those of the last prefetch.
        self._prefetch_keys = _FIRST_KEYS

    def get(self, key: bytes) -> Any:
        """Returns the key's entry."""
        try:
            return self._cache[key]
        except KeyError:
            return self._fetch(key)

    def _write(self, key: bytes, entry: Any) -> None:
        replaced = self._written.get(key)
        self._cache[key] = self._written[key] = entry
        self._wait(len(self._written), len(key) + self._size(entry) - self._size(replaced))

    def _fetch(self, key: bytes) -> Any:
        self._bound_cache()
        if self._to_prefetch is None:
            self._to_prefetch = deque(dict.fromkeys(self._batch_keys()))
        keys = [key]
        while self._to_prefetch and len(keys) < self._prefetch_keys:
            other = self._to_prefetch.popleft()
            if other != key and other not in self._cache:
                keys.append(other)
        # The host returns entries for the first keys, as many as fit one message. The other keys
        # are prefetched later.
        entries = self._entries(keys)
        self._to_prefetch.extendleft(reversed(keys[len(entries) :]))
        self._cache.update(zip(keys, entries, strict=False))
        sizes = [self._size(entry) for entry in entries if entry is not None]
        if sizes:
            fitting = BYTES * len(sizes) // max(sum(sizes), 1)
            self._prefetch_keys = max(1, min(fitting, WRITES, 4 * max(len(entries), _FIRST_KEYS)))
        self._cached_bytes += len(key) + self._size(entries[0])
        return entries[0]

    def _bound_cache(self) -> None:
        """Clears a large cache, except buffered writes.

        A new batch also clears the cache, but no batch begins while timers fire.
        """
        if (
            len(self._cache) > _CACHED_MESSAGES * WRITES
            or self._cached_bytes > _CACHED_MESSAGES * BYTES
        ):
            self._cache, self._cached_bytes = dict(self._written), 0

    @abstractmethod
    def _size(self, entry: Any) -> int: ...

    @abstractmethod
    def _entries(self, keys: list[bytes]) -> list[Any]:
        """Fetches the entries of the first keys: as many as fit one message, at least one."""

    @abstractmethod
    def _send(self, keys: list[bytes], entries: list[Any]) -> None: ...

    def flush(self) -> None:
        """Sends the buffered writes."""
        if self._written:
            self._cached_bytes += self._bytes
            written, self._written, self._bytes = self._written, {}, 0
            self._send(list(written), list(written.values()))
            self._bound_cache()

    def begin_batch(self, keys: Callable[[], list[bytes]]) -> None:
        """Sends the writes of the previous batch; `keys` returns the keys of the new one."""
        self.flush()
        self._batch_keys = keys
        self._clear_cache()

    def _clear_cache(self) -> None:
        """Clears the cache, which batch calls bypass."""
        self._cache, self._cached_bytes = {}, 0
        self._to_prefetch = None

    def delete(self, key: bytes) -> Any:
        """Removes the key; returns its entry."""
        entry = self.get(key)
        self._write(key, None)
        return entry

    def delete_range(self, start: bytes | None, end: bytes | None) -> None:
        """Removes all keys from `start` to `end`, both included."""
        self._ask("delete_range", ("start", "bytes", [start]), ("end", "bytes", [end]))
        self._clear_cache()

    def range(self, start: bytes | None, end: bytes | None, reverse: bool) -> RemoteRows:
        """Returns the rows from `start` to `end`, both included."""
        return RemoteRows(self._scan("range", *_range(start, end, reverse)), tuples)

    def prefix_scan(self, prefix: bytes, end: bytes | None) -> RemoteRows:
        """Returns the rows whose keys begin with `prefix`; with `end`, those in [prefix, end)."""
        return RemoteRows(
            self._scan("prefix", ("start", "key", [prefix]), ("end", "bytes", [end])), tuples
        )

    def range_batches(
        self,
        start: bytes | None,
        end: bytes | None,
        reverse: bool,
        batch_rows: int,
    ) -> "_core.ArrowReader":
        """Returns the rows of `range` in batches."""
        return self._scan("range", *_range(start, end, reverse), batch_rows=batch_rows)

    def approximate_num_entries(self) -> int:
        """Returns the approximate number of keys."""
        return int(self._number("entries"))


class RemoteKeyValue(_ByKey):
    """A key-value store."""

    def put(self, key: bytes, value: bytes | None) -> None:
        """Sets the value; None deletes."""
        self._check_size(key, value)
        self._write(key, value)

    def put_if_absent(self, key: bytes, value: bytes | None) -> Any:
        """Sets the value if there is none; returns the entry before."""
        found = self.get(key)
        if found is None:
            self.put(key, value)
        return found

    def put_all(self, entries: list[tuple[bytes, bytes | None]]) -> None:
        """Sets all values, in order."""
        for key, value in entries:
            self._check_size(key, value)
        for key, value in entries:
            self._write(key, value)

    def put_batch(self, keys: Any, values: Any) -> None:
        """Sets one value per key, in order."""
        self._ask("put", ("keys", "key", keys), ("values", "bytes", values))
        self._clear_cache()

    def delete_batch(self, keys: Any) -> None:
        """Removes the keys."""
        self._ask("delete", ("keys", "key", keys))
        self._clear_cache()

    def get_batch(self, keys: Any) -> Any:
        """Returns one value per key."""
        return column(self._ask("get", ("keys", "key", keys)), "value")

    def _entries(self, keys: list[bytes]) -> list[Any]:
        found = self._calls.call(self._name, "get_ahead", [("keys", "key", keys)])
        values: list[Any] = column(found, "value").to_pylist()
        return values

    def _size(self, entry: Any) -> int:
        return len(entry or b"")

    def _send(self, keys: list[bytes], entries: list[Any]) -> None:
        self._calls.call(self._name, "put", [("keys", "key", keys), ("values", "bytes", entries)])


class RemoteTimestampedKeyValue(_ByKey):
    """A timestamped key-value store: an entry is a value and its timestamp."""

    def put(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        """Sets the value; None deletes."""
        self._check_size(key, value)
        self._write(key, None if value is None else (value, timestamp))

    def put_if_absent(self, key: bytes, new: bytes | None, timestamp: int) -> Any:
        """Sets the value if there is none; returns the entry before."""
        found = self.get(key)
        if found is None:
            self.put(key, new, timestamp)
        return found

    def put_all(self, entries: list[tuple[bytes, bytes | None, int]]) -> None:
        """Sets all values, in order."""
        for key, value, _ in entries:
            self._check_size(key, value)
        for key, value, timestamp in entries:
            self._write(key, None if value is None else (value, timestamp))

    def put_batch(self, keys: Any, values: Any, timestamps: Any) -> None:
        """Sets one value and timestamp per key, in order."""
        self._ask(
            "put",
            ("keys", "key", keys),
            ("values", "bytes", values),
            ("timestamps", "time", timestamps),
        )
        self._clear_cache()

    def delete_batch(self, keys: Any) -> None:
        """Removes the keys."""
        self._ask("delete", ("keys", "key", keys))
        self._clear_cache()

    def get_batch(self, keys: Any) -> "_core.ArrowBatch":
        """Returns one value and timestamp per key."""
        return self._ask("get", ("keys", "key", keys))

    def _entries(self, keys: list[bytes]) -> list[Any]:
        values, timestamps = columns(
            self._calls.call(self._name, "get_ahead", [("keys", "key", keys)])
        )
        rows = zip(values, timestamps, strict=True)
        return [None if value is None else (value, timestamp) for value, timestamp in rows]

    def _size(self, entry: Any) -> int:
        return 0 if entry is None else len(entry[0])

    def _send(self, keys: list[bytes], entries: list[Any]) -> None:
        values = [None if entry is None else entry[0] for entry in entries]
        timestamps = [0 if entry is None else entry[1] for entry in entries]
        given: list[_core._Argument] = [
            ("keys", "key", keys),
            ("values", "bytes", values),
            ("timestamps", "time", timestamps),
        ]
        self._calls.call(self._name, "put", given)


def _range(start: bytes | None, end: bytes | None, reverse: bool) -> "list[_core._Argument]":
    return [("start", "bytes", [start]), ("end", "bytes", [end]), ("reverse", "flag", [reverse])]
