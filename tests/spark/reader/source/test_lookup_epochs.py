"""`hfs.lookup` reads one epoch in each micro-batch."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import functions as F
from streams import KEYS, Stream

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


def test_all_rows_of_a_micro_batch_are_of_one_epoch(stream: Stream, spark, tmp_path, small_batches):
    """A regression test: each Arrow batch read the newest epoch, so a micro-batch had several."""
    (tmp_path / "other").mkdir()
    other = Stream(spark, tmp_path / "other")
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
    seen: list[set[int]] = []
    try:
        for _ in range(4):
            other.batch(left=[(key, n, n) for n in range(40) for key in KEYS])
        joined = hfs.lookup(
            other.source("left").select("k", F.col("x").alias("n")).repartition(2),
            stream.address,
            "table",
            on="k",
            columns=["x"],
            storage_options=stream.options.get("storage_options"),
        )

        def collect(frame: Any, _: int) -> None:
            first = {row.x for row in frame.collect()}
            # A second evaluation reads the same epoch.
            assert first == {row.x for row in frame.collect()}
            seen.append(first)

        other_query = joined.writeStream.foreachBatch(collect).trigger(availableNow=True).start()
        other_query.awaitTermination()
    finally:
        ended.set()
        feeder.join()
        query.stop()
    assert [len(values) for values in seen] == [1] * 4
    assert len(set().union(*seen)) > 1, "the micro-batches saw only one epoch"


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
