"""`join_window`; the state host's tests compare it with its definition on random streams."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import functions as F
from streams import Stream, at

import holdfast.spark as hfs


def near(stream: Stream, **options):
    asked = {
        "by": "k",
        "left_on": "t",
        "right_on": "since",
        "before": "3 seconds",
        "after": "5 seconds",
        "name": "join",
    }
    return hfs.join_window(
        stream.source("left"), stream.source("right"), state=stream.state(), **{**asked, **options}
    )


def pairs(rows: list[tuple]) -> list[tuple]:
    return sorted(((row[2], row[4]) for row in rows), key=str)


def test_late_rows_are_dropped_across_a_restart(stream: Stream):
    stream.partitions = 1
    stream.batch(
        left=[("k", 10, 1), ("m", 10, 2)],
        right=[("k", 7, "a"), ("k", 6, "early"), (None, 7, "null")],
    )
    stream.run(near(stream, how="outer", grace="2 seconds"))
    stream.batch(left=[("z", 12, 3)], right=[("k", 15, "b"), ("k", 16, "beyond")])
    stream.batch(right=[("k", 14, "c"), ("k", 13, "late")])
    stream.batch(left=[("z", 18, 4)])
    batches = stream.run(near(stream, how="outer", grace="2 seconds"))
    assert pairs(batches[0]) == [(1, "a"), (None, "null")]
    assert pairs(batches[1]) == [(1, "b"), (None, "early")]
    assert pairs(batches[2]) == [(1, "c")]
    # Left row 2, at 10, waited until the stream time was past 17: 10 + `after` + `grace`.
    assert pairs(batches[3]) == [(2, None)]
    assert stream.log() == dict.fromkeys(range(4), 1)


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
def test_static_rows_equal_a_join_of_spark(spark, how: str):
    rng = random.Random(3)
    left = spark.createDataFrame(
        [(rng.choice(["a", "b", "c", None]), at(rng.randrange(400)), n) for n in range(300)],
        "k string, t timestamp, x int",
    )
    right = spark.createDataFrame(
        [(rng.choice(["a", "b", "d", None]), at(rng.randrange(400)), n) for n in range(300)],
        "k string, t timestamp, v int",
    )
    given = hfs.join_window(
        left,
        right,
        by="k",
        left_on="t",
        right_on="t",
        before="3 seconds",
        after="5 seconds",
        how=how,
        state=hfs.State.scratch(partitions=3),
    )
    assert given.columns == ["k", "t", "x", "t_right", "v"]
    there = right.withColumnRenamed("k", "k_right").withColumnRenamed("t", "t_right")
    close = F.expr(
        "k = k_right and t_right between t - interval 3 seconds and t + interval 5 seconds"
    )
    expected = left.join(there, close, how).select(
        F.coalesce("k", "k_right"), "t", "x", "t_right", "v"
    )
    assert sorted(map(tuple, given.collect()), key=str) == sorted(
        map(tuple, expected.collect()), key=str
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"how": "cross"}, "how='cross': there are 'inner', 'left', 'right' and 'outer'"),
        ({"before": "-1 second"}, "before is negative"),
        ({"after": "1 month"}, "a month has no fixed length"),
        ({"grace": "-1 second"}, "grace is negative"),
        ({"left_on": "k"}, "left_on: column 'k' of the left frame is string, not a timestamp"),
        ({"by": "x"}, "by: the right frame has no column 'x'"),
    ],
)
def test_bad_input_is_named_at_the_call(spark, options: dict, message: str):
    left, right = (
        spark.createDataFrame([], ddl)
        for ddl in ("k string, t timestamp, x int", "k string, since timestamp")
    )
    asked = {
        "by": "k",
        "left_on": "t",
        "right_on": "since",
        "before": "1 second",
        "after": "1 second",
    }
    with pytest.raises(ValueError, match=message):
        hfs.join_window(left, right, state=hfs.State.scratch(), **{**asked, **options})
