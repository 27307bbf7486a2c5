"""Queries that an operator refuses: names, settings of Spark, another root, plans above it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from streams import Stream, values

import holdfast.spark as hfs
from holdfast.errors import HoldfastError, UnsupportedOperationError


def join(spark, state: hfs.State) -> DataFrame:
    """An as-of join of two static frames without rows."""
    left = spark.createDataFrame([], "k string, t timestamp, x int")
    right = spark.createDataFrame([], "k string, since timestamp, v string")
    return hfs.join_asof(
        left,
        right,
        by="k",
        left_on="t",
        right_on="since",
        history_retention="1 day",
        state=state,
    )


def test_two_operators_of_one_name_are_refused(stream: Stream):
    state = stream.state()
    stream.joined(state, name="rates")
    with pytest.raises(
        ValueError,
        match=r"the state at .* has an operator named 'rates' already: give this one another name=",
    ):
        stream.joined(state, name="rates")
    stream.joined(state, name="others")


def test_default_names_contain_the_keys(stream: Stream):
    state = stream.state()
    stream.joined(state, name=None)
    with pytest.raises(ValueError, match="an operator named 'join_asof_k' already"):
        stream.joined(state, name=None)


def test_a_refused_call_takes_no_name(stream: Stream):
    state = stream.state()
    with pytest.raises(ValueError, match="how="):
        stream.joined(state, how="outer")
    stream.joined(state)


def test_a_scratch_state_takes_no_names(spark):
    scratch = hfs.State.scratch(partitions=2)
    assert join(spark, scratch).columns == join(spark, scratch).columns


def test_a_scratch_state_refuses_streams(stream: Stream):
    with pytest.raises(UnsupportedOperationError, match=r"State.scratch\(\) keeps nothing"):
        stream.joined(hfs.State.scratch(partitions=2))
    with pytest.raises(UnsupportedOperationError, match=r"State.scratch\(\) keeps nothing"):
        _ = hfs.State.scratch(partitions=2).checkpoint_location


def test_a_persistent_state_needs_an_epoch(stream: Stream, spark):
    with pytest.raises(
        HoldfastError, match=r"needs an epoch.*readStream.*foreach_batch.*State.scratch\(\)"
    ):
        join(spark, stream.state())


def test_a_static_left_side_beside_a_stream_is_refused(stream: Stream, spark):
    static = spark.createDataFrame([], "k string, t timestamp, x int")
    with pytest.raises(ValueError, match="left is a static frame and right a stream"):
        stream.joined(left=static)


@pytest.mark.parametrize(
    "kind", ["join_asof", "join_window", "join_table", "join_table by a foreign key"]
)
def test_a_static_right_side_beside_a_stream_is_refused(stream: Stream, spark, kind: str):
    static = spark.createDataFrame([], "k string, since timestamp, v string")
    asked = {"by": "k", "left_on": "t", "right_on": "since", "state": stream.state()}
    call, options = {
        "join_asof": (hfs.join_asof, {"history_retention": "1 day"}),
        "join_window": (hfs.join_window, {"before": "1 day", "after": "1 day"}),
        "join_table": (hfs.join_table, {}),
        "join_table by a foreign key": (hfs.join_table, {"by": "x", "foreign_key": "k"}),
    }[kind]
    said = (
        "right is a static frame and left a stream, so .*: read the right frame with "
        "spark.readStream, too"
    )
    # Only an as-of join gives the same result with a table that is put again in each micro-batch.
    said += (
        r", or call join_asof inside foreachBatch\(hfs.foreach_batch\(fn\)\)"
        if kind == "join_asof"
        else "$"
    )
    with pytest.raises(ValueError, match=said):
        call(stream.source("left"), static, **{**asked, **options})


def test_adaptive_execution_is_refused(stream: Stream):
    stream.spark.conf.set("spark.sql.adaptive.enabled", "true")
    with pytest.raises(
        ValueError, match=r'set spark.conf.set\("spark.sql.adaptive.enabled", "false"\)'
    ):
        stream.joined()


def test_speculation_is_warned_of(stream: Stream, monkeypatch: pytest.MonkeyPatch):
    # Spark fixes this setting at the start of the application.
    monkeypatch.setattr("holdfast.spark.plan.call.is_true", lambda *_, **__: True)
    with pytest.warns(UserWarning, match="a sink that is not idempotent") as warned:
        stream.joined()
    assert warned[0].filename.endswith("streams.py"), "the warning names the caller"


def test_adaptive_execution_is_accepted_with_a_scratch_state(spark):
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    assert join(spark, hfs.State.scratch(partitions=2)).collect() == []


def test_foreach_batch_wraps_functions_only():
    with pytest.raises(TypeError, match="foreach_batch takes a function"):
        hfs.foreach_batch("not a function")


def test_foreach_batch_outside_a_query_is_refused(spark):
    with pytest.raises(HoldfastError, match="no streaming query is running it"):
        hfs.foreach_batch(lambda frame, batch_id: None)(spark.range(1), 3)


def test_another_partition_count_is_refused(stream: Stream):
    stream.batch(right=[("k", 4, "a")])
    stream.run()
    stream.batch(left=[("k", 5, 1)])
    stream.partitions = 3
    with pytest.raises(StreamingQueryException, match="2 partitions"):
        stream.run()
    stream.partitions = 2
    assert values(stream.run()[1]) == {1: "a"}


def test_another_querys_root_is_refused(stream: Stream, tmp_path: Path):
    stream.batch(right=[("k", 4, "a")])
    stream.run()
    stream.batch(left=[("k", 5, 1)])
    with pytest.raises(StreamingQueryException, match="checkpointLocation"):
        stream.run(checkpoint=str(tmp_path / "elsewhere"))
    assert values(stream.run()[1]) == {1: "a"}


def test_another_querys_checkpoint_in_the_root_is_refused(stream: Stream):
    stream.batch(right=[("k", 4, "a")])
    stream.run()
    (stream.root / "query").rename(stream.root / "gone")
    with pytest.raises(StreamingQueryException, match="a root serves one query"):
        stream.run()
    for part in sorted((stream.root / "query").rglob("*"), reverse=True):
        part.rmdir() if part.is_dir() else part.unlink()
    (stream.root / "query").rmdir()
    (stream.root / "gone").rename(stream.root / "query")
    stream.batch(left=[("k", 5, 1)])
    assert values(stream.run()[1]) == {1: "a"}


def test_another_schema_is_refused(stream: Stream):
    stream.batch(right=[("k", 4, "a")])
    stream.run()
    stream.batch(left=[("k", 5, 1)])
    with pytest.raises(StreamingQueryException, match=r"column.*\bn\b"):
        stream.run(right=stream.source("right").withColumn("n", F.col("n").cast("string")))
    assert values(stream.run()[1]) == {1: "a"}


def test_a_union_above_an_operator_is_refused(stream: Stream):
    stream.batch(left=[("k", 5, 1)], right=[("k", 4, "a")])
    other = stream.source("left").select(
        "*", F.lit(None).cast("timestamp"), F.lit("other"), F.lit(0)
    )
    with pytest.raises(
        StreamingQueryException,
        match=r"operator 'join': .*A union or coalesce above the operator moves",
    ):
        stream.run(other.union(stream.joined()))


@pytest.mark.parametrize("keys", ["abcdefgh", ""])
def test_a_coalesce_above_an_operator_is_refused(stream: Stream, keys: str):
    stream.batch(left=[(key, 5, 1) for key in keys])
    said = r"operator join, epoch 0: .*computes partition 0 twice.*coalesce above.*repartition\(\)"
    with pytest.raises(StreamingQueryException, match=said):
        stream.run(stream.joined().coalesce(1))


def test_a_shuffle_between_an_operator_and_a_union_is_accepted(stream: Stream):
    stream.batch(left=[("k", 5, 1)], right=[("k", 4, "a")])
    other = stream.source("left").select(
        "*", F.lit(None).cast("timestamp"), F.lit("other"), F.lit(0)
    )
    assert {row[4] for row in stream.run(other.union(stream.joined().repartition(2)))[0]} == {
        "a",
        "other",
    }


def test_asynchronous_progress_is_refused(stream: Stream):
    for _ in range(2):
        stream.batch(left=[("k", 5, 1)], right=[("k", 4, "a")])
    query = (
        stream.joined()
        .writeStream.format("noop")
        .option("checkpointLocation", stream.state().checkpoint_location)
        .option("asyncProgressTrackingEnabled", "true")
        .option("asyncProgressTrackingCheckpointIntervalMs", "600000")
    )
    with pytest.raises(StreamingQueryException, match="query/(offsets|commits)/"):
        started = query.start()
        try:
            started.processAllAvailable()
        finally:
            started.stop()
