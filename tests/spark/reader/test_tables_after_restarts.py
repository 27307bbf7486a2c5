"""The tables of a query that was started again, with other code or after a rewind."""

from __future__ import annotations

from typing import Any

import pytest
import reading
from pyspark.sql import DataFrame
from streams import Stream, at

import holdfast.spark as hfs
from holdfast.cli import main


@pytest.fixture(params=["auto", "only"], ids=["hosts", "copies"])
def offline(request: pytest.FixtureRequest) -> str:
    """Who answers."""
    return request.param


def windows(stream: Stream, **options: Any) -> DataFrame:
    return hfs.aggregate(
        stream.source("left"),
        by="k",
        on="t",
        window=hfs.window("10 seconds"),
        aggs={"n": "count"},
        state=stream.state(),
        name="windows",
        **options,
    )


def prices(stream: Stream, frame: DataFrame) -> DataFrame:
    return hfs.materialize(frame, by="k", state=stream.state(), name="table")


def test_a_reader_follows_a_changed_retention(stream: Stream, offline: str):
    stream.batch(left=[("a", 5, 1)])
    stream.run(windows(stream, retention="20 seconds"))
    table = reading.connect(stream, offline=offline)["windows"]
    starts = table.scan().read_all()["window_start"].to_pylist()
    assert starts == [at(0)]
    stream.batch(left=[("a", 100, 2)])
    stream.batch(left=[("a", 150, 3)])
    stream.run(windows(stream, retention="1 hour"))
    # A read of a key does not read the operator again at each call.
    assert table.fetch_batch(["a"], [at(100)])["n"].to_pylist() == [1]
    starts = table.scan().read_all()["window_start"].to_pylist()
    assert at(100) in starts
    assert at(150) in starts


def test_a_reader_follows_columns_that_change_with_a_rewind(stream: Stream, offline: str):
    stream.batch(left=[("a", 1, 7), ("b", 2, 8)])
    frame = stream.source("left").selectExpr("k", "x AS bid", "x + 100 AS ask")
    stream.run(prices(stream, frame))
    table = reading.connect(stream, offline=offline)["table"]
    assert table.get("a") == {"bid": 7, "ask": 107}
    arguments = ["rewind", stream.address, "--epoch", "0"]
    for name, value in stream.options.get("storage_options", {}).items():
        arguments += ["--storage-option", f"{name}={value}"]
    assert main(arguments) == 0
    # Columns of the same types, in another order: the old columns would decode the new rows.
    frame = stream.source("left").selectExpr("k", "x + 100 AS ask", "x AS bid")
    stream.run(prices(stream, frame))
    assert table.get("a") == {"ask": 107, "bid": 7}
    assert table.get_batch(["a", "b"])["bid"].to_pylist() == [7, 8]
