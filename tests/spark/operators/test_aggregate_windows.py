"""Sessions and sliding windows in queries with restarts, replays and kills, against Spark's SQL."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Window as Frame
from pyspark.sql import functions as F
from pyspark.sql import types as sql
from streams import Stream, at, kill_hosts, seconds
from test_aggregate import ALL, ROWS, rows_of

import holdfast.spark as hfs

GAP = "5 seconds"
END = ("end", 10_000, None, 0.0)


def test_windows_of_the_page_have_the_drawn_lengths():
    page = (Path(__file__).parents[3] / "docs/spark/aggregate.md").read_text()
    drawn = re.findall(r"hfs\.\w*window\([^)]*\)", page)
    assert [eval(call, {"hfs": hfs}).length for call in drawn[1:4]] == [10_000_000] * 3
    assert not re.search(r"(?<!hfs\.)(?<!sliding_)(?<!session_)window\(\"", page), (
        "a call on the page does not run as it is written: it lacks hfs."
    )


@pytest.fixture
def rows(spark, tmp_path) -> Stream:
    return Stream(spark, tmp_path, ROWS, ROWS)


def _aggregated(stream: Stream, window: Any, **options: Any) -> Any:
    asked = {"aggs": ALL, "emit": "close", "grace": "20 seconds", **options}
    return hfs.aggregate(
        stream.source("left"),
        by="k",
        on="t",
        window=window,
        state=stream.state(),
        name="sums",
        **asked,
    )


def _windows(found: Any) -> list[Any]:
    """Rows of a result with times as seconds, without the rows that only end the stream."""
    answers = [
        (row[0], seconds(row[1]), seconds(row[2]), *row[3:]) for row in found if row[0] != END[0]
    ]
    return sorted(answers, key=lambda row: (repr(row[0]), row[1], row[2]))


def _spark_functions() -> list[Any]:
    columns = {
        "rows": F.count(F.lit(1)),
        "oldest": F.min_by("x", F.struct("t", "x")),
        "newest": F.max_by("x", F.struct("t", "x")),
        "list": F.transform(
            F.array_sort(F.collect_list(F.when(F.col("x").isNotNull(), F.struct("t", "x")))),
            lambda each: each["x"],
        ),
        "set": F.sort_array(F.collect_set("x")),
    }
    plain = {
        "values": "count",
        "total": "sum",
        "least": "min",
        "greatest": "max",
        "mean": "avg",
        "different": "count_distinct",
    }
    columns.update({name: getattr(F, function)("x") for name, function in plain.items()})
    return [columns[name].alias(name) for name in ALL]


def _of_spark(frame: Any) -> list[Any]:
    """What Spark's session_window gives on a static frame."""
    grouped = frame.groupBy("k", F.session_window("t", GAP).alias("w")).agg(*_spark_functions())
    return _windows(grouped.select("k", "w.start", "w.end", *ALL).collect())


def _static(spark: Any, given: list[tuple[Any, ...]]) -> Any:
    return spark.createDataFrame(
        [(k, at(t), x, y) for k, t, x, y in given], "k string, t timestamp, x long, y double"
    )


def test_sessions_equal_sparks_batch_sql(spark, rows: Stream):
    drawn = rows_of(3, 60, late=20)
    for n in range(3):
        rows.batch(left=drawn[n * 20 : (n + 1) * 20])
    # There is one partition, so one row moves the stream time to the end.
    rows.partitions = 1
    rows.batch(left=[END])
    batches = rows.run(_aggregated(rows, hfs.session_window(GAP)))
    found = _windows(row for batch in batches.values() for row in batch)
    frame = _static(spark, drawn)
    static = hfs.aggregate(
        frame,
        by="k",
        on="t",
        window=hfs.session_window(GAP),
        aggs=ALL,
        emit="close",
        state=hfs.State.scratch(partitions=2),
    )
    assert found == _windows(static.collect()) == _of_spark(frame)
    assert any(row[3] > 3 for row in found)


def test_a_row_at_exactly_the_gap_joins_the_session(spark):
    frame = _static(spark, [("a", 0, 1, 0.0), ("a", 5, 2, 0.0), ("a", 10.000001, 3, 0.0)])
    static = hfs.aggregate(
        frame, by="k", on="t", window=hfs.session_window(GAP), aggs=ALL, state=hfs.State.scratch()
    )
    assert [row[1:4] for row in _windows(static.collect())] == [
        (0, 10, 2),
        (10.000001, 15.000001, 1),
    ]
    assert _windows(static.collect()) == _of_spark(frame)


