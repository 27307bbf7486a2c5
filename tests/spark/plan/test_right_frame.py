"""An operator's result as the right frame of another operator.

Task p of the first operator must still have the rows of its partition p.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from streams import Stream

import holdfast.spark as hfs


def deduplicated(frame: DataFrame, state: hfs.State) -> DataFrame:
    return hfs.drop_duplicates(
        frame, by=["k", "x"], on="t", within="1 day", state=state, name="dedup"
    )


def split(frame: DataFrame, state: hfs.State) -> DataFrame:
    """Joins each row of `x` >= 10 with the row of `x` < 10 that was in force."""
    right = frame.where("x < 10").selectExpr("k", "t AS since", "x AS v")
    times = {"by": "k", "left_on": "t", "right_on": "since", "history_retention": "1 day"}
    return hfs.join_asof(frame.where("x >= 10"), right, state=state, name="join", **times)


def in_two_batches(stream: Stream) -> None:
    stream.batch(
        left=[("a", 1, 1), ("b", 1, 2), ("a", 1, 1), ("a", 2, 11), ("b", 2, 12), ("c", 2, 13)]
    )
    stream.batch(
        left=[("b", 2, 12), ("b", 3, 4), ("c", 1, 3), ("a", 4, 14), ("b", 4, 15), ("c", 4, 16)]
    )


JOINED = {0: {11: 1, 12: 2, 13: None}, 1: {14: 1, 15: 4, 16: 3}}


def matches(batches: dict[int, list[tuple]]) -> dict[int, dict[int, int | None]]:
    assert all(len({row[2] for row in rows}) == len(rows) for rows in batches.values())
    return {batch: {row[2]: row[4] for row in rows} for batch, rows in batches.items()}


def test_one_operator_may_feed_both_sides_of_an_as_of_join(stream: Stream):
    state = stream.state()
    in_two_batches(stream)
    # Through a view, of which Spark Connect's client knows only the name.
    deduplicated(stream.source("left"), state).createOrReplaceTempView("deduplicated")
    assert matches(stream.run(split(stream.spark.table("deduplicated"), state))) == JOINED


def test_an_operators_result_may_be_joined_in_foreach_batch(stream: Stream):
    state = stream.state()
    in_two_batches(stream)
    each = hfs.foreach_batch(lambda frame, batch: stream.collect(split(frame, state), batch))
    assert matches(stream.run(deduplicated(stream.source("left"), state), each=each)) == JOINED


def test_two_aggregations_may_be_joined_as_tables(stream: Stream):
    state = stream.state()
    in_two_batches(stream)
    rows = stream.source("left")
    sums = hfs.aggregate(
        rows, by="k", aggs={"t": ("max", "t"), "sum": ("sum", "x")}, state=state, name="sums"
    )
    counts = hfs.aggregate(
        rows, by="k", aggs={"since": ("max", "t"), "rows": "count"}, state=state, name="counts"
    )
    joined = hfs.join_table(
        sums, counts, by="k", left_on="t", right_on="since", state=state, name="table"
    )
    # The rows are sorted by key, then by time, so the dict keeps the last row of each key.
    batches = stream.run(joined)
    assert {
        batch: {k: (total, n) for k, _, total, _, n in rows} for batch, rows in batches.items()
    } == {
        0: {"a": (13, 3), "b": (14, 2), "c": (13, 1)},
        1: {"a": (27, 4), "b": (45, 5), "c": (32, 3)},
    }
