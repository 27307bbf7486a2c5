"""Heartbeats advance the stream time, far-future rows do not; stores in memory are restored."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pytest
from drivers import wait
from hosted import JOIN, LAYOUT, Host, Query
from pyspark.sql import functions as F
from pyspark.sql import types as sql
from streams import KEYS, LEFT, Stream, seconds

import holdfast.spark as hfs
from holdfast.errors import UnsupportedOperationError
from holdfast.spark.heartbeat import HeartbeatSource
from holdfast.spark.plan.schema import instant

BEAT = LEFT.append(pa.field("holdfast_heartbeat", pa.timestamp("us", "UTC")))
NEAR = {"by": "k", "left_on": "t", "right_on": "since"}
FAR = datetime(2999, 1, 1, tzinfo=UTC)


class Minutes:
    """Sets a timer one minute after each row, and returns a row when it fires."""

    stores = ()

    def process(self, batch, ctx):
        for key, moment in zip(
            batch.column("k").to_pylist(),
            batch.column("t").cast(pa.int64()).to_pylist(),
            strict=True,
        ):
            ctx.set_timer(key, moment + 60_000_000)
        return ()

    def on_timer(self, key, moment, ctx):
        yield pa.record_batch({"k": [key], "at": pa.array([moment], pa.timestamp("us", "UTC"))})


def counted(stream: Stream, state: hfs.State, **options):
    left = options.pop("left", stream.source("left"))
    asked = {
        "by": "k",
        "on": "t",
        "aggs": {"n": "count"},
        "window": hfs.window("10 seconds"),
        "emit": "close",
        **options,
    }
    return hfs.aggregate(left, state=state, **asked)


def joined(stream: Stream, state: hfs.State, join=hfs.join_asof, **options):
    asked = (
        {"history_retention": "1 day"}
        if join is hfs.join_asof
        else {"before": "1 second", "after": "1 second"}
    )
    return join(
        stream.source("left"),
        stream.source("right"),
        state=state,
        **NEAR,
        how="left",
        **asked,
        **options,
    )


# The operators whose rows wait for the stream time (WAITING), and those whose rows do not.
WAITING = {
    "aggregate": counted,
    "join_asof": lambda stream, state: joined(stream, state, grace="1 hour"),
    "join_window": lambda stream, state: joined(stream, state, hfs.join_window),
    "process": lambda stream, state: hfs.process(
        stream.source("left"),
        Minutes(),
        by="k",
        on="t",
        schema="k string, at timestamp",
        state=state,
    ),
}
PASSING = {
    "drop_duplicates": lambda stream, state: hfs.drop_duplicates(
        stream.source("left"), by="k", on="t", within="1 second", state=state
    ),
    "materialize": lambda stream, state: hfs.materialize(
        stream.source("left"), by="k", on="t", name="op", state=state
    ),
    "join_table": lambda stream, state: hfs.join_table(
        stream.source("left"), stream.source("right"), state=state, how="left", **NEAR
    ),
}


@pytest.mark.parametrize("operator", [*WAITING, *PASSING])
def test_a_heartbeat_releases_waiting_rows_in_every_partition_and_is_not_emitted(
    spark, tmp_path: Path, operator: str
):
    stream = Stream(spark, tmp_path, left=BEAT)
    stream.partitions = 3
    keys = list("abcdef")
    stream.batch(left=[(key, 1, n) for n, key in enumerate(keys)])
    stream.batch(left=[(None, None, None, 4_000), (None, None, None, 10)])
    frame = {**WAITING, **PASSING}[operator](stream, stream.state())
    assert "holdfast_heartbeat" not in frame.columns
    batches = stream.run(frame)
    given = [sorted(row[0] for row in batches[epoch]) for epoch in (0, 1)]
    assert given == ([[], keys] if operator in WAITING else [keys, []])
    rows = [progress.observedMetrics for progress in stream.last.recentProgress]
    (metrics,) = (value for name, value in rows[1].items() if not name.endswith(":result"))
    assert metrics[0] == 0


def test_rows_after_a_heartbeat_are_late_and_rows_of_its_batch_are_not(spark, tmp_path: Path):
    stream = Stream(spark, tmp_path, left=BEAT)
    stream.batch(left=[("a", 1, 1), (None, None, None, 100)])
    stream.batch(left=[("a", 2, 2), ("a", 120, 3)])
    stream.batch(left=[(None, None, None, 200)])
    batches = stream.run(counted(stream, stream.state()))
    assert [
        [(row[0], seconds(row[1]), row[3]) for row in batches[epoch]] for epoch in range(3)
    ] == [
        [("a", 0, 1)],
        [],
        [("a", 120, 1)],
    ]


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_time_without_a_zone_advances_while_the_sessions_clock_goes_back(spark, ansi: str):
    micros = [
        1_729_990_799_999_999,
        1_729_990_800_000_000,
        1_729_992_600_123_456,
        1_729_994_400_000_000,
        -1,
        -(10**16) - 1,
    ]
    set_by = {"spark.sql.session.timeZone": "Europe/Berlin", "spark.sql.ansi.enabled": ansi}
    before = {setting: spark.conf.get(setting) for setting in set_by}
    try:
        for setting, value in set_by.items():
            spark.conf.set(setting, value)
        frame = spark.createDataFrame([(n,) for n in micros], "n long").select(
            "n", F.timestamp_micros("n").alias("t")
        )
        found = frame.select("n", instant(F.col("t"), sql.TimestampNTZType())).toArrow().to_pydict()
    finally:
        for setting, value in before.items():
            spark.conf.set(setting, value)
    epoch = datetime(1970, 1, 1)
    n, times = found.values()
    assert [(time - epoch) // timedelta(microseconds=1) for time in times] == n == micros


def test_heartbeats_are_the_same_in_a_replay(stream: Stream):
    left = stream.source("left").unionByName(
        hfs.heartbeat(stream.spark, "1 second", "1 second"), allowMissingColumns=True
    )
    stream.batch(left=[("a", 1, 1)])
    frame = hfs.aggregate(
        left,
        by="k",
        on="t",
        aggs={"n": "count"},
        window=hfs.window("10 seconds"),
        emit="close",
        state=stream.state(),
    )

    def run(until: Callable[[], bool]) -> None:
        # Each run has a process of its own for the clock.
        writer = frame.writeStream.foreachBatch(stream.collect).option(
            "checkpointLocation", str(stream.root / "query")
        )
        query = writer.trigger(processingTime="200 milliseconds").start()
        try:
            wait(lambda: until() or query.exception() is not None, "the clock does not beat")
        finally:
            query.stop()
        assert query.exception() is None

    run(lambda: any(stream.batches.values()))
    assert [row[0] for rows in stream.batches.values() for row in rows] == ["a"]
    # Repeat until the query is stopped between two heartbeats.
    while stream.numbers("offsets")[-1] > (last := stream.numbers("commits")[-1]):
        run(lambda last=last: stream.numbers("commits")[-1] > last + 1)
    # The driver died before it committed the last epoch. Other heartbeats would be other input,
    # which the hosts refuse.
    first = stream.batches.pop(last)
    stream.forget_commit(last)
    run(lambda: last + 1 in stream.batches)
    assert stream.batches[last] == first
    assert [row[0] for rows in stream.batches.values() for row in rows] == ["a"]
    offsets = (stream.root / "query" / "offsets" / str(last)).read_text().splitlines()
    assert sum('"holdfast_heartbeat": ' in line for line in offsets) == 1


def test_a_backlog_after_an_outage_has_no_late_rows(stream: Stream):
    """Heartbeats follow the slowest partition. (`idle.rs` tests what a pause counts.)"""
    found = stream.spark.createDataFrame([(key,) for key in KEYS], "k string").select(
        F.pmod(F.xxhash64("k"), F.lit(2)), "k"
    )
    # A key of each partition.
    by_partition = dict(map(tuple, found.collect()))
    ahead, behind = by_partition[0], by_partition[1]
    # Each micro-batch has a beat, and no partition is idle during this test.
    beats = hfs.heartbeat(stream.spark, "1 millisecond", "1 hour")
    left = stream.source("left").unionByName(beats, allowMissingColumns=True)
    frame = counted(stream, stream.state(), left=left, name="totals")

    def run(files: list[int]) -> int:
        """Runs the query until an epoch has no rows; returns the number of late rows.

        `files` are the numbers of rows in the files that it must read, one in each epoch.
        """
        query = (
            frame.writeStream.foreachBatch(stream.collect)
            .option("checkpointLocation", str(stream.root / "query"))
            .trigger(processingTime="0 seconds")
            .start()
        )

        def counts(name: str, count: str) -> list[int]:
            metrics = [progress.observedMetrics for progress in query.recentProgress]
            return [found[name][count] for found in metrics if name in found]

        def is_done() -> bool:
            rows = counts("holdfast:totals", "rows")
            return sum(rows) == sum(files) and rows[-1] == 0

        try:
            wait(lambda: is_done() or query.exception() is not None, "the files are not read")
        finally:
            query.stop()
        assert query.exception() is None
        assert [rows for rows in counts("holdfast:totals", "rows") if rows] == files
        return sum(counts("holdfast:totals:result", "late"))

    stream.batch(left=[(ahead, 0, 0), (behind, 0, 0)])
    stream.batch(left=[(ahead, 100, 0)])
    assert run([2, 1]) == 0
    # Files that came during the outage. The rows of one partition are far behind the others.
    stream.batch(left=[(ahead, 200, 0)])
    stream.batch(left=[(ahead, 300, 0), (behind, 50, 0)])
    stream.batch(left=[(ahead, 400, 0)])
    stream.batch(left=[(ahead, 500, 0), (behind, 210, 0)])
    assert run([1, 2, 1, 2]) == 0
    windows = [row for _, rows in sorted(stream.batches.items()) for row in rows]
    assert [(row[0], seconds(row[1]), row[3]) for row in windows if row[0] == behind] == [
        (behind, 0, 1),
        (behind, 50, 1),
    ]


def test_a_heartbeat_is_behind_the_clock_and_comes_once_after_a_pause(
    monkeypatch: pytest.MonkeyPatch,
):
    now = 100_000_000
    # The package has a function of the module's name.
    module = import_module("holdfast.spark.heartbeat")
    monkeypatch.setattr(module, "_now", lambda: now)
    source = HeartbeatSource({"every": "10000000", "idle_after": "60000000"})
    clock = source.simpleStreamReader(source.schema())
    beats, first = clock.read(clock.initialOffset())
    assert [*beats] == [(40_000_000,)]
    now += 9_999_999
    assert (*clock.read(first)[0],) == ()
    assert clock.read(first)[1] == first, "no micro-batch without a beat"
    again = HeartbeatSource({"every": "10000000", "idle_after": "1"}).simpleStreamReader("")
    replay = again.readBetweenOffsets(again.initialOffset(), first)
    assert [*replay] == [(40_000_000,)], "a replay of the first micro-batch by a later process"
    now += 1
    beats, second = clock.read(first)
    assert [*beats] == [(50_000_000,)]
    # After an outage there is one beat; Spark's rate source would have a row for each missed beat.
    now += 3_600_000_000
    later = HeartbeatSource({"every": "10000000", "idle_after": "1000000"})
    restarted = later.simpleStreamReader(later.schema())
    beats, third = restarted.read(second)
    assert [*beats] == [(3_709_000_000,)]
    # The line in Spark's offset log, which `rust/host/src/protocol/epoch/idle.rs` reads.
    assert second == {
        "holdfast_heartbeat": 110_000_000,
        "idle_after": 60_000_000,
        "started": 100_000_000,
    }
    assert third == {
        "holdfast_heartbeat": 3_710_000_000,
        "idle_after": 1_000_000,
        "started": 3_710_000_000,
    }
    # A replay after the restart has the times that were planned before it, with their `idle_after`.
    assert [*restarted.readBetweenOffsets(first, second)] == [(50_000_000,)]
    now = 0
    assert restarted.read(third)[1] == third, "a clock that is set back"


def test_a_heartbeat_that_never_beats_is_refused(spark):
    with pytest.raises(ValueError, match="every='0 seconds': give a duration longer than zero"):
        hfs.heartbeat(spark, "0 seconds")


def test_a_far_future_row_is_left_out_and_expires_no_history(stream: Stream):
    stream.partitions = 1
    options = {"max_ahead": "1 day", "history_retention": "1 hour", "name": "join"}
    stream.batch(right=[("k", 1, "a"), ("k", 5, "b")])
    stream.batch(right=[("k", FAR, "z")], left=[("k", FAR, 9)])
    stream.batch(left=[("k", 3, 1), ("k", 9, 2)])
    batches = stream.run(
        hfs.join_asof(
            stream.source("left"), stream.source("right"), state=stream.state(), **NEAR, **options
        )
    )
    assert batches[1] == []
    assert [(row[2], row[4]) for row in batches[2]] == [(1, "a"), (2, "b")]
    progress = next(found for found in stream.last.recentProgress if found.batchId == 1)
    assert progress.observedMetrics["holdfast:join"]["ahead"] == 2
    (file,) = (stream.root / "ahead" / "join").iterdir()
    assert file.name == f"{1:020}.0.arrow"
    rows = pyarrow.feather.read_table(file).sort_by("side").to_pylist()
    assert [(row["side"], row["k"], row["t"], row["v"], row["x"]) for row in rows] == [
        (False, "k", FAR, "z", None),
        (True, "k", FAR, None, 9),
    ]


@pytest.mark.parametrize("operator", ["materialize", "aggregate", "process"])
def test_max_ahead_needs_a_time(stream: Stream, operator: str):
    call = {
        "materialize": lambda **given: hfs.materialize(
            stream.source("left"), by="k", name="op", **given
        ),
        "aggregate": lambda **given: hfs.aggregate(
            stream.source("left"), by="k", aggs={"n": "count"}, **given
        ),
        "process": lambda **given: hfs.process(
            stream.source("left"), Minutes(), by="k", schema="k string", **given
        ),
    }[operator]
    with pytest.raises(ValueError, match="max_ahead needs a time"):
        call(state=stream.state(), max_ahead="1 day")


def test_stores_in_memory_are_restored_after_a_host_ended_cleanly(tmp_path: Path):
    """The database's files remain, the stores are lost; `test_every_operator.py` kills hosts."""

    def rows(*given: tuple[bool, int, int]) -> list[list[pa.RecordBatch]]:
        """Rows of one currency from (is left, time, id of a left row or rate of a right row)."""
        ours = [
            (0, left, False, time, "CHF", n if left else None, None if left else n)
            for left, time, n in given
        ]
        columns = zip(*ours, strict=True)
        return [
            [
                pa.record_batch(
                    [pa.array(column, of.type) for column, of in zip(columns, LAYOUT, strict=True)],
                    LAYOUT,
                )
            ]
        ]

    with (
        tempfile.TemporaryDirectory(prefix="hf") as first,
        tempfile.TemporaryDirectory(prefix="hf") as second,
    ):
        executor = subprocess.Popen(["sleep", "600"])
        query = Query(Host(Path(first), executor.pid), tmp_path, {**JOIN, "persistent": False}, 1)
        query.epoch(rows((False, 1, 95)))
        query.epoch(rows((False, 2, 96), (True, 1, 1)))
        executor.kill()
        executor.wait()
        assert query.host.process.wait(60) == 0
        query.host = Host(Path(second))
        try:
            given = query.epoch(rows((True, 1, 2), (True, 3, 3)))
        finally:
            query.host.stop()
    assert given == [{"id": 2, "rate": 95}, {"id": 3, "rate": 96}]


