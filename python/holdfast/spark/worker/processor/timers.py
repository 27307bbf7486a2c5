"""Event-time timers by key, and the stream time that fires them.

Both are in a store that the operator adds to the processor's stores. Each timer is a row, whose key
is the timer's time (8 bytes that sort as the times do) followed by the bytes of the timer's key.
The row with an empty key has the stream time, which the state host reads, too
(`rust/host/src/operator/process/timers.rs`).
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from holdfast import serde
from holdfast._time import Timestamp, timestamp_micros
from holdfast.spark.worker.processor.key_value import RemoteKeyValue

if TYPE_CHECKING:
    from holdfast import _core

TIMER_STORE: Final = "holdfast.timers"
"""The name of the timers' store, which every processor with an event time has."""

_STREAM_TIME: Final = b""
_FIRST: Final = b"\0"
_OFFSET: Final = 1 << 63
_PAGE: Final = 10_000


class Timers:
    """The timers of one session."""

    def __init__(self, calls: "_core.HostCalls", keys: pa.Schema) -> None:
        """Opens the timers of one partition; `keys` are the columns of their keys."""
        self.store: Final = RemoteKeyValue(calls, TIMER_STORE)
        self._serde: Final[serde.Serde[Any]] = serde.struct(keys)
        self._keys: Final = keys
        self._is_single: Final = len(keys) == 1
        time = self.store.get(_STREAM_TIME)
        self.stream_time = None if time is None else _moment(time)
        # While timers fire: a heap of the due rows up to the row `_last`. A timer that is set
        # meanwhile joins the heap if its row is not above `_last`, and so fires in order, too.
        self._due: list[bytes] = []
        self._waiting: set[bytes] = set()
        self._last: bytes | None = None

    def advance(self, time: int | None) -> None:
        """Moves the stream time forward to the time of a row."""
        if time is not None and (self.stream_time is None or time > self.stream_time):
            self.stream_time = time
            self.store.put(_STREAM_TIME, _bytes(time))

    def set(self, key: Any, at: Timestamp) -> None:
        """Sets a timer that fires when the stream time reaches `at`.

        A timer that is set twice fires once.
        """
        try:
            encoded = self._serde.serialize((key,) if self._is_single else key)
        except (TypeError, ValueError) as error:
            columns = ", ".join(f"{column.name} ({column.type})" for column in self._keys)
            raise type(error)(
                f"set_timer: the key {key!r} does not fit the columns by, {columns}: {error}"
            ) from error
        row = _bytes(timestamp_micros(at, "at")) + encoded
        if self._last is None or row > self._last:
            self.store.put(row, b"")
        elif row not in self._waiting:
            self._waiting.add(row)
            heappush(self._due, row)

    def fire(self) -> Iterator[tuple[Any, int]]:
        """Removes the timers up to the stream time, and yields key and time of each, in order."""
        if self.stream_time is None:
            return
        end = None if self.stream_time == _OFFSET - 1 else _bytes(self.stream_time + 1)
        more = True
        try:
            while more:
                self._due, more = self._page(end)
                self._waiting = set(self._due)
                self._last = self._due[-1] if more else end or b"\xff" * 9
                for row in self._due:
                    self.store.put(row, None)
                while self._due:
                    row = heappop(self._due)
                    self._waiting.discard(row)
                    (key, *others) = self._serde.deserialize(row[8:])
                    yield key if self._is_single else (key, *others), _moment(row[:8])
        finally:
            self._last = None

    def _page(self, end: bytes | None) -> tuple[list[bytes], bool]:
        """Returns the next timers that are due, and whether there may be more.

        The size of a page in bytes is limited, too, so a short page is not always the last one.
        """
        pages = iter(self.store.range_batches(_FIRST, end, False, _PAGE))
        first = next(pages, None)
        if first is None:
            return [], False
        keys: list[bytes] = pa.record_batch(first).column("key").to_pylist()
        return keys, len(keys) == _PAGE or next(pages, None) is not None


def _bytes(time: int) -> bytes:
    return (time + _OFFSET).to_bytes(8, "big")


def _moment(data: bytes) -> int:
    return int.from_bytes(data, "big") - _OFFSET
