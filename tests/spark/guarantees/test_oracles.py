"""Operators on random streams against polars, and against the static frame of the same rows.

Rows are drawn, delayed by less than the grace, and divided into micro-batches. The state host's
tests (`rust/host/tests/operators`) compare thousands of streams, also with later rows, with models.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from streams import LEFT, Stream, seconds

import holdfast.spark as hfs

EXAMPLES = int(os.environ.get("HOLDFAST_EXAMPLES", "0"))
pytestmark = pytest.mark.skipif(EXAMPLES == 0, reason="long: make oracles")
BEAT = LEFT.append(pa.field("holdfast_heartbeat", pa.timestamp("us", "UTC")))
GRACE = 6
RANDOM = settings(
    max_examples=max(EXAMPLES, 1),
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

KEYS = st.sampled_from(["a", "b", "c"])
TIMES = st.integers(0, 40)


@st.composite
def arriving(draw, *, late: bool = True):
    """Micro-batches of left rows (k, t, x) and right rows (k, t, v), and the number of partitions.

    No two rows of a side have the same key and time.
    """
    sides = [
        draw(st.lists(st.tuples(KEYS, TIMES), min_size=1, max_size=25, unique=True)),
        draw(st.lists(st.tuples(KEYS, TIMES), min_size=1, max_size=25, unique=True)),
    ]
    rows = [
        (time, side, key, n)
        for side, given in enumerate(sides)
        for n, (key, time) in enumerate(given)
    ]
    delays = [draw(st.integers(0, GRACE - 1)) if late else 0 for _ in rows]
    order = sorted(range(len(rows)), key=lambda n: (rows[n][0] + delays[n], rows[n]))
    cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    ends = [*cuts, len(rows)]
    batches = []
    for begin, end in zip([0, *cuts], ends, strict=True):
        part = [rows[n] for n in order[begin:end]]
        batches.append(
            (
                [(key, time, n) for time, side, key, n in part if side == 0],
                [(key, time, f"v{n}") for time, side, key, n in part if side == 1],
            )
        )
    return batches, draw(st.integers(1, 3))


def arrived(spark, folder: Path, drawn) -> Stream:
    batches, partitions = drawn
    stream = Stream(spark, Path(tempfile.mkdtemp(dir=folder)), left=BEAT)
    stream.partitions = partitions
    for left, right in batches:
        stream.batch(left=left, right=right)
    return stream


def run(stream: Stream, operator):
    """The stream's results, by epoch; a last heartbeat releases all waiting rows."""
    stream.batch(left=[(None, None, None, 10_000)])
    done = stream.run(
        operator(stream.source("left"), stream.source("right").drop("n"), stream.state())
    )
    return [[plain(row) for row in done[epoch]] for epoch in sorted(done)]


def appended(stream: Stream, operator):
    """All result rows of an operator that retracts nothing.

    Checks that the static frame of the same rows has the same result.
    """
    left, right = (stream.spark.read.parquet(str(stream.base / side)) for side in ("left", "right"))
    state = hfs.State.scratch(partitions=stream.partitions)
    static = [
        plain(row)
        for row in operator(left.drop("holdfast_heartbeat"), right.drop("n"), state).collect()
    ]
    given = [row for rows in run(stream, operator) for row in rows]
    assert ordered(given) == ordered(static)
    return given


def plain(row):
    return tuple(seconds(cell) if hasattr(cell, "astimezone") else cell for cell in row)


def frames(drawn):
    batches, _ = drawn
    left = [row for rows, _ in batches for row in rows]
    right = [row for _, rows in batches for row in rows]
    return (
        pl.DataFrame(left, {"k": pl.String, "t": pl.Int64, "x": pl.Int64}, orient="row"),
        pl.DataFrame(right, {"k": pl.String, "since": pl.Int64, "v": pl.String}, orient="row"),
    )


def ordered(rows):
    return sorted(rows, key=str)


NEAR = {"by": "k", "left_on": "t", "right_on": "since", "name": "op"}


@RANDOM
@given(
    drawn=arriving(), how=st.sampled_from(["left", "inner"]), tolerance=st.sampled_from([None, 7])
)
def test_join_asof_equals_polars(spark, tmp_path: Path, drawn, how: str, tolerance: int | None):
    within = None if tolerance is None else f"{tolerance} seconds"

    def operator(left, right, state):
        spans = {"history_retention": "1 hour", "grace": f"{GRACE} seconds", "tolerance": within}
        return hfs.join_asof(left, right, how=how, state=state, **spans, **NEAR)

    left, right = frames(drawn)
    there = right.sort("since").with_columns(pl.col("since").alias("from"))
    expected = left.sort("t").join_asof(
        there, left_on="t", right_on="from", by="k", tolerance=tolerance
    )
    expected = (expected.drop_nulls("v") if how == "inner" else expected).select(
        "k", "t", "x", "since", "v"
    )
    given = appended(arrived(spark, tmp_path, drawn), operator)
    assert ordered(given) == ordered(floats(expected))


