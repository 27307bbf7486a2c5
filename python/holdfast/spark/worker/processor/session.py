"""The session store: single puts are buffered, at most until the end of the batch."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from holdfast.spark.worker.processor.remote import RemoteRows, RemoteStore, column, columns
from holdfast.spark.worker.processor.window import selection

if TYPE_CHECKING:
    from holdfast import _core


class RemoteSession(RemoteStore):
    """A session store."""

    def __init__(self, calls: "_core.HostCalls", name: str) -> None:
        """Creates a session store, for one session with the state host."""
        super().__init__(calls, name)
        self._written: list[tuple[bytes, int, int, bytes | None]] = []

    def stream_time(self) -> int | None:
        """The greatest session end that was written so far."""
        time: int | None = self._number("time")
        return time

    def put(self, key: bytes, start: int, end: int, value: bytes | None) -> None:
        """Sets a session's value; None removes it."""
        if end < start:
            raise ValueError(
                f"store {self._name}, key {key[:32]!r}: the session starts at {start} and ends at "
                f"{end}, which is earlier"
            )
        self._check_size(key, value)
        self._written.append((key, start, end, value))
        self._wait(len(self._written), len(key) + len(value or b""))

    def flush(self) -> None:
        """Sends the buffered writes."""
        if self._written:
            written, self._written, self._bytes = self._written, [], 0
            keys, starts, ends, values = map(list, zip(*written, strict=True))
            self._calls.call(
                self._name, "put", [*_sessions(keys, starts, ends), ("values", "bytes", values)]
            )

    def fetch_session(self, key: bytes, start: int, end: int) -> bytes | None:
        """Returns a session's value."""
        (value,), _ = columns(self._ask("get", *_sessions([key], [start], [end])))
        found: bytes | None = value
        return found

    def find_sessions(self, wanted: "_core._Selection") -> RemoteRows:
        """Returns sessions, ordered by (end, key, start)."""
        return RemoteRows(self._scan("range", *selection(wanted, ("end", "start"))), _rows)

    def put_batch(self, keys: Any, starts: Any, ends: Any, values: Any) -> None:
        """Puts one session per row, all or none."""
        self._ask("put", *_sessions(keys, starts, ends), ("values", "bytes", values))

    def remove_batch(self, keys: Any, starts: Any, ends: Any) -> None:
        """Removes one session per row, all or none."""
        self._ask("put", *_sessions(keys, starts, ends))

    def fetch_session_batch(self, keys: Any, starts: Any, ends: Any) -> Any:
        """Returns one value per row."""
        return column(self._ask("get", *_sessions(keys, starts, ends)), "value")

    def find_batch(self, keys: Any, earliest_ends: Any, latest_starts: Any) -> "_core.ArrowBatch":
        """Returns the sessions of each row's key, ordered by row, then by (end, start)."""
        return self._ask("find", *_sessions(keys, latest_starts, earliest_ends))

    def find_batches(self, wanted: "_core._Selection", batch_rows: int) -> "_core.ArrowReader":
        """Returns the sessions of `find_sessions` in batches."""
        return self._scan("range", *selection(wanted, ("end", "start")), batch_rows=batch_rows)


def _sessions(keys: Any, starts: Any, ends: Any) -> "list[_core._Argument]":
    return [("keys", "key", keys), ("starts", "time", starts), ("ends", "time", ends)]


def _rows(page: list[list[Any]]) -> Iterator[Any]:
    keys, starts, ends, values = page
    return zip(zip(keys, starts, ends, strict=True), values, strict=True)
