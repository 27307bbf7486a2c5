"""The batch timestamp in a task's rows, without Spark and a state host."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from holdfast.errors import HoldfastError
from holdfast.spark.epoch import Epoch
from holdfast.spark.worker.task import OperatorTask

LAYOUT = pa.schema([("pid", pa.int32()), ("k0", pa.string())])


END_OF_STREAM = (-4).to_bytes(4, "big", signed=True)
"""What Spark sends after the last batch."""

CONTEXT = SimpleNamespace(
    partitionId=lambda: 1, taskAttemptId=lambda: 1, getLocalProperty=lambda _: None
)
"""The task context of partition 1."""


class Output(list[pa.RecordBatch]):
    """The output of a session, which is the input."""

    def staged(self) -> str:
        return "{}"


class Client:
    """A connection that stores what it gets."""

    def __init__(self) -> None:
        self.request: dict[str, Any] = {}
        self.pushed: list[pa.RecordBatch] = []

    def open_session(self, request: str) -> None:
        assert not self.pushed
        self.request = json.loads(request)

    def push(self, batch: pa.RecordBatch) -> None:
        self.pushed.append(batch)

    def finish(self) -> Output:
        return Output(self.pushed)

    def close(self) -> None:
        pass


def rows(count: int, planned_at: int) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "pid": pa.array([1] * count, pa.int32()),
            "k0": pa.array(["a"] * count),
            "planned_at": pa.array([planned_at] * count, pa.int64()),
        }
    )


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    client = Client()
    monkeypatch.setattr("pyspark.TaskContext.get", lambda: CONTEXT)
    monkeypatch.setattr("holdfast.spark.worker.state_host.connect", lambda: client)
    return client


def run(batches: list[pa.RecordBatch], planned_at: int | None) -> list[pa.RecordBatch]:
    task = OperatorTask(
        request={"scratch": False, "partitions": 2, "root": "/", "operator": {"name": "op"}},
        epoch=Epoch("query", "run", 7, planned_at),
        layout=LAYOUT,
        output=LAYOUT,
        has_timestamps=True,
    )

    def main(infile: io.BufferedReader) -> list[pa.RecordBatch]:
        return list(task(iter(batches)))

    return main(io.BufferedReader(io.BytesIO(END_OF_STREAM)))


@pytest.mark.parametrize("of_wrapper", [None, 5])
def test_the_timestamp_of_the_rows_goes_into_the_request_and_not_to_the_host(
    client: Client, of_wrapper: int | None
):
    got = run([rows(0, 5), rows(2, 5), rows(1, 5)], of_wrapper)
    assert client.request["planned_at"] == 5
    assert [batch.num_rows for batch in got] == [0, 2, 1]
    assert all(batch.schema == LAYOUT for batch in got)


@pytest.mark.parametrize("of_wrapper", [None, 5])
def test_a_task_without_rows_has_the_timestamp_of_the_wrapper(
    client: Client, of_wrapper: int | None
):
    run([rows(0, 9)], of_wrapper)
    assert client.request["planned_at"] == of_wrapper


def test_rows_of_another_micro_batch_are_refused_before_the_session(client: Client):
    with pytest.raises(HoldfastError, match=r"epoch 7, .* planned at 5 ms, .* planned at 6 ms"):
        run([rows(1, 6)], 5)
    assert client.request == {}
