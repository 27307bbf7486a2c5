"""Columns of stored rows may be added and dropped between two starts of a query."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F
from streams import Stream, seconds


@pytest.fixture
def stream(spark, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)


def test_columns_may_be_added_and_dropped_on_both_sides(stream: Stream):
    out: list[dict[str, Any]] = []

    def start(left: list[Any], right: list[str]) -> list[dict[str, Any]]:
        sources = {
            "left": stream.source("left").select(left),
            "right": stream.source("right").select(right),
        }
        out.clear()
        stream.run(
            each=lambda frame, _: out.extend(row.asDict() for row in frame.collect()),
            grace="5 seconds",
            **sources,
        )
        return [
            {**row, "t": seconds(row["t"]), "since": seconds(row["since"])}
            for row in sorted(out, key=lambda row: row["t"])
        ]

    # Each start releases the left row of the one before: a stored row, joined with a stored right
    # row.
    stream.batch([("a", 5, 1)], [("a", 1, "one", 10)])
    assert start(["k", "t", "x"], ["k", "since", "v"]) == []

    stream.batch([("a", 15, 2)], [("a", 11, "two", 20)])
    y = (F.col("x") * 100).alias("y")
    assert start(["k", "t", y, "x"], ["k", "since", "n", "v"]) == [
        {"k": "a", "t": 5, "y": None, "x": 1, "since": 1, "n": None, "v": "one"}
    ]

    stream.batch([("a", 25, 3), ("a", 25.5, 4)], [("a", 21, "three", 30)])
    assert start(["k", "t", "x"], ["k", "since", "n"]) == [
        {"k": "a", "t": 15, "x": 2, "since": 11, "n": 20}
    ]

    # The code of the first start again, over rows of three versions.
    stream.batch([("a", 100, 5), ("a", 2, 6)])
    assert start(["k", "t", "x"], ["k", "since", "v"]) == [
        {"k": "a", "t": 2, "x": 6, "since": 1, "v": "one"},
        {"k": "a", "t": 25, "x": 3, "since": 21, "v": None},
        {"k": "a", "t": 25.5, "x": 4, "since": 21, "v": None},
    ]


def test_a_column_of_another_type_is_refused_by_name(stream: Stream):
    stream.batch([("a", 5, 1)], [("a", 1, "one", 10)])
    stream.run(right=stream.source("right").select("k", "since", "n"))
    stream.batch([("a", 6, 1)])
    with pytest.raises(
        Exception, match=r'operator join: right column "n" was Int32 and is now Int64.*name=\.\.\.'
    ):
        stream.run(right=stream.source("right").select("k", "since", F.col("n").cast("long")))


def test_nested_nullability_may_change_and_the_times_type_may_not(stream: Stream):
    def start(inner: Any, time: str = "timestamp") -> Any:
        right = stream.source("right").withColumn("since", F.col("since").cast(time))
        right = right.select(
            "k", "since", F.array(inner).alias("a"), F.struct(inner.alias("n")).alias("s")
        )
        left = stream.source("left").withColumn("t", F.col("t").cast(time))
        rows = stream.run(left=left, right=right)
        return [(row[-2], row[-1]["n"]) for row in rows[max(rows)]]

    stream.batch([("a", 5, 1)], [("a", 1, "none", None)])
    assert start(F.col("n")) == [([None], None)]
    # This plan has no nulls for Spark, but the state still has them.
    stream.batch([("a", 6, 1)], [("b", 1, "one", 1)])
    assert start(F.coalesce("n", F.lit(0))) == [([None], None)]
    stream.batch([("b", 6, 1)])
    with pytest.raises(
        Exception,
        match=r'operator join: time column "t, since" was Timestamp.*"UTC".* and is now Timestamp',
    ):
        start(F.col("n"), "timestamp_ntz")
