"""The timestamp that binds an epoch to the driver that planned it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame
from recording_task import RecordingTask, requests_of
from streams import Stream, in_thread, joined_by_sign

import holdfast.spark as hfs


def timestamps(stream: Stream) -> dict[int, int]:
    """The batch timestamps in Spark's checkpoint, by epoch."""
    offsets = stream.root / "query" / "offsets"
    return {
        epoch: json.loads((offsets / str(epoch)).read_text().splitlines()[1])["batchTimestampMs"]
        for epoch in stream.numbers("offsets")
    }


def in_the_plan(stream: Stream) -> None:
    query = (
        joined_by_sign(stream.source("left"), stream.state())
        .writeStream.format("noop")
        .option("checkpointLocation", stream.checkpoint)
        .start()
    )
    query.processAllAvailable()
    query.stop()


def above(stream: Stream) -> None:
    joined = joined_by_sign(stream.source("left"), stream.state())
    stream.run(joined, each=hfs.foreach_batch(lambda frame, _: in_thread(frame.collect)))


def inside(stream: Stream, wrap: Callable = hfs.foreach_batch) -> None:
    state = stream.state()

    def fn(frame: DataFrame, _: int) -> None:
        joined_by_sign(frame, state).collect()

    stream.run(stream.source("left"), each=wrap(fn))


WAYS = {
    "in the plan": in_the_plan,
    "above": above,
    "inside": inside,
    "unwrapped": lambda stream: inside(stream, lambda fn: fn),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_task_has_the_batch_timestamp_of_the_driver(
    stream: Stream, monkeypatch: pytest.MonkeyPatch, way: str
):
    monkeypatch.setattr("holdfast.spark.worker.task.OperatorTask", RecordingTask)
    stream.batch(left=[(key, 1, -1) for key in "abcdefgh"])
    stream.batch(left=[("a", 5, 5)])
    WAYS[way](stream)
    # The driver died before it committed. A new one plans the epoch with the same timestamp.
    stream.forget_commit(1)
    WAYS[way](stream)
    expected, found = timestamps(stream), requests_of(stream.root)
    assert sorted(found) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    got = {place: request["planned_at"] for place, request in found.items()}
    assert got[0, 0] == got[0, 1] == expected[0]
    # In epoch 1 one partition has no rows, and so no timestamp in its rows. With `foreachBatch`
    # this partition gets the timestamp from the driver, too, even if the function is not wrapped.
    of_rows = expected[1]
    without_rows = None if way == "in the plan" else of_rows
    assert sorted(got[1, p] == of_rows for p in range(2)) == [without_rows == of_rows, True]
    assert {got[1, 0], got[1, 1]} == {of_rows, without_rows}
