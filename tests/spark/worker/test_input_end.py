"""Checks that a task has read all input that Spark sends over the task's socket."""

from __future__ import annotations

import io
import socket
from collections.abc import Callable

import pyarrow as pa
import pytest
from pyspark.serializers import SpecialLengths, write_int

from holdfast.errors import HoldfastError
from holdfast.spark.worker.input_end import check_input_ended

BATCH = pa.record_batch({"x": pa.array(range(10_000))})


def rows_of_a_task(send: Callable[[io.BufferedWriter, pa.RecordBatchStreamWriter], None]) -> int:
    """Returns how many rows a task reads. The task then checks that its input has ended."""
    ours, sparks = socket.socketpair()
    sparks.setblocking(True)
    with ours, ours.makefile("rb") as stream:
        with sparks, sparks.makefile("wb") as out:
            send(out, pa.ipc.new_stream(out, BATCH.schema))

        def main(infile: io.BufferedReader) -> int:
            rows = sum(batch.num_rows for batch in pa.ipc.open_stream(infile))
            check_input_ended()
            return rows

        return main(stream)


def test_an_input_that_spark_ended_is_complete():
    def send(out: io.BufferedWriter, writer: pa.RecordBatchStreamWriter) -> None:
        writer.write_batch(BATCH)
        writer.close()
        write_int(SpecialLengths.END_OF_STREAM, out)

    assert rows_of_a_task(send) == 10_000


def test_an_input_that_is_broken_off_between_two_batches_is_an_error():
    # pyarrow reads it without an error.
    with pytest.raises(HoldfastError, match="broke off the input of this task"):
        rows_of_a_task(lambda _, writer: writer.write_batch(BATCH))


def test_outside_of_pysparks_worker_the_end_cannot_be_checked():
    with pytest.raises(HoldfastError, match=r"PySpark 4\.0 to 4\.3"):
        check_input_ended()
