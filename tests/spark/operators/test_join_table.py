"""`join_table`; the state host's tests compare it with the tables' join at any time."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F
from streams import Stream, seconds

import holdfast.spark as hfs


def tables(stream: Stream, **options):
    asked = {
        "by": "k",
        "left_on": "t",
        "right_on": "since",
        "state": stream.state(),
        "name": "join",
        **options,
    }
    return hfs.join_table(stream.source("left"), stream.source("right").drop("n"), **asked)


def changes(rows: list[tuple]) -> list[tuple]:
    return sorted(
        ((row[0], seconds(row[1]), row[2], seconds(row[3]), row[4]) for row in rows), key=str
    )


def test_the_contracts_cases_of_late_rows_hold(stream: Stream):
    # Cases J10, J13, J14 and J15 of tests/contract/README.md, each step in its own micro-batch.
    stream.batch(left=[("k", 5, 1)])
    stream.batch(right=[("k", 1, "x")])
    stream.batch(left=[("k", 3, 2)])
    stream.batch(left=[("k", 4, None)])
    stream.run(tables(stream, history_retention="10 seconds"))
    stream.batch(left=[("k", -6, 3)])
    stream.batch(left=[("k", 5, 4)])
    stream.batch(right=[("k", 6, None)])
    batches = stream.run(tables(stream, history_retention="10 seconds"))
    assert [changes(batches[epoch]) for epoch in range(7)] == [
        [],
        [("k", 5, 1, 1, "x")],
        [],
        [],
        [],
        [("k", 5, 4, 1, "x")],
        [("k", 5, None, 6, None)],
    ]
    assert stream.log() == dict.fromkeys(range(7), 2)


def test_a_late_delete_changes_no_aggregate_of_the_join(stream: Stream):
    # Case J13 of tests/contract/README.md, each step in a micro-batch of its own: late deletes on
    # both sides, then a row that is not late.
    stream.batch(left=[("k", 5, 1)])
    stream.batch(right=[("k", 2, "x")])
    stream.batch(left=[("k", 4, None)], right=[("k", 1, None)])
    stream.batch(left=[("k", 6, 2)])
    aggs = {"n": "count", "total": ("sum", "x"), "all": ("collect_list", "v")}
    batches = stream.run(
        hfs.aggregate(tables(stream), by="k", aggs=aggs, state=stream.state(), name="totals")
    )
    # A result row of nulls would change its group, which would then be returned.
    assert batches == {0: [], 1: [("k", 1, 1, ["x"])], 2: [], 3: [("k", 2, 3, ["x", "x"])]}


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("inner", [("k", 4, 2, 3, "a")]),
        (
            "left",
            [
                ("k", 1, 1, None, None),
                ("k", 1, 1, 3, "a"),
                ("k", 4, 2, 3, "a"),
                ("m", 2, 3, None, None),
            ],
        ),
        (
            "outer",
            [
                ("k", 1, 1, None, None),
                ("k", 1, 1, 3, "a"),
                ("k", 4, 2, 3, "a"),
                ("m", 2, 3, None, None),
                ("z", None, None, 2, "b"),
            ],
        ),
    ],
)
def test_static_tables_are_joined_in_all_ways(spark, how: str, expected: list[tuple]):
    left = spark.sql("select * from values ('k', 1L, 1), ('m', 2L, 3), ('k', 4L, 2) as l(k, s, x)")
    right = spark.sql("select * from values ('k', 3L, 'a'), ('z', 2L, 'b') as r(k, s, v)")
    given = hfs.join_table(
        left.selectExpr("k", "timestamp_seconds(1704067200 + s) t", "x"),
        right.selectExpr("k", "timestamp_seconds(1704067200 + s) t", "v"),
        by="k",
        left_on="t",
        right_on="t",
        how=how,
        state=hfs.State.scratch(partitions=2),
    )
    assert given.columns == ["k", "t", "x", "t_right", "v"]
    if how == "inner":
        expected = [("k", 1, 1, 3, "a"), *expected]
    assert changes(list(map(tuple, given.collect()))) == sorted(expected, key=str)


@pytest.mark.parametrize("history", [{}, {"history_retention": "1 day"}])
def test_the_result_as_a_table_has_the_last_of_several_rows_of_one_key_and_time(
    stream: Stream, history: dict
):
    # As in docs/spark/join_table.md. The value columns come first, so they decide the order by
    # content.
    stream.batch(left=[("k", 1, 9), ("m", 1, 1), ("n", 1, 1)])
    stream.batch(left=[("k", 5, 2)], right=[("k", 5, "x"), ("m", 5, "a"), ("n", 3, "a")])
    stream.batch(left=[("m", 5, None)], right=[("n", 3, None)])
    changed = tables(stream, how="left").select(
        "k", "x", "v", F.greatest("t", "since").alias("at"), "t", "since"
    )
    stored = hfs.materialize(
        changed,
        by="k",
        on="at",
        order_by=["t", "since"],
        name="table",
        state=stream.state(),
        **history,
    )
    found = stream.last_of_each(stored)
    assert {key: row[1:3] for key, row in found.items()} == {
        "k": (2, "x"),
        "m": (None, None),
        "n": (1, None),
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"how": "right"}, "how='right': there are 'inner', 'left' and 'outer'"),
        ({"history_retention": "-1 day"}, "history_retention is negative"),
        ({"history_retention": ""}, "history_retention is an empty string"),
        ({"right_on": "k"}, "right_on: column 'k' of the right frame is string, not a timestamp"),
        ({"by": "x"}, "by: the right frame has no column 'x'"),
        # `materialize` would take a row of the result without a match for a delete.
        (
            {"how": "outer"},
            "how='outer': the right frame has no column other than its key and its time, so a row",
        ),
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
        "state": hfs.State.scratch(),
        **options,
    }
    with pytest.raises(ValueError, match=message):
        hfs.join_table(left, right, **asked)
