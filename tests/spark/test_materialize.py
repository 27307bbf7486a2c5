"""What a materialize hands on; the state host's own tests compare the tables with models on random streams."""

from __future__ import annotations

import pytest
from streams import Stream

import holdfast.spark as hfs


def table(stream: Stream, **options):
    asked = {"by": "k", "state": stream.state(), "name": "table", **options}
    return hfs.materialize(stream.source("left"), **asked)


def taken(rows: list[tuple]) -> list[int | None]:
    return sorted((row[2] for row in rows), key=str)


def test_without_a_time_all_rows_with_a_key_go_on(stream: Stream):
    stream.batch(left=[("k", 5, 1), (None, 5, 2), ("k", None, 3)])
    assert taken(stream.run(table(stream))[0]) == [1, 3]
    assert stream.log("table") == {0: 2}


def test_with_a_time_rows_older_than_the_one_kept_do_not(stream: Stream):
    stream.batch(left=[("k", 5, 1), ("m", 1, 2), ("k", None, 3)])
    stream.batch(left=[("k", 4, 4), ("k", 5, 5), ("m", 2, None)])
    batches = stream.run(table(stream, on="t"))
    assert [taken(batches[epoch]) for epoch in range(2)] == [[1, 2], [5, None]]


def test_with_a_history_late_rows_within_it_do(stream: Stream):
    stream.batch(left=[("k", 100, 1)])
    stream.run(table(stream, on="t", history_retention="10 seconds"))
    stream.batch(left=[("k", 90, 2), ("k", 89.999, 3)])
    batches = stream.run(table(stream, on="t", history_retention="10 seconds"))
    assert taken(batches[1]) == [2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": []}, "by is empty"),
        ({"on": "k"}, "on: column 'k' of the given frame is string, not a timestamp"),
        ({"history_retention": "1 day"}, "history_retention needs on"),
        ({"on": "t", "history_retention": "-1 day"}, "history_retention is negative"),
        ({"name": "a/b"}, "an operator's name is part of file names"),
    ],
)
def test_bad_input_is_named_at_the_call(spark, options: dict, message: str):
    frame = spark.createDataFrame([], "k string, t timestamp, x int")
    with pytest.raises(ValueError, match=message):
        hfs.materialize(frame, **{"by": "k", "state": hfs.State.scratch(), "name": "table", **options})
