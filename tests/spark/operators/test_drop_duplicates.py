"""`drop_duplicates`; the state host's tests compare it with its definition on random streams."""

from __future__ import annotations

import random
from datetime import timedelta

import polars as pl
import pytest
from streams import Stream, at

import holdfast.spark as hfs


def fresh(stream: Stream, within: str = "8 seconds", by: str | list[str] = "k"):
    return hfs.drop_duplicates(
        stream.source("left"), by=by, on="t", within=within, state=stream.state(), name="dedup"
    )


def stored(rows: list[tuple]) -> list[int]:
    return sorted(row[2] for row in rows)


def test_late_rows_are_compared_across_a_restart(stream: Stream):
    stream.batch(
        left=[("k", 0, 1), ("k", 8, 2), ("m", 8, 3), (None, 8, 4), (None, 9, 5), ("k", None, 6)]
    )
    stream.batch(left=[("k", 16, 7), ("k", 25, 8)])
    stream.run(fresh(stream))
    stream.batch(left=[("m", 17, 9), ("k", 17, 10), ("k", 16.9, 11), ("z", 16.9, 12)])
    batches = stream.run(fresh(stream))
    assert [stored(batches[epoch]) for epoch in range(3)] == [[1, 3, 4], [8], [9, 12]]
    assert stream.log("dedup") == dict.fromkeys(range(3), 2)


def test_static_rows_equal_polars(spark):
    rng = random.Random(11)
    frame = pl.DataFrame(
        {
            "k": [rng.choice("abcdef") for _ in range(2_000)],
            "t": [at(rng.randrange(5_000)) for _ in range(2_000)],
        }
    ).unique()
    within = timedelta(seconds=5)
    given = hfs.drop_duplicates(
        spark.createDataFrame(frame.to_arrow()),
        by="k",
        on="t",
        within=within,
        state=hfs.State.scratch(partitions=3),
    )
    expected = (
        frame.sort("k", "t")
        .filter((pl.col("t") - pl.col("t").shift(1).over("k") > within).fill_null(value=True))
        .height
    )
    assert given.count() == expected
    assert given.columns == ["k", "t"]


def test_floating_keys_are_returned_unchanged(spark):
    rows = spark.sql(
        "select timestamp_seconds(id) t, case id when 0 then -0.0D when 1 then 0.0D else "
        "double('nan') end k from range(4)"
    )
    stored = hfs.drop_duplicates(
        rows, by="k", on="t", within="9 seconds", state=hfs.State.scratch(partitions=2)
    ).collect()
    assert sorted(str(row["k"]) for row in stored) == ["-0.0", "nan"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "nothing"}, "by: the given frame has no column 'nothing'; it has k, t, x"),
        ({"on": "x"}, "on: column 'x' of the given frame is int, not a timestamp"),
        ({"by": ["k", "t"]}, "on: column 't' is a key, too"),
        ({"within": "-1 second"}, "within is negative"),
    ],
)
def test_bad_input_is_named_at_the_call(spark, options: dict, message: str):
    frame = spark.createDataFrame([], "k string, t timestamp, x int")
    asked = {"by": "k", "on": "t", "within": "1 second", "state": hfs.State.scratch(), **options}
    with pytest.raises(ValueError, match=message):
        hfs.drop_duplicates(frame, **asked)
