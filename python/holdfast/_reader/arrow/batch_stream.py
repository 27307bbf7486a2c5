"""Batches that Arrow's threads read ahead, until Python exits.

A scan reads ahead in one of Arrow's threads, also after its consumer has all rows that it needs.
Once the interpreter is being finalized, a thread that needs the GIL never returns. Arrow waits for
its threads when the process exits. So Python's exit ends the streams while threads still get the
GIL.
"""

import atexit
import os
import time
from collections.abc import Iterable, Iterator
from threading import Lock
from typing import Any, Final, Generic, TypeVar
from weakref import WeakSet

from holdfast.errors import StoreClosedError

_T = TypeVar("_T")

# Arrow's thread is outside of Python only for the time between two calls. A stream without a call
# for this time has no thread: its queue in Arrow is full, or nothing reads it.
_QUIET_SECONDS: Final = 0.1
# A call may wait for a state host or for the object store; the exit waits no longer than this.
_MOST_SECONDS: Final = 10.0


class BatchStream(Generic[_T]):
    """An iterator over batches, which ends with an error once Python exits."""

    def __init__(self, batches: Iterable[_T]) -> None:
        self._batches: Iterator[_T] | None = iter(batches)
        self._is_ended_by_exit = False
        self._is_in_call = False
        self._last_call = time.monotonic()
        with _lock:
            _streams.add(self)

    def __iter__(self) -> Iterator[_T]:
        return self

    def __next__(self) -> _T:
        self._is_in_call = True
        try:
            if self._is_ended_by_exit:
                # An end without an error would hide missing rows from a consumer.
                self._batches = None
                raise StoreClosedError("the scan was not read to its end before Python's exit")
            if self._batches is None:
                raise StopIteration
            try:
                return next(self._batches)
            except BaseException:
                self._batches = None
                raise
        finally:
            self._last_call = time.monotonic()
            self._is_in_call = False

    def end_by_exit(self) -> None:
        """Makes the next call raise `StoreClosedError`."""
        self._is_ended_by_exit = True

    def is_open(self) -> bool:
        """Whether it may have further batches."""
        return self._batches is not None

    def is_quiet(self, since: float) -> bool:
        """Whether no call is in progress, and there has been none for `_QUIET_SECONDS`.

        These begin at `since` at the earliest.
        """
        last = max(self._last_call, since)
        return not self._is_in_call and time.monotonic() - last >= _QUIET_SECONDS


_lock: Final = Lock()
_streams: Final[WeakSet[BatchStream[Any]]] = WeakSet()


# A child of a fork does not have the threads.
os.register_at_fork(after_in_child=_streams.clear)


# Functions that are registered later run earlier, so those of the user can usually still read.
@atexit.register
def _end_streams() -> None:
    """Ends the open streams, and waits until no Arrow thread is in one."""
    with _lock:
        streams = [stream for stream in _streams if stream.is_open()]
    for stream in streams:
        stream.end_by_exit()
    begin = time.monotonic()
    while not all(stream.is_quiet(begin) for stream in streams):
        if time.monotonic() - begin > _MOST_SECONDS:
            return
        time.sleep(0.005)
