"""Arrow reads batches ahead while the process exits: no Spark, and a source that never ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from threading import Event, Thread
from typing import TYPE_CHECKING
from weakref import WeakSet

import pyarrow as pa
import pytest

from holdfast._reader.arrow import batch_reader
from holdfast._reader.arrow import batch_stream as module
from holdfast._reader.arrow.batch_stream import BatchStream
from holdfast.errors import HoldfastError, StoreClosedError

if TYPE_CHECKING:
    from collections.abc import Iterator

ENDLESS = """
import time, pyarrow as pa
from holdfast._reader.dataset.state_dataset import dataset
batch = pa.record_batch({"x": pa.array(range(10))})
def batches():
    while True:
        time.sleep(0.02)
        yield batch
rows = dataset(batch.schema, lambda *_: pa.RecordBatchReader.from_batches(batch.schema, batches()))
"""


@pytest.mark.parametrize(
    "read",
    [
        "print(rows.head(5).num_rows)",
        "import duckdb; print(len(duckdb.sql('select * from rows limit 5').fetchall()))",
        "stream = rows.to_batches(); print(next(stream).num_rows - 5)",
    ],
)
def test_a_process_exits_while_arrow_reads_ahead(read: str):
    ran = subprocess.run(
        [sys.executable, "-c", ENDLESS + read], capture_output=True, text=True, timeout=120
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "5\n", "")


def test_exit_ends_a_stream_with_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_streams", WeakSet())
    stream, ended = BatchStream([1, 2, 3]), BatchStream([1])
    assert (next(stream), list(ended)) == (1, [1])
    module._end_streams(time.monotonic() + 60)
    with pytest.raises(StoreClosedError, match="before Python's exit"):
        next(stream)
    assert list(ended) == []


class Clock:
    """A clock that only sleeps advance."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_exit_waits_ten_seconds_for_scans_and_streams_together(monkeypatch: pytest.MonkeyPatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module._core, "end_scans", lambda: clock.sleep(8))
    monkeypatch.setattr(module, "_streams", WeakSet())
    stream = BatchStream([1, 2, 3])
    stream.is_in_call = True  # as if it waited for a state host
    module._end_reads()
    assert clock.now == pytest.approx(10, abs=0.1)


def test_an_interrupt_of_the_exit_still_ends_the_streams(monkeypatch: pytest.MonkeyPatch):
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module._core, "end_scans", interrupted)
    monkeypatch.setattr(module, "_streams", WeakSet())
    stream = BatchStream([1, 2, 3])
    with pytest.raises(KeyboardInterrupt):
        module._end_reads()
    with pytest.raises(StoreClosedError, match="before Python's exit"):
        next(stream)


def test_a_batch_reader_has_all_batches():
    batch = pa.record_batch({"x": pa.array([1, 2])})
    reader = batch_reader(batch.schema, iter([batch, batch]))
    assert reader.read_all().num_rows == 4


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_a_reader_does_not_end_well_after_an_error(error: type[BaseException]):
    batch = pa.record_batch({"x": pa.array([1, 2])})

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch
        raise error

    reader = batch_reader(batch.schema, batches())
    assert reader.read_next_batch() == batch
    with pytest.raises(error):
        reader.read_next_batch()
    for _ in range(2):
        with pytest.raises(HoldfastError, match="this reader ended with an error"):
            reader.read_all()


def test_an_interrupt_after_a_read_loses_no_batch_silently(monkeypatch: pytest.MonkeyPatch):
    stream = BatchStream([1, 2, 3])
    assert next(stream) == 1
    read = stream._read

    def interrupted() -> int:
        read()
        raise KeyboardInterrupt

    monkeypatch.setattr(stream, "_read", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(stream)
    monkeypatch.undo()
    with pytest.raises(HoldfastError, match="this reader ended with an error"):
        next(stream)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_reads_although_a_thread_was_opening_a_stream():
    has_lock, may_end = Event(), Event()

    def hold() -> None:
        with module._lock:
            has_lock.set()
            may_end.wait()

    thread = Thread(target=hold)
    thread.start()
    has_lock.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(30)  # ends a child that waits for the lock
        os._exit(len(list(BatchStream([1, 2, 3]))))
    may_end.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
