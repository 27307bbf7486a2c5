"""The tables of a query that was started again, with other code or after a rewind."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
import reading
from pyspark.sql import DataFrame
from streams import Stream, at, kill_hosts

import holdfast.spark as hfs


@pytest.fixture(params=["auto", "only"], ids=["hosts", "copies"])
def offline(request: pytest.FixtureRequest) -> str:
    """The reader's option `offline`: state hosts answer its reads, or copies do."""
    return request.param


def windows(stream: Stream, **options: Any) -> DataFrame:
    asked = {"aggs": {"n": "count"}, **options}
    return hfs.aggregate(
        stream.source("left"),
        by="k",
        on="t",
        window=hfs.window("10 seconds"),
        state=stream.state(),
        name="windows",
        **asked,
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
    # A read of a key does not read the operator's settings from the root each time.
    assert table.fetch_batch(["a"], [at(100)])["n"].to_pylist() == [1]
    starts = table.scan().read_all()["window_start"].to_pylist()
    assert at(100) in starts
    assert at(150) in starts


def test_an_earlier_epoch_keeps_its_retention(stream: Stream):
    stream.batch(left=[("a", 5, 1)])
    stream.batch(left=[("a", 100, 2)])
    stream.run(windows(stream, retention="1 hour"))
    stream.batch(left=[("a", 150, 3)])
    stream.run(windows(stream, retention="20 seconds"))
    for offline in ("auto", "only"):
        table = reading.connect(stream, offline=offline)["windows"]
        starts = table.scan(epoch=1).read_all()["window_start"].to_pylist()
        assert sorted(starts) == [at(0), at(100)]
        assert at(0) not in table.scan().read_all()["window_start"].to_pylist()


@pytest.mark.parametrize("then", [{"retention": "1 hour"}, {"emit": "close"}])
def test_windows_that_had_expired_do_not_come_back(stream: Stream, offline: str, then: Any):
    """A rebuilt database may hold windows that had expired, but not their collected values."""

    def lists(**options: Any) -> DataFrame:
        aggs = {"n": "count", "all": ("collect_list", "x")}
        return windows(stream, aggs=aggs, **options)

    stream.batch(left=[("a", 5, 1)])
    stream.batch(left=[("a", 100, 2)])
    stream.run(lists(retention="20 seconds"))
    kill_hosts()
    shutil.rmtree(stream.root / "state")
    stream.batch(left=[("a", 150, 3)])
    stream.run(lists(**then))
    table = reading.connect(stream, offline=offline)["windows"]
    rows = table.scan().read_all().to_pylist()
    assert at(0) not in [row["window_start"] for row in rows]
    assert all(len(row["all"]) == row["n"] for row in rows)
    assert table.fetch("a", at(0)) is None


def test_a_reader_decodes_with_the_columns_of_the_newest_start(stream: Stream, offline: str):
    stream.batch(left=[("a", 1, 7)])
    one = stream.source("left").selectExpr("k", "x AS bid")
    stream.run(prices(stream, one))
    two = stream.source("left").selectExpr("k", "x AS bid", "x + 100 AS ask")
    stream.batch(left=[("b", 2, 8)])
    stream.run(prices(stream, two))
    table = reading.connect(stream, offline=offline)["table"]
    assert table.get("a") == {"bid": 7, "ask": None}
    stream.rewind()
    # The first version of the columns now has both.
    stream.run(prices(stream, two))
    assert table.get("a") == {"bid": 7, "ask": 107}


def test_the_first_get_after_a_start_has_the_columns_of_the_start(stream: Stream, offline: str):
    stream.batch(left=[("a", 1, 7)])
    one = stream.source("left").selectExpr("k", "x AS bid")
    stream.run(prices(stream, one))
    table = reading.connect(stream, offline=offline)["table"]
    assert table.get("a") == {"bid": 7}
    two = stream.source("left").selectExpr("k", "x AS bid", "x + 100 AS ask")
    stream.batch(left=[("a", 2, 8)])
    stream.run(prices(stream, two))
    assert table.get("a") == {"bid": 8, "ask": 108}


def test_a_table_with_the_key_order_from_before_a_rewind_is_refused(stream: Stream, offline: str):
    """A table from before the rewind has the old key order: its keys would be misread."""
    stream.batch(left=[("a", 1, 1)])
    frame = stream.source("left").selectExpr("'b' AS first", "k AS second", "x")

    def table(*by: str) -> DataFrame:
        return hfs.materialize(frame, by=list(by), state=stream.state(), name="table")

    stream.run(table("first", "second"))
    before = reading.connect(stream, offline=offline)
    old = before["table"]
    assert old.get(("b", "a")) == {"x": 1}
    stream.rewind()
    stream.run(table("second", "first"))
    assert before["table"].get(("a", "b")) == {"x": 1}
    with pytest.raises(ValueError, match="get the table from the reader again"):
        old.get(("b", "a"))
    with pytest.raises(ValueError, match="get the table from the reader again"):
        old.get_batch([("b", "a")])


@pytest.mark.parametrize("history", [None, "1 day"], ids=["newest", "versioned"])
def test_a_table_with_more_key_columns_from_before_a_rewind_is_refused(
    stream: Stream, offline: str, history: str | None
):
    """The row of another key would be found: the second column would be ignored, or be a time."""
    stream.batch(left=[("a", 1, 7)])
    frame = stream.source("left").selectExpr("k", "x AS number", "t", "x")

    def table(*by: str) -> DataFrame:
        options: dict[str, Any] = {"on": "t", "history_retention": history} if history else {}
        return hfs.materialize(frame, by=list(by), state=stream.state(), name="table", **options)

    stream.run(table("k", "number"))
    before = reading.connect(stream, offline=offline)
    old = before["table"]
    assert old.get(("a", 7))["x"] == 7
    asked = stream.spark.createDataFrame([("a", 8)], "k string, n int")
    keys = {"k": "k", "number": "n"}
    joined = hfs.lookup(asked, stream.address, "table", on=keys, columns=["x"], offline=offline)
    assert joined.collect() == [("a", 8, None)]
    stream.rewind()
    stream.run(table("k"))
    with pytest.raises(Exception, match="the key columns of table.table are"):
        joined.collect()
    for _ in range(2):
        with pytest.raises(ValueError, match="get the table from the reader again"):
            old.get(("a", 8))
        with pytest.raises(ValueError, match="get the table from the reader again"):
            old.get_batch([("a", 8)])
        with pytest.raises(ValueError, match="get the table from the reader again"):
            old.scan(prefix=("a", 8)).read_all()
        # The reader knows the new table from now on.
        assert before["table"].get("a")["number"] == 7


def test_a_scan_finds_all_rows_after_a_rewind_has_lengthened_the_key(stream: Stream, offline: str):
    """The prefix was a whole key, which is in one partition; now its rows are in all of them."""
    stream.batch(left=[("a", number, number) for number in range(12)])
    frame = stream.source("left").selectExpr("k", "x AS number", "x")

    def table(*by: str) -> DataFrame:
        return hfs.materialize(frame, by=list(by), state=stream.state(), name="table")

    stream.run(table("k"))
    old = reading.connect(stream, offline=offline)["table"]
    assert old.scan(prefix="a").read_all().num_rows == 1
    stream.rewind()
    stream.run(table("k", "number"))
    assert old.scan(prefix="a").read_all().num_rows == 12


def test_a_reader_follows_columns_that_change_with_a_rewind(stream: Stream, offline: str):
    stream.batch(left=[("a", 1, 7), ("b", 2, 8)])
    frame = stream.source("left").selectExpr("k", "x AS bid", "x + 100 AS ask")
    stream.run(prices(stream, frame))
    table = reading.connect(stream, offline=offline)["table"]
    assert table.get("a") == {"bid": 7, "ask": 107}
    stream.rewind()
    # The columns have another order and the same types. With the old columns, the new rows would
    # be decoded without an error, but with swapped values.
    frame = stream.source("left").selectExpr("k", "x + 100 AS ask", "x AS bid")
    stream.run(prices(stream, frame))
    assert table.get("a") == {"ask": 107, "bid": 7}
    assert table.get_batch(["a", "b"])["bid"].to_pylist() == [7, 8]