def test_stores_without_transactions_are_refused():
    with pytest.raises(UnsupportedOperationError, match="must start from the state"):
        hfs.Materialized(transactional=False)
    with pytest.raises(TypeError, match=r"Materialized\(persistent='no'\): give True or False"):
        hfs.Materialized(persistent="no")  # type: ignore[arg-type]


def test_materialized_must_not_contradict_the_operators_options(stream: Stream):
    state, left, right = stream.state(), stream.source("left"), stream.source("right")
    with pytest.raises(ValueError, match="name one operator differently"):
        hfs.materialize(left, by="k", name="a", materialized=hfs.Materialized("b"), state=state)
    with pytest.raises(ValueError, match="history_retention='1 day' and .* differ"):
        hfs.join_asof(
            left,
            right,
            history_retention="1 day",
            materialized=hfs.Materialized(history_retention="2 days"),
            state=state,
            **NEAR,
        )
    with pytest.raises(UnsupportedOperationError, match="so the operator has no history"):
        hfs.drop_duplicates(
            left,
            by="k",
            on="t",
            within="1 day",
            materialized=hfs.Materialized(history_retention="2 days"),
            state=state,
        )
    with pytest.raises(TypeError, match="materialized is a str"):
        hfs.join_table(left, right, materialized="a", state=state, **NEAR)