def test_sliding_windows_that_end_with_a_row_equal_sqls_range_frames(spark, rows: Stream):
    drawn = sorted({(k, t, x, 0.0) for k, t, x, _ in rows_of(5, 40)}, key=repr)
    frame = _static(spark, drawn)
    static = hfs.aggregate(
        frame,
        by="k",
        on="t",
        window=hfs.sliding_window("4 seconds"),
        aggs={"n": "count", "total": ("sum", "x"), "distinct": ("collect_set", "x")},
        state=hfs.State.scratch(partitions=2),
    )
    found = {(row[0], row[2]): row[3:] for row in _windows(static.collect())}
    range_frame = Frame.partitionBy("k").orderBy(F.col("t").cast("double")).rangeBetween(-4, 0)
    over = [
        column.over(range_frame) for column in (F.count(F.lit(1)), F.sum("x"), F.collect_set("x"))
    ]
    expected = frame.select("k", "t", *over[:2], F.sort_array(over[2])).distinct().collect()
    assert {(row[0], seconds(row[1])): tuple(row[2:]) for row in expected}.items() <= found.items()
    # Each row also has a window after it, unless that window would be empty.
    assert len(found) > len(expected)


@pytest.mark.parametrize(
    "window", [hfs.session_window(GAP), hfs.sliding_window(GAP)], ids=["session", "sliding"]
)
def test_the_state_survives_kills_restarts_and_replays(rows: Stream, window: Any):
    """Three micro-batches, with a lost commit, killed hosts and restarts between them."""
    given = [
        [("a", 0, 1, 0.0), ("a", 8, 2, 0.0), ("b", 3, 3, 0.0)],
        [("a", 4, 4, 0.0), ("b", 30, 5, 0.0)],
        [("b", 60, 6, 0.0), ("a", 60, 7, 0.0)],
    ]
    rows.partitions = 1
    for batch in given[:2]:
        rows.batch(left=batch)
    rows.run(_aggregated(rows, window, grace="15 seconds"))
    stored = dict(rows.batches)
    # The driver lost the commit of batch 1, which the sink has: Spark replays it.
    rows.forget_commit(1)
    rows.batches.clear()
    assert kill_hosts()
    rows.run(_aggregated(rows, window, grace="15 seconds"))
    assert rows.batches == {1: stored[1]}
    rows.batch(left=given[2])
    rows.batches.clear()
    rows.run(_aggregated(rows, window, grace="15 seconds"))
    out = [row for batch in (stored[0], stored[1], rows.batches[2]) for row in batch]
    assert len(out) == len({tuple(map(str, row[:3])) for row in out}), "a window comes out once"
    merged = [row for row in _windows(out) if row[0] == "a"]
    if isinstance(window, hfs.SessionWindow):
        assert [row[:4] for row in merged] == [("a", 0, 13, 3)]
        assert merged[0][-2:] == ([1, 4, 2], [1, 2, 4])
    else:
        assert [(row[2], row[-2]) for row in merged[:3]] == [(0, [1]), (4, [1, 4]), (5.000001, [4])]


TYPES: list[tuple[str, sql.DataType, list[Any]]] = [
    ("dec", sql.DecimalType(20, 3), [Decimal("1.250"), None, Decimal("-99.990")]),
    ("day", sql.DateType(), [date(1969, 7, 20), None, date(2024, 2, 29)]),
    ("moment", sql.TimestampType(), [at(1), None, at(-5)]),
    ("wall", sql.TimestampNTZType(), [datetime(2024, 1, 1, 3), None, datetime(1960, 1, 1)]),
    ("text", sql.StringType(), ["é", None, "日本"]),
    ("raw", sql.BinaryType(), [b"\0", None, b""]),
    ("list", sql.ArrayType(sql.StringType()), [["b", None], None, []]),
    (
        "pair",
        sql.StructType().add("a", sql.IntegerType()).add("b", sql.ArrayType(sql.LongType())),
        [(1, [2]), None, (None, [])],
    ),
    (
        "deep",
        sql.ArrayType(sql.StructType().add("m", sql.DecimalType(5, 1))),
        [[(Decimal("0.5"),)], None, [None]],
    ),
]
MAP = ("map", sql.MapType(sql.StringType(), sql.LongType()), [{"a": 1}, None, {}])


