"""Key-value stores: the keys of a batch are fetched ahead, puts wait for its end, and both are seen
by every read.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from holdfast.spark.worker.processor.remote import (
    BYTES,
    WRITES,
    Remote,
    Rows,
    column,
    columns,
    tuples,
)

if TYPE_CHECKING:
    from holdfast import _core

_FIRST_KEYS: Final = 256
"""So many keys are fetched at first: how large what they have is shows then."""

_KNOWN: Final = 4
"""What is known is forgotten once it is more than so many messages' keys, or bytes beside those
fetched ahead.
"""


class _ByKey(Remote, ABC):
    """What both kinds have in common. An entry is what a key has, None if it has nothing."""

    def __init__(self, calls: "_core.HostCalls", name: str) -> None:
        """A store of a session."""
        super().__init__(calls, name)
        # What is known of keys, and of those what the host does not know yet. A key that is not
        # known has no write.
        self._known: dict[bytes, Any] = {}
        self._written: dict[bytes, Any] = {}
        # Bytes of what is known, about: of what was asked for and written. What is fetched ahead is
        # the batch's own.
        self._held = 0
        self._of_batch: Callable[[], list[bytes]] = list
        # Keys of the batch that are still to be fetched. None until one is asked for: a processor
        # that uses batch calls alone does not pay for what it never asks.
        self._ahead: deque[bytes] | None = None
        # How many keys to fetch next, so that what they have is about a message, going by the last
        # ones that had something.
        self._room = _FIRST_KEYS

    def get(self, key: bytes) -> Any:
        """The key's entry."""
        try:
            return self._known[key]
        except KeyError:
            return self._fetch(key)

    def _write(self, key: bytes, entry: Any) -> None:
        replaced = self._written.get(key)
        self._known[key] = self._written[key] = entry
        self._wait(len(self._written), len(key) + self._size(entry) - self._size(replaced))

    def _fetch(self, key: bytes) -> Any:
        self._bound()
        if self._ahead is None:
            self._ahead = deque(dict.fromkeys(self._of_batch()))
        keys = [key]
        while self._ahead and len(keys) < self._room:
            other = self._ahead.popleft()
            if other != key and other not in self._known:
                keys.append(other)
        # Of the first ones, as far as they are a message: the others are asked for again.
        entries = self._entries(keys)
        self._ahead.extendleft(reversed(keys[len(entries) :]))
        self._known.update(zip(keys, entries, strict=False))
        sizes = [self._size(entry) for entry in entries if entry is not None]
        if sizes:
            fitting = BYTES * len(sizes) // max(sum(sizes), 1)
            self._room = max(1, min(fitting, WRITES, 4 * max(len(entries), _FIRST_KEYS)))
        self._held += len(key) + self._size(entries[0])
        return entries[0]

    def _bound(self) -> None:
        """Not all that a partition reads and writes is held until a batch begins: none does while
        timers fire.
        """
        if len(self._known) > _KNOWN * WRITES or self._held > _KNOWN * BYTES:
            self._known, self._held = dict(self._written), 0

    @abstractmethod
    def _size(self, entry: Any) -> int: ...

    @abstractmethod
    def _entries(self, keys: list[bytes]) -> list[Any]:
        """Of the first keys, one at least, as many as the host sends in one message."""

    @abstractmethod
    def _send(self, keys: list[bytes], entries: list[Any]) -> None: ...

    def flush(self) -> None:
        """Send the writes that wait."""
        if self._written:
            self._held += self._bytes
            written, self._written, self._bytes = self._written, {}, 0
            self._send(list(written), list(written.values()))
            self._bound()

    def begin_batch(self, ahead: Callable[[], list[bytes]]) -> None:
        """A batch begins, and `ahead` gives its keys: what waits of the one before is sent."""
        self.flush()
        self._of_batch = ahead
        self._forget()

    def _forget(self) -> None:
        """What is known may be old: batch calls go past it."""
        self._known, self._held = {}, 0
        self._ahead = None

    def delete(self, key: bytes) -> Any:
        """Remove the key; returns its entry."""
        entry = self.get(key)
        self._write(key, None)
        return entry

    def delete_range(self, start: bytes | None, end: bytes | None) -> None:
        """Remove all from `start` to `end`, both included."""
        self._ask("delete_range", ("start", "bytes", [start]), ("end", "bytes", [end]))
        self._forget()

    def range(self, start: bytes | None, end: bytes | None, reverse: bool) -> Rows:
        """From `start` to `end`, both included."""
        return Rows(self._scan("range", *_range(start, end, reverse)), tuples)

    def prefix_scan(self, prefix: bytes, end: bytes | None) -> Rows:
        """Keys that start with `prefix`, and lie below `end`."""
        return Rows(
            self._scan("prefix", ("start", "key", [prefix]), ("end", "bytes", [end])), tuples
        )

    def range_batches(
        self,
        start: bytes | None,
        end: bytes | None,
        reverse: bool,
        batch_rows: int,
    ) -> "_core.ArrowReader":
        """As `range`, in batches."""
        return self._scan("range", *_range(start, end, reverse), batch_rows=batch_rows)

    def approximate_num_entries(self) -> int:
        """About how many keys there are."""
        return int(self._number("entries"))


