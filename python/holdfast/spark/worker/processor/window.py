"""Window stores, with timestamps or without; single puts are buffered."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from holdfast.spark.worker.processor.remote import RemoteRows, RemoteStore, column, columns

if TYPE_CHECKING:
    from holdfast import _core

_Put = tuple[bytes, bytes | None, int, int | None]


class RemoteWindow(RemoteStore):
    """A window store."""

    def __init__(self, calls: "_core.HostCalls", name: str) -> None:
        """Creates a store of a session."""
        super().__init__(calls, name)
        self._written: list[_Put] = []

    def stream_time(self) -> int | None:
        """Returns the greatest window start that was written so far."""
        time: int | None = self._number("time")
        return time

    def put(self, key: bytes, value: bytes | None, start: int, timestamp: int | None) -> None:
        """Sets a window's value; None deletes it."""
        self._check_size(key, value)
        self._written.append((key, value, start, timestamp))
        self._wait(len(self._written), len(key) + len(value or b""))

    def flush(self) -> None:
        """Sends the buffered writes."""
        if self._written:
            written, self._written, self._bytes = self._written, [], 0
            keys, values, starts, timestamps = map(list, zip(*written, strict=True))
            given = _put(keys, values, starts, None if timestamps[0] is None else timestamps)
            self._calls.call(self._name, "put", given)

    def fetch(self, key: bytes, start: int) -> tuple[bytes, int] | None:
        """Returns a window's value and timestamp."""
        (value,), (timestamp,) = columns(
            self._ask("get", ("keys", "key", [key]), ("starts", "time", [start]))
        )
        return None if value is None else (value, timestamp)

    def fetch_range(self, wanted: "_core._Selection") -> RemoteRows:
        """Returns windows, ordered by (start, key)."""
        return RemoteRows(self._scan("range", *selection(wanted, ("start", "end"))), _rows)

    def put_batch(self, keys: Any, values: Any, window_starts: Any, timestamps: Any | None) -> None:
        """Puts one value per row, in order; `timestamps` are for a store that has them."""
        self._ask("put", *_put(keys, values, window_starts, timestamps))

    def fetch_batch(self, keys: Any, window_starts: Any) -> Any:
        """Returns one value per row."""
        return column(self.fetch_stamped_batch(keys, window_starts), "value")

    def fetch_stamped_batch(self, keys: Any, window_starts: Any) -> "_core.ArrowBatch":
        """Returns one value and timestamp per row."""
        return self._ask("get", ("keys", "key", keys), ("starts", "time", window_starts))

    def fetch_ranges(
        self,
        keys: Any,
        starts: Any,
        ends: Any,
        timestamps: bool,  # noqa: ARG002
    ) -> "_core.ArrowBatch":
        """Returns, for each row, the windows of its key from its `start` to its `end`."""
        return self._ask(
            "find", ("keys", "key", keys), ("starts", "time", starts), ("ends", "time", ends)
        )

    def fetch_range_batches(
        self,
        wanted: "_core._Selection",
        batch_rows: int,
        timestamps: bool,  # noqa: ARG002 - in the extension's signature; the host knows it
    ) -> "_core.ArrowReader":
        """Returns the windows of `fetch_range` in batches."""
        return self._scan("range", *selection(wanted, ("start", "end")), batch_rows=batch_rows)


def selection(wanted: "_core._Selection", times: tuple[str, str]) -> "list[_core._Argument]":
    """Returns the arguments of a scan; `times` are the names of its two times."""
    low, high, first, second, reverse = wanted
    keys: list[_core._Argument] = [("start_key", "bytes", [low]), ("end_key", "bytes", [high])]
    return [
        *keys,
        (times[0], "time", [first]),
        (times[1], "time", [second]),
        ("reverse", "flag", [reverse]),
    ]


def _put(keys: Any, values: Any, starts: Any, timestamps: Any) -> "list[_core._Argument]":
    given: list[_core._Argument] = [
        ("keys", "key", keys),
        ("values", "bytes", values),
        ("starts", "time", starts),
    ]
    return given if timestamps is None else [*given, ("timestamps", "time", timestamps)]


def _rows(page: list[list[Any]]) -> Iterator[Any]:
    keys, starts, ends, values, *stamps = page
    stamped = stamps[0] if stamps else [-1] * len(keys)
    return zip(zip(keys, starts, ends, strict=True), values, stamped, strict=True)
