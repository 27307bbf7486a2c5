"""Batches that threads read ahead, until Python exits.

A scan reads in a thread of the extension. The exit of a process destroys global objects of RocksDB,
and a thread that is in RocksDB then crashes the process. So Python's exit ends these threads.

A dataset's scan also reads ahead in one of Arrow's threads, even after its consumer has all rows
that it needs. Once the interpreter is being finalized, a thread that needs the GIL never returns.
Arrow waits for its threads when the process exits. So Python's exit ends the streams while threads
still get the GIL.
"""

import atexit
import os
import time
from collections.abc import Iterable, Iterator
from threading import RLock
from typing import Any, Final, Generic, TypeVar
from weakref import WeakSet

from holdfast import _core
from holdfast.errors import HoldfastError, StoreClosedError

_T = TypeVar("_T")

# Arrow's thread is outside of Python only for the time between two calls. Without a call in so many
# polls there is no thread: its queue in Arrow is full, or nothing reads the stream. Polls are
# counted, because a pause of the whole process passes time, too.
_QUIET_POLLS: Final = 60
_POLL_SECONDS: Final = 0.005
# A scan or a call may wait for a state host or for the object store; the exit waits no longer than
# this, first up to 8 seconds for scans (`_core.end_scans`) and then for calls.
_MOST_SECONDS: Final = 10.0


class BatchStream(Generic[_T]):
    """An iterator over batches, which ends with an error once Python exits.

    After an error or an interrupt (Ctrl-C) each further call fails: an end without an error would
    hide missing rows.
    """

    def __init__(self, batches: Iterable[_T]) -> None:
        self._batches = iter(batches)
        self._is_at_end = False
        self._has_failed = False
        self._is_ended_by_exit = False
        self.is_in_call = False
        self.calls = 0
        with _lock:
            _streams.add(self)

    def __iter__(self) -> Iterator[_T]:
        return self

    def __next__(self) -> _T:
        if self._is_at_end:
            raise StopIteration
        if self._has_failed:
            raise HoldfastError("this reader ended with an error; open another")
        # An interrupt may come when the batch has been read and not returned yet.
        self._has_failed = True
        batch = self._read()
        self._has_failed = False
        return batch

    def _read(self) -> _T:
        self.is_in_call = True
        try:
            self.calls += 1
            if self._is_ended_by_exit:
                raise StoreClosedError("the scan was not read to its end before Python's exit")
            return next(self._batches)
        except StopIteration:
            self._is_at_end = True
            raise
        finally:
            self.is_in_call = False

    def end_by_exit(self) -> None:
        """Makes the next call raise `StoreClosedError`."""
        self._is_ended_by_exit = True

    def is_done(self) -> bool:
        """Whether it has ended without an error, and no thread is in it.

        After an error, Arrow's thread may still need the GIL.
        """
        return self._is_at_end and not self.is_in_call


# Reentrant: a handler of a signal may open a scan.
_lock = RLock()
_streams: WeakSet[BatchStream[Any]] = WeakSet()


def _forget_streams() -> None:
    """Makes a new lock in the child of a fork: a thread that the child lacks may have held it."""
    global _lock, _streams
    _lock, _streams = RLock(), WeakSet()


os.register_at_fork(after_in_child=_forget_streams)


# Functions that are registered later run earlier, so those of the user can usually still read.
@atexit.register
def _end_reads() -> None:
    """Ends all reads of this process that threads read ahead."""
    end = time.monotonic() + _MOST_SECONDS
    try:
        # First: Arrow's threads may wait for the batches of these scans.
        _core.end_scans()
    finally:  # also after an interrupt (Ctrl-C)
        _end_streams(end)


def _end_streams(end: float) -> None:
    """Ends the open streams, and waits until no Arrow thread is in one, but not after `end`."""
    if all(stream.is_done() for stream in _ended_streams()):
        return
    quiet, calls_before = 0, -1
    while quiet < _QUIET_POLLS and time.monotonic() < end:
        # A call may open further streams.
        streams = _ended_streams()
        calls = sum(stream.calls for stream in streams)
        is_quiet = calls == calls_before and not any(stream.is_in_call for stream in streams)
        quiet, calls_before = (quiet + 1 if is_quiet else 0), calls
        time.sleep(_POLL_SECONDS)


def _ended_streams() -> list[BatchStream[Any]]:
    """All streams, after they are told to end."""
    with _lock:
        streams = list(_streams)
    for stream in streams:
        stream.end_by_exit()
    return streams