@pytest.mark.parametrize("window", [None, hfs.session_window(GAP)], ids=["by key", "session"])
def test_values_of_every_type_are_aggregated(spark, window: Any):
    """Every function but `count`, `sum` and `avg` over the types that it takes, against Spark's."""
    columns = [*TYPES, MAP]
    schema = sql.StructType(
        [sql.StructField("k", sql.IntegerType()), sql.StructField("t", sql.TimestampType())]
    )
    for name, data_type, _ in columns:
        schema.add(name, data_type)
    given = [
        (k, at(k * 100 + n), *(values[(k + n) % 3] for *_, values in columns))
        for k in range(3)
        for n in range(k + 1)
    ]
    frame = spark.createDataFrame(given, schema)
    ours: dict[str, Any] = {}
    expected: list[Any] = []
    for name, *_ in columns:
        functions: dict[str, Callable[..., Any]] = {
            "first": lambda c: F.min_by(c, "t"),
            "last": lambda c: F.max_by(c, "t"),
            "collect_list": lambda c: F.transform(
                F.sort_array(
                    F.collect_list(F.when(F.col(c).isNotNull(), F.struct("t", F.col(c).alias("v"))))
                ),
                lambda e: e["v"],
            ),
        }
        if name == "map":
            # Spark cannot sort structs with maps, so it cannot compute the expected list.
            del functions["collect_list"]
        else:
            functions |= {"min": F.min, "max": F.max, "count_distinct": F.count_distinct}
            functions["collect_set"] = lambda c: F.sort_array(F.collect_set(c))
        for function, of_spark in functions.items():
            ours[f"{function}_{name}"] = (function, name)
            expected.append(of_spark(name).alias(f"{function}_{name}"))
    got = hfs.aggregate(
        frame, by="k", on="t", window=window, aggs=ours, state=hfs.State.scratch(partitions=2)
    )
    grouped = frame.groupBy("k").agg(*expected)
    found = got.drop("window_start", "window_end")
    assert [(f.name, f.dataType.simpleString()) for f in found.schema] == [
        (f.name, f.dataType.simpleString()) for f in grouped.schema
    ]
    assert sorted(map(repr, found.collect())) == sorted(map(repr, grouped.collect()))


@pytest.mark.parametrize("function", ["min", "max", "collect_set", "count_distinct", "sum", "avg"])
def test_functions_that_sql_refuses_for_maps_are_refused_at_the_call(spark, function: str):
    frame = spark.createDataFrame([(1, {"a": 1})], "k int, m map<string,long>")
    with pytest.raises(
        ValueError, match=rf"aggs\['n'\]: {function} (cannot take column 'm'|needs numbers)"
    ):
        hfs.aggregate(frame, by="k", aggs={"n": (function, "m")}, state=hfs.State.scratch())


def test_zeros_and_nans_are_distinguished_as_in_sql(spark):
    frame = spark.createDataFrame(
        [(1, value) for value in (0.0, -0.0, float("nan"), float("nan"), 1.5)], "k int, x double"
    )
    got = hfs.aggregate(
        frame, by="k", aggs={"n": ("count_distinct", "x")}, state=hfs.State.scratch()
    )
    assert [row["n"] for row in got.collect()] == [
        row[1] for row in frame.groupBy("k").agg(F.count_distinct("x")).collect()
    ]


def test_nested_floats_are_distinguished_as_in_sql(spark):
    minus_nan = struct.unpack(">d", bytes.fromhex("fff8000000000000"))[0]
    values = [0.0, -0.0, float("nan"), minus_nan, 1.5]
    frame = spark.createDataFrame(pa.table({"k": [1] * len(values), "x": values})).select(
        "k", "x", F.array("x").alias("list"), F.struct(F.struct("x").alias("inner")).alias("row")
    )
    functions = ("min", "max", "count_distinct")
    aggs = {
        f"{function}_{name}": (function, name)
        for name in ("x", "list", "row")
        for function in functions
    }
    aggs["set_list"] = ("collect_set", "list")
    got = hfs.aggregate(frame, by="k", aggs=aggs, state=hfs.State.scratch(partitions=1))
    of_spark = (
        getattr(F, function)(name).alias(result) for result, (function, name) in aggs.items()
    )
    found, expected = (
        # Spark does not define which of two equal zeros it returns, nor the order of a set.
        {
            name: sorted(map(str, value)) if name == "set_list" else str(value)
            for name, value in answer.items()
        }
        for answer in (
            frame.collect()[0].asDict() for frame in (got, frame.groupBy("k").agg(*of_spark))
        )
    )
    assert {name: re.sub("-0", "0", str(value)) for name, value in found.items()} == {
        name: re.sub("-0", "0", str(value)) for name, value in expected.items()
    }
    assert (found["max_x"], found["set_list"]) == ("nan", ["[0.0]", "[1.5]", "[nan]"])


