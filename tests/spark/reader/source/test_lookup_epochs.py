"""`hfs.lookup` reads one epoch in each micro-batch."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql import functions as F
from streams import KEYS, Stream, in_thread

import holdfast.spark as hfs

BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


@pytest.fixture
def small_batches(spark) -> Iterator[None]:
    before = spark.conf.get(BATCH_ROWS)
    spark.conf.set(BATCH_ROWS, "4")
    yield
    spark.conf.set(BATCH_ROWS, before)


def same_value(stream: Stream, value: int) -> None:
    stream.batch(left=[(key, value, value) for key in KEYS])


@contextmanager
def changing(stream: Stream) -> Iterator[None]:
    """Runs a query over a table whose rows all have the same value, which changes all the time."""
    same_value(stream, 0)
    table = hfs.materialize(stream.source("left"), by="k", name="table", state=stream.state())
    writer = table.writeStream.format("noop").option("checkpointLocation", stream.checkpoint)
    query = writer.trigger(processingTime="0 seconds").start()
    query.processAllAvailable()
    ended = threading.Event()

    def feed() -> None:
        value = 0
        while not ended.wait(0.1):
            value += 1
            same_value(stream, value)

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        yield
    finally:
        ended.set()
        feeder.join()
        query.stop()


def await_newer_epoch(stream: Stream) -> None:
    """Waits until the query of the table has committed another epoch."""
    before, until = stream.numbers("commits")[-1], time.monotonic() + 60
    while stream.numbers("commits")[-1] == before:
        assert time.monotonic() < until, f"epoch {before} is still the newest one"
        time.sleep(0.05)


def look_up(frame: Any, stream: Stream) -> Any:
    return hfs.lookup(
        frame.select("k", F.col("x").alias("n")).repartition(2),
        stream.address,
        "table",
        on="k",
        columns=["x"],
        storage_options=stream.options.get("storage_options"),
    )


def values_of(frame: Any) -> set[int]:
    return {row.x for row in frame.collect()}


def test_all_rows_of_a_micro_batch_are_of_one_epoch(stream: Stream, spark, tmp_path, small_batches):
    """A regression test: each Arrow batch read the newest epoch, so a micro-batch had several."""
    (tmp_path / "other").mkdir()
    other = Stream(spark, tmp_path / "other")
    seen: list[set[int]] = []

    def collect(frame: Any, _: int) -> None:
        first = values_of(frame)
        # A second evaluation reads the same epoch.
        assert first == values_of(frame)
        seen.append(first)

    with changing(stream):
        for _ in range(4):
            other.batch(left=[(key, n, n) for n in range(40) for key in KEYS])
        joined = look_up(other.source("left"), stream)
        other_query = joined.writeStream.foreachBatch(collect).trigger(availableNow=True).start()
        other_query.awaitTermination()
    assert [len(values) for values in seen] == [1] * 4
    assert len(set().union(*seen)) > 1, "the micro-batches saw only one epoch"


@pytest.mark.parametrize("is_inside", [False, True], ids=["above foreachBatch", "inside it"])
def test_threads_and_job_groups_of_a_micro_batch_read_one_epoch(
    stream: Stream, spark, tmp_path, is_inside: bool
):
    """A regression test: a thread, a job group and a second call each chose an epoch."""
    (tmp_path / "other").mkdir()
    other = Stream(spark, tmp_path / "other")
    seen: list[list[set[int]]] = []

    @hfs.foreach_batch
    def collect(frame: Any, _: int) -> None:
        def values() -> set[int]:
            return values_of(look_up(frame, stream) if is_inside else frame)

        def of_own_group() -> set[int]:
            frame.sparkSession.sparkContext.setJobGroup("mine", "a group of my own")
            return values()

        found = []
        for evaluate in (values, lambda: in_thread(values), lambda: in_thread(of_own_group)):
            found.append(evaluate())
            await_newer_epoch(stream)
        seen.append([*found, of_own_group()])

    with changing(stream):
        other.batch(left=[(key, 1, 1) for key in KEYS])
        rows = other.source("left")
        joined = rows if is_inside else look_up(rows, stream)
        other_query = joined.writeStream.foreachBatch(collect).trigger(availableNow=True).start()
        other_query.awaitTermination()
    assert len(seen) == 1
    assert [len(values) for values in seen[0]] == [1] * 4
    assert len(set().union(*seen[0])) == 1


def test_a_pinned_epoch_is_read(stream: Stream, spark):
    same_value(stream, 0)
    same_value(stream, 1)
    table = hfs.materialize(stream.source("left"), by="k", name="table", state=stream.state())
    stream.run(table)
    orders = spark.createDataFrame([(key,) for key in KEYS], "k string")
    options = {"on": "k", "columns": ["x"]}
    if "storage_options" in stream.options:
        options["storage_options"] = stream.options["storage_options"]
    for epoch, offline, value in ((None, "auto", 1), (None, "never", 1), (0, "auto", 0)):
        found = hfs.lookup(orders, stream.address, "table", epoch=epoch, offline=offline, **options)
        assert found.columns == ["k", "x"]
        assert {row.x for row in found.collect()} == {value}
    assert hfs.lookup(orders.limit(0), stream.address, "table", **options).collect() == []


def test_a_frame_notices_that_its_epoch_was_taken_back(stream: Stream, spark, tmp_path):
    """A regression test: after a rewind other epochs have the same numbers."""

    def run() -> None:
        table = hfs.materialize(stream.source("left"), by="k", name="table", state=stream.state())
        stream.run(table)

    for value in range(2):
        same_value(stream, value)
        run()
    orders = spark.createDataFrame([(key,) for key in KEYS], "k string")
    options = {"on": "k", "columns": ["x"]}
    if "storage_options" in stream.options:
        options["storage_options"] = stream.options["storage_options"]
    frames = [hfs.lookup(orders, stream.address, "table", epoch=1, **options)]
    (tmp_path / "other").mkdir()
    other = Stream(spark, tmp_path / "other")
    other.batch(left=[(key, 1, 1) for key in KEYS])
    # Inside foreachBatch the frame has the epoch of its micro-batch.
    other.run(other.source("left"), each=lambda frame, _: frames.append(look_up(frame, stream)))
    for frame in frames:
        assert values_of(frame) == {1}
    stream.rewind(1)
    same_value(stream, 2)
    run()
    for frame in frames:
        with pytest.raises(Exception, match="epoch 1 was taken back by a rewind"):
            values_of(frame)
    frames = [hfs.lookup(orders, stream.address, "table", epoch=1, **options)]
    assert values_of(frames[0]) <= {1, 2}
