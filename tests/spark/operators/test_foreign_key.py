"""`join_table` by a foreign key; the state host's tests compare it with the tables' join."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
import reading
from streams import Stream, at, kill_hosts, seconds

import holdfast.spark as hfs
from holdfast.errors import UnsupportedOperationError

ORDERS = pa.schema(
    [
        ("id", pa.string()),
        ("t", pa.timestamp("us", "UTC")),
        ("customer", pa.string()),
        ("amount", pa.int32()),
    ]
)
CUSTOMERS = pa.schema(
    [("customer", pa.string()), ("since", pa.timestamp("us", "UTC")), ("name", pa.string())]
)


def orders(stream: Stream, **options):
    asked = {
        "by": "id",
        "foreign_key": "customer",
        "left_on": "t",
        "right_on": "since",
        "name": "join",
        **options,
    }
    return hfs.join_table(
        stream.source("left"), stream.source("right"), state=stream.state(), **asked
    )


def changes(rows: list[tuple]) -> list[tuple]:
    return sorted(
        ((row[0], seconds(row[1]), *row[2:4], seconds(row[4]), row[5]) for row in rows), key=str
    )


def test_changes_of_either_side_reach_the_result_also_after_a_kill(spark, tmp_path: Path):
    stream = Stream(spark, tmp_path, left=ORDERS, right=CUSTOMERS)
    stream.partitions = 3
    stream.batch(
        left=[("o1", 2, "c1", 10), ("o2", 3, "c1", 20), ("o3", 3, None, 30)],
        right=[("c2", 1, "Bo")],
    )
    stream.batch(right=[("c1", 1, "Al")])
    stream.batch(left=[("o1", 5, "c2", 10)], right=[("c1", 4, "Ann")])
    frame = orders(stream, how="left")
    assert frame.columns == ["id", "t", "customer", "amount", "since", "name"]
    stream.run(frame)
    assert kill_hosts()
    stream.batch(left=[("o2", 6, None, None)], right=[("c2", 7, "Bob"), ("c1", 8, "Anna")])
    batches = stream.run(orders(stream, how="left"))
    assert [changes(batches[epoch]) for epoch in range(4)] == [
        [
            ("o1", 2, "c1", 10, None, None),
            ("o2", 3, "c1", 20, None, None),
            ("o3", 3, None, 30, None, None),
        ],
        [("o1", 2, "c1", 10, 1, "Al"), ("o2", 3, "c1", 20, 1, "Al")],
        [
            ("o1", 2, "c1", 10, 4, "Ann"),
            ("o1", 5, "c2", 10, 1, "Bo"),
            ("o2", 3, "c1", 20, 4, "Ann"),
        ],
        [("o1", 5, "c2", 10, 7, "Bob"), ("o2", 6, None, None, None, None)],
    ]
    assert stream.log() == stream.log("join_left") == dict.fromkeys(range(4), 3)


@pytest.mark.parametrize("offline", ["never", "only"])
def test_the_left_rows_are_a_table(spark, tmp_path: Path, offline: str):
    stream = Stream(spark, tmp_path, left=ORDERS, right=CUSTOMERS)
    stream.batch(left=[("o1", 2, "c1", 10), ("o2", 3, None, 20)], right=[("c1", 1, "Al")])
    stream.run(orders(stream, how="left"))
    table = reading.connect(stream, offline=offline)["join_left"]
    expected = {"o1": ("c1", 10), "o2": (None, 20)}
    for key, (customer, amount) in expected.items():
        row = table.get(key)
        assert (row["customer"], row["amount"]) == (customer, amount)
    rows = table.scan().read_all().to_pylist()
    assert {row["id"]: (row["customer"], row["amount"]) for row in rows} == expected


def table(stream: Stream, **options):
    """The result as a table, as in docs/spark/join_table.md.

    The value columns come first, so they decide the order by content.
    """
    return hfs.materialize(
        orders(stream, **options).select("id", "name", "amount", "customer", "t", "since"),
        by="id",
        on="t",
        order_by=["since"],
        history_retention="3650 days",
        name="table",
        state=stream.state(),
    )


def test_the_result_is_a_table_by_left_time(spark, tmp_path: Path):
    stream = Stream(spark, tmp_path, left=ORDERS, right=CUSTOMERS)
    # A change of the old customer first, then the order's older move to another one.
    stream.batch(left=[("o1", 2, "c1", 10)], right=[("c1", 1, "Al"), ("c2", 1, "Bo")])
    stream.batch(right=[("c1", 9, "Ann")])
    stream.batch(left=[("o1", 7, "c2", 10)])
    stream.batch(right=[("c1", 12, "Anna")])
    batches = stream.run(table(stream))
    assert [[row[1] for row in batches[epoch]] for epoch in range(4)] == [
        ["Al"],
        ["Ann"],
        ["Bo"],
        [],
    ]


@pytest.mark.parametrize("how", ["inner", "left"])
def test_the_last_of_several_right_changes_in_one_micro_batch_is_valid(
    spark, tmp_path: Path, how: str
):
    stream = Stream(spark, tmp_path, left=ORDERS, right=CUSTOMERS)
    stream.batch(left=[("o1", 2, "c1", 10), ("o2", 2, "c2", 20), ("o3", 2, "c3", 30)])
    # Content would order them the other way: the delete first, Zoe last.
    stream.batch(
        right=[
            ("c1", 1, "Zoe"),
            ("c1", 4, "Amy"),
            ("c2", 1, "Bo"),
            ("c2", 4, None),
            ("c3", 1, None),
            ("c3", 4, "Cy"),
        ]
    )
    found = {key: row[1:3] for key, row in stream.last_of_each(table(stream, how=how)).items()}
    without = (None, None) if how == "inner" else (None, 20)
    assert found == {"o1": ("Amy", 10), "o2": without, "o3": ("Cy", 30)}


def test_a_right_row_older_than_a_left_delete_reaches_the_table(spark, tmp_path: Path):
    stream = Stream(spark, tmp_path, left=ORDERS, right=CUSTOMERS)
    stream.batch(right=[("c1", 1, "Al")])
    stream.batch(left=[("o1", 2, "c1", 10)])
    stream.batch(left=[("o1", 5, None, None)])
    stream.batch(right=[("c1", 3, "Ann")])
    batches = stream.run(table(stream, how="left"))
    # The last one is older than the delete. In a table without history it would bring the order
    # back; the state host's tests cover that.
    assert [[(row[1], seconds(row[4])) for row in batches[epoch]] for epoch in range(4)] == [
        [],
        [("Al", 2)],
        [(None, 5)],
        [("Ann", 2)],
    ]


@pytest.mark.parametrize("how", ["inner", "left"])
def test_static_rows_equal_a_join_of_spark(spark, how: str):
    rng = random.Random(5)
    left = spark.createDataFrame(
        [(n, at(n), rng.choice([1, 2, 3, 4, None]), f"order {n}") for n in range(200)],
        "id int, t timestamp, boss int, x string",
    )
    # The keys of both frames have the same name, so `by` names both.
    right = spark.createDataFrame(
        [(n, at(0), f"name {n}") for n in (1, 2, 3)], "id int, t timestamp, x string"
    )
    given = hfs.join_table(
        left,
        right,
        by="id",
        foreign_key="boss",
        left_on="t",
        right_on="t",
        how=how,
        history_retention="1 hour",
        state=hfs.State.scratch(partitions=3),
    )
    assert given.columns == ["id", "t", "boss", "x", "t_right", "x_right"]
    there = right.toDF("key", "t_right", "x_right")
    expected = left.join(there, left.boss == there.key, how).drop("key")
    assert sorted(map(tuple, given.collect()), key=str) == sorted(
        map(tuple, expected.collect()), key=str
    )


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"how": "outer"}, UnsupportedOperationError, "a right row that no left row refers to has"),
        ({"foreign_key": "boss"}, ValueError, "foreign_key: the left frame has no column 'boss'"),
        (
            {"foreign_key": "x"},
            ValueError,
            "foreign_key: column 'x' is int, and the right frame's key 'k' is string",
        ),
        (
            {"foreign_key": "m"},
            ValueError,
            "foreign_key: column 'm' is map<string,int>, which cannot be a key",
        ),
        (
            {"foreign_key": "k"},
            ValueError,
            "foreign_key: column 'k' is also one of the columns `by`",
        ),
        (
            {"by": ["k", "f"], "foreign_key": "g"},
            ValueError,
            "the right frame has no key column: it needs a column 'g', and has k, since",
        ),
        (
            {"left_on": "k"},
            ValueError,
            "left_on: column 'k' of the left frame is string, not a timestamp",
        ),
    ],
)
def test_bad_input_is_named_at_the_call(spark, options: dict, error: type[Exception], message: str):
    left = spark.createDataFrame(
        [], "k string, t timestamp, x int, f string, g string, m map<string, int>"
    )
    right = spark.createDataFrame([], "k string, since timestamp")
    asked = {
        "by": "k",
        "foreign_key": "f",
        "left_on": "t",
        "right_on": "since",
        "state": hfs.State.scratch(),
        **options,
    }
    with pytest.raises(error, match=message):
        hfs.join_table(left, right, **asked)