def test_the_sign_of_a_zero_inside_a_struct_does_not_decide(rows: Stream):
    # As in SQL, the zeros are equal, so the next field decides: in an epoch and after it.
    frame = rows.source("left").select("k", F.struct("y", "x").alias("s"))
    aggs = {"least": ("min", "s"), "most": ("max", "s")}
    state = rows.state(partitions=1)
    rows.batch(left=[("a", 1, 3, -0.0), ("a", 1, 1, 0.0)])
    rows.batch(left=[("a", 1, 2, -0.0), ("a", 1, 4, 0.0), ("a", 1, 5, -0.0)])
    found = rows.run(hfs.aggregate(frame, by="k", aggs=aggs, state=state, name="totals"))
    picked = [[(row[1].x, row[2].x) for row in found[epoch]] for epoch in (0, 1)]
    assert picked == [[(1, 3)], [(1, 5)]]


def test_another_window_is_refused_for_the_same_state(rows: Stream):
    rows.batch(left=[("a", 1, 1, 0.0)])
    rows.run(_aggregated(rows, hfs.session_window(GAP)))
    rows.batch(left=[("a", 1, 1, 0.0)])
    with pytest.raises(Exception, match="gap"):
        rows.run(_aggregated(rows, hfs.session_window("6 seconds")))


def test_a_shorter_grace_closes_the_windows_that_were_open(spark, rows: Stream):
    """Each row is returned once, although the windows have another grace after the restart."""
    rows.partitions = 1
    given = [("a", 1, 1, 0.0), ("a", 2, 2, 0.0), ("a", 40, 3, 0.0), ("a", 45, 4, 0.0)]
    window = hfs.window("10 seconds")
    rows.batch(left=given[:2])
    rows.batch(left=given[2:3])
    assert rows.run(_aggregated(rows, window, grace="1 minute")) == {0: [], 1: []}
    rows.batch(left=given[3:])
    rows.batch(left=[END])
    found = rows.run(_aggregated(rows, window, grace=None))
    static = hfs.aggregate(
        _static(spark, given),
        by="k",
        on="t",
        window=window,
        emit="close",
        aggs=ALL,
        state=hfs.State.scratch(partitions=1),
    )
    assert _windows([row for batch in found.values() for row in batch]) == _windows(
        static.collect()
    )


def test_retention_counts_from_a_sessions_last_row(rows: Stream):
    rows.partitions = 1
    rows.batch(left=[("a", 0, 1, 0.0), ("a", 20, 2, 0.0)])
    rows.batch(left=[("b", 29, 4, 0.0)])
    rows.batch(left=[("a", 3, 8, 0.0), ("b", 30, 16, 0.0)])
    rows.batch(left=[("a", 4, 32, 0.0), ("a", 1, 64, 0.0)])
    frame = _aggregated(
        rows,
        hfs.session_window(GAP),
        emit="update",
        grace=None,
        retention="30 seconds",
        aggs={"total": ("sum", "x")},
    )
    found = {
        n: [(row[0], seconds(row[1]), row[3]) for row in batch]
        for n, batch in rows.run(frame).items()
    }
    # At 30 the session of 3 and 0 is still stored, and 4 and 1 join it.
    assert found == {
        0: [("a", 0, 1), ("a", 20, 2)],
        1: [("b", 29, 4)],
        2: [("a", 0, 9), ("b", 29, 20)],
        3: [("a", 0, 105)],
    }


def test_window_durations_are_checked_at_the_call():
    for length in ("0 seconds", "-1 second", timedelta(0)):
        for window in (hfs.sliding_window, hfs.session_window):
            with pytest.raises(ValueError, match=r"length|gap"):
                window(length)
