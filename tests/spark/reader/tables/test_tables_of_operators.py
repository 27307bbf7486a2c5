"""Tables of joins, aggregates and processors."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow.compute as pc
import pytest
from processors import OUT, EveryKind, Hits, Totals
from pyspark.sql import functions as F
from reading import Connect
from streams import KEYS, Stream, at

import holdfast.spark as hfs
from holdfast.errors import (
    UnsupportedOperationError,
)

DAY = "1 day"


def test_joins_show_the_tables_of_their_sides(stream: Stream, connect: Connect):
    stream.batch(right=[("a", 1, "one"), ("b", 2, "two"), ("a", 5, "five")])
    stream.batch(left=[("a", 6, 1)])
    stream.run(stream.joined())
    table = connect(stream)["join"]
    assert (table.operator_kind, table.kind) == ("join_asof", "versioned")
    assert table.get("a", as_of=at(4))["v"] == "one"
    assert table.get_batch(["a", "b"])["v"].to_pylist() == ["five", "two"]


def test_groups_have_the_results_of_their_functions(stream: Stream, connect: Connect, batches):
    frame = hfs.aggregate(
        stream.source("left"),
        by="k",
        aggs={
            "n": "count",
            "total": ("sum", "x"),
            "least": ("min", "x"),
            "most": ("max", "x"),
            "mean": ("avg", "x"),
            "different": ("count_distinct", "x"),
            "all": ("collect_set", "x"),
            "newest": ("max_by", ["k", "x"], "t"),
            "top": ("max_by", "x", "x", 2),
            "large": ("count_if", F.col("x") > 3),
            "any": ("bool_or", F.col("x") > 3),
            "deviation": ("stddev_pop", "x"),
        },
        state=stream.state(),
        name="groups",
    )
    emitted = stream.last_of_each(frame)
    table = connect(stream)["groups"]
    found = table.get_batch(list(emitted)).to_pylist()

    def plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
        structs = (tuple(value.values()) if isinstance(value, dict) else value for value in row)
        return tuple(tuple(value) if isinstance(value, list) else value for value in structs)

    shown = {plain(tuple(row.values())) for row in found}
    expected = {plain(row) for row in emitted.values()}
    assert shown == expected
    assert table.get("zz") is None
    assert table.get_batch(["zz"])["n"].to_pylist() == [None]


def test_windows_of_an_aggregate_are_read_by_their_start(stream: Stream, connect: Connect):
    stream.batch(left=[("a", 5, 1), ("a", 7, 2), ("a", 15, 3), ("b", 15, 4)])
    frame = hfs.aggregate(
        stream.source("left"),
        by="k",
        on="t",
        window=hfs.window("10 seconds"),
        aggs={"total": ("sum", "x")},
        retention=DAY,
        state=stream.state(),
        name="windows",
    )
    stream.run(frame)
    table = connect(stream)["windows"]
    assert table.schema.names == ["k", "window_start", "window_end", "total"]
    assert table.fetch("a", at(0)) == {
        "window_start": at(0),
        "window_end": at(10),
        "total": 3,
    }
    assert table.fetch("a", at(20)) is None
    found = table.fetch_batch(["b", "a"], [at(10), at(10)])
    assert found["total"].to_pylist() == [4, 3]
    assert sorted(table.scan(time_from=at(10)).read_all()["total"].to_pylist()) == [3, 4]
    assert sorted(table.scan(prefix="a").read_all()["total"].to_pylist()) == [3, 3]
    with pytest.raises(UnsupportedOperationError, match="call fetch in place of get"):
        table.get("a")


def test_sessions_of_an_aggregate_have_start_and_end(stream: Stream, connect: Connect):
    stream.batch(left=[("a", 5, 1), ("a", 7, 2), ("a", 15, 3)])
    frame = hfs.aggregate(
        stream.source("left"),
        by="k",
        on="t",
        window=hfs.session_window("5 seconds"),
        aggs={"total": ("sum", "x")},
        retention=DAY,
        state=stream.state(),
        name="sessions",
    )
    rows = stream.run(frame)[0]
    table = connect(stream)["sessions"]
    rows_found = table.scan().read_all().to_pylist()
    for row in rows_found:
        assert (
            table.fetch(row["k"], row["window_start"], row["window_end"])["total"] == row["total"]
        )
    ends = {row["window_end"] for row in rows_found}
    later = table.scan(time_from=min(ends), time_to=at(1000)).read_all()
    assert later.num_rows == len(rows_found)
    found = [tuple(row.values()) for row in rows_found]
    emitted = [(row[0], row[1].astimezone(UTC), row[2].astimezone(UTC), row[3]) for row in rows]
    assert sorted(found) == sorted(emitted)


@pytest.mark.parametrize("kind", ["windows", "sessions"])
def test_closed_windows_have_their_collected_values_until_their_retention_ends(
    stream: Stream, connect: Connect, kind: str
):
    window = {"windows": hfs.window, "sessions": hfs.session_window}[kind]("10 seconds")
    stream.batch(left=[("a", 5, 1), ("a", 6, 1)])
    # The stream time of each partition closes its windows.
    stream.batch(left=[(key, 100, 2) for key in KEYS])
    frame = hfs.aggregate(
        stream.source("left"),
        by="k",
        on="t",
        window=window,
        aggs={"n": "count", "all": ("collect_list", "x"), "set": ("collect_set", "x")},
        grace="0 seconds",
        retention=DAY,
        state=stream.state(),
        name=kind,
    )
    stream.run(frame)
    rows = connect(stream)[kind].scan(prefix="a", time_to=at(50)).read_all().to_pylist()
    assert [(row["n"], row["all"], row["set"]) for row in rows] == [(2, [1, 1], [1])]


def test_a_processors_stores_are_tables(stream: Stream, connect: Connect):
    stream.batch(left=[("a", 1, 1), ("b", 2, 2), ("a", 3, 3)])
    frame = hfs.process(
        stream.source("left"), Hits(), by="k", schema=OUT, state=stream.state(), name="visits"
    )
    stream.run(frame)
    table = connect(stream)["visits"]
    assert (table.store, table.kind, table.schema.names) == ("hits", "key_value", ["key", "value"])
    assert table.get("a") == {"value": 2}
    assert table.get_batch(["b", "zz"])["value"].to_pylist() == [1, None]
    assert sorted(table.scan().read_all()["key"].to_pylist()) == ["a", "b"]


def test_a_key_in_several_partitions_gives_all_rows_or_an_error(stream: Stream, connect: Connect):
    stream.batch(left=[(key, n, n) for n, key in enumerate("abcdef")])
    frame = hfs.process(
        stream.source("left"), Totals(), by="k", schema=OUT, state=stream.state(), name="totals"
    )
    stream.run(frame)
    table = connect(stream)["totals"]
    parts = [row["value"] for row in table.scan(prefix="all").read_all().to_pylist()]
    assert len(parts) > 1
    assert sum(parts) == 6
    found = table.find(["a", "all", "b", "zz"]).to_pylist()
    assert [row["key"] for row in found] == ["a", *["all"] * len(parts), "b"]
    assert sorted(row["value"] for row in found[1:-1]) == sorted(parts)
    chosen = table.dataset().to_table(filter=pc.field("key") == "all")
    assert sorted(chosen["value"].to_pylist()) == sorted(parts)
    assert table.get_batch(["b", "a"])["value"].to_pylist() == [1, 1]
    for read in (lambda: table.get("all"), lambda: table.get_batch(["a", "all"])):
        with pytest.raises(UnsupportedOperationError, match="several partitions have a row"):
            read()


def micros(number: int) -> datetime:
    return datetime(1970, 1, 1, 0, 0, 0, number, tzinfo=UTC)


def test_every_kind_of_a_processors_store_is_read(stream: Stream, connect: Connect):
    stream.batch(left=[("a", 1, 1), ("b", 2, 2), ("a", 3, 3)])
    frame = hfs.process(
        stream.source("left"), EveryKind(), by="k", schema=OUT, state=stream.state(), name="kinds"
    )
    stream.run(frame)
    tables = connect(stream)["kinds"]
    kinds = {name: table.kind for name, table in tables.items()}
    assert kinds == {
        "kv": "key_value",
        "raw": "key_value",
        "rows": "key_value",
        "ts": "timestamped_key_value",
        "v": "versioned",
        "w": "window",
        "many": "window",
        "tw": "timestamped_window",
        "s": "session",
    }
    assert tables["kv"].get_batch(["a", "b", "c"])["value"].to_pylist() == [3, 2, None]
    assert tables["raw"].get(b"a") == {"value": b"3"}
    assert tables["rows"].get({"k": "a", "n": 3}) == {"value": '{"value":3}'}
    assert tables["ts"].get("a") == {"timestamp": micros(30), "value": 3}
    assert tables["v"].get("a", as_of=29) == {
        "valid_from": micros(10),
        "valid_to": micros(30),
        "value": 1,
    }
    assert tables["v"].versions("a").read_all()["value"].to_pylist() == [1, 3]
    window = {"window_start": micros(10), "window_end": micros(20)}
    assert tables["w"].fetch("a", 10) == {**window, "value": 1}
    assert tables["tw"].fetch("a", 10) == {**window, "timestamp": micros(11), "value": 1}
    assert tables["tw"].fetch("a", 11) is None
    both = tables["w"].fetch_batch(["a", "b"], [30, 10])
    assert both["value"].to_pylist() == [3, None]
    assert sorted(tables["w"].scan(prefix="a").read_all()["value"].to_pylist()) == [1, 3]
    assert sorted(tables["many"].scan().read_all()["value"].to_pylist()) == [b"1", b"2", b"3"]
    assert tables["s"].fetch("b", 20, 25) == {"start": micros(20), "end": micros(25), "value": 2}
    assert sorted(tables["s"].scan(time_from=21, time_to=30).read_all()["value"].to_pylist()) == [
        2,
        3,
    ]
    with pytest.raises(ValueError, match="give start and end"):
        tables["s"].fetch("b", 20)
    with pytest.raises(UnsupportedOperationError, match="fetch a range"):
        tables["many"].fetch(b"a", 10)


def test_a_group_whose_result_is_null_is_found(stream: Stream, connect: Connect):
    stream.batch(left=[("a", 1, None)])
    frame = hfs.aggregate(
        stream.source("left"),
        by="k",
        aggs={"total": ("sum", "x")},
        state=stream.state(),
        name="groups",
    )
    stream.run(frame)
    table = connect(stream)["groups"]
    assert table.get("a") == {"total": None}
    assert table.get("b") is None


def test_the_retention_of_the_newest_start_is_valid(stream: Stream, connect: Connect):
    def windows(**options: Any):
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

    stream.batch(left=[("a", 5, 1)])
    stream.run(windows(retention="20 seconds"))
    stream.batch(left=[("a", 100, 2)])
    stream.batch(left=[("a", 150, 3)])
    stream.run(windows(retention="1 hour"))
    starts = connect(stream)["windows"].scan().read_all()["window_start"].to_pylist()
    assert at(100) in starts
    assert at(150) in starts