class KeyValue(_ByKey):
    """A key-value store."""

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set it; None deletes."""
        self._write(key, value)

    def put_if_absent(self, key: bytes, value: bytes | None) -> Any:
        """Set it where there is none; returns what was there."""
        found = self.get(key)
        if found is None:
            self._write(key, value)
        return found

    def put_all(self, entries: list[tuple[bytes, bytes | None]]) -> None:
        """Set all, in order."""
        for key, value in entries:
            self._write(key, value)

    def put_batch(self, keys: Any, values: Any) -> None:
        """Set a value a key, as one unit."""
        self._ask("put", ("keys", "key", keys), ("values", "bytes", values))
        self._forget()

    def delete_batch(self, keys: Any) -> None:
        """Remove the keys."""
        self._ask("delete", ("keys", "key", keys))
        self._forget()

    def get_batch(self, keys: Any) -> Any:
        """A value a key."""
        return column(self._ask("get", ("keys", "key", keys)), "value")

    def _entries(self, keys: list[bytes]) -> list[Any]:
        found = self._calls.call(self._name, "get_ahead", [("keys", "key", keys)])
        values: list[Any] = column(found, "value").to_pylist()
        return values

    def _size(self, entry: Any) -> int:
        return len(entry or b"")

    def _send(self, keys: list[bytes], entries: list[Any]) -> None:
        self._calls.call(self._name, "put", [("keys", "key", keys), ("values", "bytes", entries)])


class TimestampedKeyValue(_ByKey):
    """A timestamped key-value store: an entry is a value and its timestamp."""

    def put(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        """Set it; None deletes."""
        self._write(key, None if value is None else (value, timestamp))

    def put_if_absent(self, key: bytes, new: bytes | None, timestamp: int) -> Any:
        """Set it where there is none; returns what was there."""
        found = self.get(key)
        if found is None:
            self.put(key, new, timestamp)
        return found

    def put_all(self, entries: list[tuple[bytes, bytes | None, int]]) -> None:
        """Set all, in order."""
        for entry in entries:
            self.put(*entry)

    def put_batch(self, keys: Any, values: Any, timestamps: Any) -> None:
        """Set a value and its timestamp a key, as one unit."""
        self._ask(
            "put",
            ("keys", "key", keys),
            ("values", "bytes", values),
            ("timestamps", "time", timestamps),
        )
        self._forget()

    def delete_batch(self, keys: Any) -> None:
        """Remove the keys."""
        self._ask("delete", ("keys", "key", keys))
        self._forget()

    def get_batch(self, keys: Any) -> "_core.ArrowBatch":
        """A value and its timestamp a key."""
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
