"""One writer and many readers; batches run without the GIL."""

from __future__ import annotations

import sys
import threading
import time
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

import holdfast as hf

RC, RU = hf.IsolationLevel.READ_COMMITTED, hf.IsolationLevel.READ_UNCOMMITTED
ROWS = 100_000


def in_thread(work) -> threading.Thread:
    """Runs `work` in a thread; `join` raises its exception."""

    class Worker(threading.Thread):
        error: BaseException | None = None

        def run(self) -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001  # raised again by join
                self.error = error

        def join(self, timeout=None) -> None:
            super().join(timeout)
            if self.error is not None:
                raise self.error

    worker = Worker()
    worker.start()
    return worker


@pytest.fixture
def columns():
    rng = np.random.default_rng(1)
    keys = pa.array([b"%08d" % n for n in rng.permutation(ROWS)], pa.binary())
    return keys, pa.array(rng.integers(0, 1_000_000, ROWS))


class Exported:
    """A column that is exported already: pyarrow's own export releases the GIL, too."""

    def __init__(self, column: pa.Array) -> None:
        self.capsules = column.__arrow_c_array__()

    def __arrow_c_array__(self, requested_schema=None):
        return self.capsules


def read_all(reader):
    for _ in reader:
        pass


@pytest.mark.parametrize(
    "prepare",
    [
        lambda b, keys, values, times, puts: partial(b.kv.put_batch, keys, values),
        lambda b, keys, values, times, puts: partial(b.kv.get_batch, keys),
        lambda b, keys, values, times, puts: partial(b.kv.delete_batch, keys),
        lambda b, keys, values, times, puts: partial(b.rates.put_batch, keys, values, times),
        lambda b, keys, values, times, puts: partial(b.rates.get_batch, keys, times),
        lambda b, keys, values, times, puts: partial(
            b.rates.apply_batch, puts, keys, values, times
        ),
        lambda b, *_: partial(read_all, b.kv.range_batches(batch_rows=ROWS)),
        lambda b, *_: partial(read_all, b.rates.scan_batches(batch_rows=ROWS)),
        lambda b, *_: b.db.commit,
    ],
)
def test_other_threads_run_during_a_batch_call(bench, columns, prepare):
    keys, times = columns
    puts = pa.array([True] * ROWS)
    bench.rates.put_batch(keys, keys, times)
    stop, turns = threading.Event(), [0]

    def count():
        while not stop.is_set():
            turns[0] += 1
            time.sleep(0)

    def called() -> bool:
        """Calls once; returns whether the counter ran meanwhile."""
        bench.kv.put_batch(keys, keys)  # so that every commit has work
        call = prepare(bench, *(Exported(column) for column in (keys, keys, times, puts)))
        before = turns[0]
        call()
        return turns[0] > before

    interval = sys.getswitchinterval()
    counter = in_thread(count)
    # The interpreter now takes the GIL from no thread: others run only if a call releases it. On a
    # busy machine the counter may get no processor during a call.
    sys.setswitchinterval(60)
    try:
        assert any(called() for _ in range(20))
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        counter.join()


def test_other_threads_run_while_a_dropped_iterator_deletes_files(tmp_path):
    rows = pa.array([b"%06d" % n for n in range(30_000)])
    stop, turns = threading.Event(), [0]

    def count():
        while not stop.is_set():
            turns[0] += 1
            time.sleep(0)

    def dropped(db) -> bool:
        """Drops the last reference to spilled rows; returns whether the counter ran meanwhile."""
        db["kv"].put_batch(rows, rows)
        scan = db["kv"].range()
        next(scan)
        db.rollback()
        before = turns[0]
        del scan
        return turns[0] > before

    interval = sys.getswitchinterval()
    with hf.open(tmp_path / "db", [hf.stores.key_value("kv")], uncommitted_max_bytes=1 << 16) as db:
        counter = in_thread(count)
        # The interpreter now takes the GIL from no thread: others run only if a call releases it.
        sys.setswitchinterval(60)
        try:
            assert any(dropped(db) for _ in range(20))
        finally:
            sys.setswitchinterval(interval)
            stop.set()
            counter.join()


def test_readers_see_whole_commits_while_the_writer_writes(bench):
    stop = threading.Event()
    seen: set[int] = set()
    keys = pa.array([b"a", b"b", b"c"])

    def read(level):
        view, history = bench.kv.read_only(level), bench.rates.read_only(level)
        while not stop.is_set():
            values = {value for _, value in view.range()} | {
                value for _, value in view.range(reverse=True)
            }
            scanned = {value for _, value in view.range()}
            assert len(scanned) <= 1, "a scan saw a part of a commit"
            assert len(values) <= 3
            if level is RC:
                batch = set(pa.array(view.get_batch(keys)).to_pylist())
                assert len(batch) == 1, "a batch saw a part of a commit"
                assert len({version.value for _, version in history.scan()}) <= 1
            seen.update(int(value) for value in scanned)

    readers = [in_thread(lambda level=level: read(level)) for level in (RC, RC, RU)]
    for n in range(300):
        value = b"%d" % n
        bench.kv.put_batch(keys, pa.array([value] * 3))
        bench.rates.put_batch(keys, pa.array([value] * 3), pa.array([n] * 3))
        if n % 7 == 3:
            bench.db.rollback()
        else:
            bench.db.commit()
    stop.set()
    for reader in readers:
        reader.join()
    assert len(seen) > 1


def test_an_open_scan_does_not_see_later_writes(bench):
    for n in range(1_000):
        bench.kv.put(b"%04d" % n, b"old")
    bench.db.commit()
    scan = bench.kv.read_only(RC).range()
    assert next(scan) == (b"0000", b"old")
    keys = pa.array([b"%04d" % n for n in range(0, 2_000, 2)])
    bench.kv.put_batch(keys, pa.array([b"new"] * len(keys)))
    bench.db.commit()
    assert [value for _, value in scan] == [b"old"] * 999


def test_closing_while_others_read_ends_them_with_an_error(bench):
    bench.kv.put_batch(pa.array([b"%06d" % n for n in range(50_000)]), pa.array([b"v"] * 50_000))
    bench.db.commit()
    started = threading.Semaphore(0)
    ends: list[type] = []

    def read():
        view = bench.kv.read_only(RC)
        started.release()
        try:
            while True:
                for _ in view.range():
                    pass
        except hf.errors.HoldfastError as error:
            ends.append(type(error))

    readers = [in_thread(read) for _ in range(3)]
    for _ in readers:
        started.acquire()
    bench.db.close()
    for reader in readers:
        reader.join()
    assert ends == [hf.errors.StoreClosedError] * 3


def test_commits_during_writes_of_another_thread_succeed(bench, columns):
    keys, _ = columns
    done = threading.Event()

    def write():
        while not done.is_set():
            bench.kv.put_batch(keys, keys)

    writer = in_thread(write)
    try:
        for _ in range(5):
            bench.db.commit()
    finally:
        done.set()
        writer.join()
