"""Tasks get the secret of the driver, by which state hosts of other executors recognise them."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame
from recording_task import RecordingTask, requests_of
from streams import Stream, joined_by_sign

import holdfast.spark as hfs


@pytest.mark.parametrize("way", ["in the plan", "inside foreachBatch"])
def test_all_tasks_of_a_driver_have_its_secret(
    stream: Stream, monkeypatch: pytest.MonkeyPatch, way: str
):
    monkeypatch.setattr("holdfast.spark.worker.task.OperatorTask", RecordingTask)
    stream.batch(left=[("a", 1, -1), ("a", 2, 2)])
    stream.batch(left=[("a", 3, 3)])
    if way == "in the plan":
        stream.run(joined_by_sign(stream.source("left"), stream.state()))
    else:

        def fn(frame: DataFrame, _: int) -> None:
            # A function may make its state in each micro-batch.
            joined_by_sign(frame, stream.state()).collect()

        stream.run(stream.source("left"), each=hfs.foreach_batch(fn))
    found = requests_of(stream.root)
    assert sorted(found) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    secrets = {request["writer_secret"] for request in found.values()}
    assert secrets == {stream.state().writer_secret}