@RANDOM
@given(drawn=arriving(), how=st.sampled_from(["inner", "left", "right", "outer"]))
def test_join_window_equals_polars(spark, tmp_path: Path, drawn, how: str):
    def operator(left, right, state):
        spans = {"before": "3 seconds", "after": "5 seconds", "grace": f"{GRACE} seconds"}
        return hfs.join_window(left, right, how=how, state=state, **spans, **NEAR)

    left, right = frames(drawn)
    pairs = left.join(right, on="k").filter(
        pl.col("since").is_between(pl.col("t") - 3, pl.col("t") + 5)
    )
    alone = left.join(pairs, on="x", how="anti").with_columns(
        since=pl.lit(None, pl.Int64), v=pl.lit(None, pl.String)
    )
    bare = right.join(pairs, on="v", how="anti").with_columns(
        t=pl.lit(None, pl.Int64), x=pl.lit(None, pl.Int64)
    )
    parts = [
        pairs,
        *([alone] if how in ("left", "outer") else []),
        *([bare] if how in ("right", "outer") else []),
    ]
    expected = pl.concat([part.select("k", "t", "x", "since", "v") for part in parts])
    given = appended(arrived(spark, tmp_path, drawn), operator)
    assert ordered(given) == ordered(floats(expected))


@RANDOM
@given(drawn=arriving(), how=st.sampled_from(["inner", "left", "outer"]))
def test_join_table_equals_polars(spark, tmp_path: Path, drawn, how: str):
    def operator(left, right, state):
        return hfs.join_table(left, right, how=how, history_retention="1 hour", state=state, **NEAR)

    def newer(row):
        return max(time for time in (row[1], row[3]) if time is not None)

    left, right = frames(drawn)
    newest = (left.sort("t").group_by("k").last(), right.sort("since").group_by("k").last())
    given = {}
    for rows in run(arrived(spark, tmp_path, drawn), operator):
        # At equal times the right side comes first; left rows are ordered by time.
        for row in sorted(
            rows,
            key=lambda row: (
                newer(row),
                *(-1 if time is None else time for time in (row[1], row[3])),
            ),
        ):
            if row[0] not in given or newer(given[row[0]]) <= newer(row):
                given[row[0]] = row
    expected = newest[0].join(
        newest[1], on="k", how="full" if how == "outer" else how, coalesce=True
    )
    assert ordered(given.values()) == ordered(floats(expected))


@RANDOM
@given(drawn=arriving())
def test_aggregate_equals_polars(spark, tmp_path: Path, drawn):
    functions = {
        "n": "count",
        "sum": ("sum", "x"),
        "low": ("min", "x"),
        "high": ("max", "x"),
        "first": ("first", "x"),
        "last": ("last", "x"),
        "times": ("count_distinct", "t"),
        "all": ("collect_list", "x"),
    }

    def operator(left, right, state):
        return hfs.aggregate(left, by="k", aggs=functions, on="t", state=state, name="op")

    x = pl.col("x")
    left, _ = frames(drawn)
    groups = left.sort("t").group_by("k", maintain_order=True)
    expected = groups.agg(
        pl.len(), x.sum().alias("sum"), x.min().alias("low"), x.max().alias("high"),
        x.first().alias("first"),
        x.last().alias("last"), pl.col("t").n_unique().alias("times"), x.alias("all"),
    )  # fmt: skip
    given = {row[0]: row for rows in run(arrived(spark, tmp_path, drawn), operator) for row in rows}
    assert ordered(given.values()) == ordered(expected.rows())


@RANDOM
@given(drawn=arriving(late=False))
def test_drop_duplicates_equals_polars(spark, tmp_path: Path, drawn):
    def operator(left, right, state):
        return hfs.drop_duplicates(left, by="k", on="t", within="4 seconds", state=state)

    left, _ = frames(drawn)
    gap = pl.col("t") - pl.col("t").shift().over("k")
    expected = left.sort("k", "t").filter((gap > 4) | gap.is_null())
    given = appended(arrived(spark, tmp_path, drawn), operator)
    assert ordered(given) == ordered(floats(expected))


@RANDOM
@given(drawn=arriving())
def test_materialize_equals_polars(spark, tmp_path: Path, drawn):
    def operator(left, right, state):
        return hfs.materialize(left, by="k", on="t", name="op", state=state)

    left, _ = frames(drawn)
    given = {}
    for rows in run(arrived(spark, tmp_path, drawn), operator):
        given.update({row[0]: row for row in sorted(rows, key=lambda row: row[1])})
    assert ordered(given.values()) == ordered(floats(left.sort("t").group_by("k").last()))


def floats(frame: pl.DataFrame):
    """The frame's rows with times as `seconds` gives them."""
    return frame.with_columns(
        pl.col(name).cast(pl.Float64) for name in ("t", "since") if name in frame.columns
    ).rows()
