"""A look-up join asks for many keys at once, and for few if their rows are large."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from holdfast.spark.worker.lookup.large_batches import LargeBatches


def numbers(start: int, rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(range(start, start + rows))], names=["n"])


def stream(rows: int, batches: int) -> Iterator[pa.RecordBatch]:
    return (numbers(number * rows, rows) for number in range(batches))


def wide(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A result of 1 MiB a row."""
    values = [b"v" * (1 << 20)] * batch.num_rows
    return pa.RecordBatch.from_arrays([batch.column("n"), pa.array(values)], names=["n", "v"])


def values(results: Iterator[pa.RecordBatch]) -> list[int]:
    return [value for batch in results for value in batch.column("n").to_pylist()]


def test_small_batches_become_large_ones_in_their_order():
    sizes: list[int] = []

    def work(batch: pa.RecordBatch) -> pa.RecordBatch:
        sizes.append(batch.num_rows)
        return batch

    assert values(LargeBatches(work).results(stream(1000, 100))) == list(range(100_000))
    # The first batch shows how large results are, and the second is put together meanwhile.
    assert sizes == [1000, 1000, 4000, 4000, 16_000, 16_000, 25_000, 25_000, 8000]


def test_batches_of_large_results_stay_small():
    sizes: list[int] = []

    def work(batch: pa.RecordBatch) -> pa.RecordBatch:
        sizes.append(batch.num_rows)
        return wide(batch)

    assert values(LargeBatches(work).results(stream(2, 40))) == list(range(80))
    assert max(sizes) <= 16


def test_large_rows_of_the_frame_are_not_put_together():
    sizes: list[int] = []

    def work(batch: pa.RecordBatch) -> pa.RecordBatch:
        sizes.append(batch.num_rows)
        return batch.select(["n"])

    wide_batches = (wide(batch) for batch in stream(4, 20))
    assert values(LargeBatches(work).results(wide_batches)) == list(range(80))
    assert max(sizes) <= 16


def test_the_next_batch_is_read_during_the_work():
    next_is_read = threading.Event()

    def batches() -> Iterator[pa.RecordBatch]:
        yield numbers(0, 1)
        next_is_read.set()
        yield numbers(1, 1)

    def work(batch: pa.RecordBatch) -> pa.RecordBatch:
        assert next_is_read.wait(30), "the work began after the first batch, and waited"
        return batch

    assert values(LargeBatches(work).results(batches())) == [0, 1]


def test_no_rows_and_empty_batches_are_results():
    assert values(LargeBatches(lambda batch: batch).results(iter(()))) == []
    empty = numbers(0, 0)
    results = list(LargeBatches(lambda batch: batch).results(iter([empty, empty, empty])))
    assert all(batch.schema == empty.schema for batch in results)
    assert values(iter(results)) == []


def test_an_error_of_the_work_or_of_spark_ends_the_task():
    def refuse(_: pa.RecordBatch) -> pa.RecordBatch:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        values(LargeBatches(refuse).results(stream(10, 3)))

    def broken() -> Iterator[pa.RecordBatch]:
        yield numbers(0, 1)
        raise OSError("the JVM is gone")

    with pytest.raises(OSError, match="the JVM is gone"):
        values(LargeBatches(lambda batch: batch).results(broken()))
