"""`materialize`; the state host's tests compare its tables with models on random streams."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F
from streams import Stream

import holdfast.spark as hfs


def table(stream: Stream, **options):
    asked = {"by": "k", "state": stream.state(), "name": "table", **options}
    return hfs.materialize(stream.source("left"), **asked)


def taken(rows: list[tuple]) -> list[int | None]:
    return sorted((row[2] for row in rows), key=str)


def test_without_a_time_all_rows_with_a_key_are_returned(stream: Stream):
    stream.batch(left=[("k", 5, 1), (None, 5, 2), ("k", None, 3)])
    assert taken(stream.run(table(stream))[0]) == [1, 3]
    assert stream.log("table") == {0: 2}


def test_with_a_time_older_rows_are_dropped(stream: Stream):
    stream.batch(left=[("k", 5, 1), ("m", 1, 2), ("k", None, 3)])
    stream.batch(left=[("k", 4, 4), ("k", 5, 5), ("m", 2, None)])
    batches = stream.run(table(stream, on="t"))
    assert [taken(batches[epoch]) for epoch in range(2)] == [[1, 2], [5, None]]


def test_with_a_history_late_rows_within_it_are_returned(stream: Stream):
    stream.batch(left=[("k", 100, 1)])
    stream.run(table(stream, on="t", history_retention="10 seconds"))
    stream.batch(left=[("k", 90, 2), ("k", 89.999, 3)])
    batches = stream.run(table(stream, on="t", history_retention="10 seconds"))
    assert taken(batches[1]) == [2]


@pytest.mark.parametrize(
    "options", [{}, {"on": "since"}, {"on": "since", "history_retention": "10 seconds"}]
)
def test_order_by_decides_between_rows_of_one_key_and_time(stream: Stream, options: dict):
    # Without `order_by`, a delete is before the other rows of its key and time. With it, a delete
    # is compared by these columns, like any other row.
    stream.batch(
        right=[
            ("k", 5, None, 2),
            ("k", 5, "z", 1),
            ("m", 5, "a", 2),
            ("m", 5, "z", 1),
            ("n", 5, "z", None),
        ]
    )
    stream.batch(right=[("m", 5, "newer batch", 0)])
    frame = stream.source("right") if options else stream.source("right").drop("since")
    stored = hfs.materialize(
        frame, by="k", name="table", state=stream.state(), order_by=["N"], **options
    )
    found = stream.last_of_each(stored)
    assert {key: row[-2:] for key, row in found.items()} == {
        "k": (None, 2),
        "m": ("newer batch", 0),
        "n": ("z", None),
    }


def test_the_sign_of_a_zero_leaves_the_order_to_the_next_column(stream: Stream):
    stream.batch(left=[("k", 5, 3), ("k", 5, 1), ("m", 5, 2), ("m", 5, 4)])
    price = F.when(F.col("x") < 3, F.lit(0.0)).otherwise(F.lit(-0.0)).alias("price")
    stored = hfs.materialize(
        stream.source("left").select("k", "t", price, "x"),
        by="k",
        on="t",
        order_by=["price", "x"],
        name="table",
        state=stream.state(),
    )
    assert {key: row[-1] for key, row in stream.last_of_each(stored).items()} == {"k": 3, "m": 4}


def test_order_by_decides_between_a_delete_and_a_row(stream: Stream):
    stream.batch(right=[("k", 5, None, 2), ("k", 5, "z", 1)])
    stream.batch(right=[("k", 4, "old", 1)])
    stored = hfs.materialize(
        stream.source("right"),
        by="k",
        on="since",
        order_by=["n"],
        name="table",
        state=stream.state(),
    )
    # A table without history forgets the time of a delete, so it then accepts an older row.
    assert [row[2] for row in stream.run(stored)[1]] == ["old"]


def test_order_by_is_no_part_of_the_state(stream: Stream):
    stream.batch(left=[("k", 5, 1), ("k", 5, 2)])
    stream.run(table(stream, on="t"))
    described = (stream.root / "operators/table.json").read_bytes()
    stream.batch(left=[("k", 5, 4), ("k", 5, 3)])
    assert taken(stream.run(table(stream, on="t", order_by=["x"]))[1]) == [3, 4]
    assert [file.name for file in (stream.root / "operators").iterdir()] == ["table.json"]
    assert (stream.root / "operators/table.json").read_bytes() == described


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": []}, "by is empty"),
        ({"on": "k"}, "on: column 'k' of the given frame is string, not a timestamp"),
        ({"history_retention": "1 day"}, "history_retention needs on"),
        ({"on": "t", "history_retention": "-1 day"}, "history_retention is negative"),
        (
            {"order_by": ["nothing"]},
            "order_by: the given frame has no column 'nothing'; it has k, t, x",
        ),
        ({"name": "a/b"}, "an operator's name is part of file names"),
    ],
)
def test_bad_input_is_named_at_the_call(spark, options: dict, message: str):
    frame = spark.createDataFrame([], "k string, t timestamp, x int")
    with pytest.raises(ValueError, match=message):
        hfs.materialize(
            frame, **{"by": "k", "state": hfs.State.scratch(), "name": "table", **options}
        )


def test_order_by_is_a_list(spark):
    frame = spark.createDataFrame([], "k string, t timestamp, x int")
    with pytest.raises(TypeError, match=r"order_by='x': give a list of columns: \['x'\]"):
        hfs.materialize(frame, by="k", order_by="x", state=hfs.State.scratch(), name="table")
