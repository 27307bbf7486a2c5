"""Arrow reads batches ahead while the process exits: no Spark, and a source that never ends."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from holdfast._reader.arrow import batch_reader
from holdfast._reader.arrow import batch_stream as module
from holdfast._reader.arrow.batch_stream import BatchStream
from holdfast.errors import StoreClosedError

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
        [sys.executable, "-c", ENDLESS + read], capture_output=True, text=True, timeout=30
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "5\n", "")


def test_exit_ends_a_stream_with_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_streams", set())
    stream, ended = BatchStream([1, 2, 3]), BatchStream([1])
    module._streams.update([stream, ended])
    assert (next(stream), list(ended)) == (1, [1])
    module._end_streams()
    with pytest.raises(StoreClosedError, match="before Python's exit"):
        next(stream)
    assert list(ended) == []


def test_a_batch_reader_has_all_batches():
    batch = pa.record_batch({"x": pa.array([1, 2])})
    reader = batch_reader(batch.schema, iter([batch, batch]))
    assert reader.read_all().num_rows == 4
