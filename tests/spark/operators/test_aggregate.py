"""Aggregations against Spark's on static frames, and on streams with any micro-batches."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as sql
from streams import Stream, at, seconds

import holdfast.spark as hfs

ROWS = pa.schema(
    [("k", pa.string()), ("t", pa.timestamp("us", "UTC")), ("x", pa.int64()), ("y", pa.float64())]
)
ALL = {
    "rows": "count",
    "values": ("count", "x"),
    "total": ("sum", "x"),
    "least": ("min", "x"),
    "greatest": ("max", "x"),
    "mean": ("avg", "x"),
    "oldest": ("first", "x"),
    "newest": ("last", "x"),
    "different": ("count_distinct", "x"),
    "list": ("collect_list", "x"),
    "set": ("collect_set", "x"),
}


def rows_of(seed: int, count: int, late: int = 0) -> list[tuple[Any, ...]]:
    """Rows over 100 seconds, each at most `late` seconds older than the newest row before it.

    The columns `k` and `x` have nulls.
    """
    draw = random.Random(seed)
    rows = []
    for n in range(count):
        time = n * 100 // count - draw.randint(0, late)
        rows.append(
            (
                draw.choice([None, "a", "b", "c\0d", ""]),
                time,
                draw.choice([None, *range(-3, 4)]),
                draw.random(),
            )
        )
    return rows


def _expected(
    rows: list[tuple[Any, ...]], windows: Any = lambda _: [None]
) -> dict[Any, dict[str, Any]]:
    """The expected results in plain Python, by (key, window's start)."""
    groups: dict[Any, list[tuple[int, int | None]]] = {}
    for key, time, x, *_ in rows:
        for start in windows(time):
            groups.setdefault((key, start), []).append((time, x))
    answers = {}
    for group, members in groups.items():
        present = sorted((time, x) for time, x in members if x is not None)
        ordered = sorted(members, key=lambda row: (row[0], row[1] is not None, row[1] or 0))
        numbers = [x for _, x in present]
        answers[group] = {
            "rows": len(members),
            "values": len(numbers),
            "total": sum(numbers) if numbers else None,
            "least": min(numbers, default=None),
            "greatest": max(numbers, default=None),
            "mean": sum(numbers) / len(numbers) if numbers else None,
            "oldest": ordered[0][1],
            "newest": ordered[-1][1],
            "different": len(set(numbers)),
            "list": numbers,
            "set": sorted(set(numbers)),
        }
    return answers


def _last(batches: dict[int, list[Any]], windowed: bool = False) -> dict[Any, dict[str, Any]]:
    """The last result of each group."""
    answers: dict[Any, dict[str, Any]] = {}
    for _, rows in sorted(batches.items()):
        keys = [(row[0], seconds(row[1]) if windowed else None) for row in rows]
        assert len(keys) == len(set(keys)), "a micro-batch returned a group twice"
        for key, row in zip(keys, rows, strict=True):
            answers[key] = dict(zip(ALL, row[3 if windowed else 1 :], strict=True))
    return answers


@pytest.fixture
def rows(spark, tmp_path) -> Stream:
    return Stream(spark, tmp_path, ROWS, ROWS)


def _sums(stream: Stream, **options: Any) -> Any:
    """The aggregation that the tests on streams run."""
    return hfs.aggregate(
        stream.source("left"), by="k", state=stream.state(), name="sums", **options
    )


def _cut(stream: Stream, rows: list[tuple[Any, ...]], parts: int) -> None:
    size = -(-len(rows) // parts)
    for n in range(parts):
        stream.batch(left=rows[n * size : (n + 1) * size])


@pytest.mark.parametrize("parts", [1, 4])
def test_every_function_is_independent_of_the_micro_batches(rows: Stream, parts: int):
    drawn = rows_of(parts, 120, late=20)
    _cut(rows, drawn, parts)
    frame = _sums(rows, on="t", aggs=ALL)
    assert _last(rows.run(frame)) == _expected(drawn)
    assert rows.log("sums") == dict.fromkeys(range(parts), 2)


def test_a_restart_continues(rows: Stream):
    drawn = rows_of(7, 90)
    _cut(rows, drawn[:60], 2)

    def frame() -> Any:
        return _sums(rows, on="t", aggs=ALL)

    rows.run(frame())
    _cut(rows, drawn[60:], 1)
    assert _last(rows.run(frame())) == _expected(drawn)


@pytest.mark.parametrize(("length", "slide"), [(10, 10), (10, 4)])
def test_update_mode_returns_changed_windows(rows: Stream, length: int, slide: int):
    drawn = rows_of(length + slide, 100, late=30)
    _cut(rows, drawn, 3)
    window = hfs.window(timedelta(seconds=length), timedelta(seconds=slide))
    frame = _sums(rows, on="t", window=window, grace="30 seconds", aggs=ALL)

    def windows(time: int) -> list[int]:
        return [start for start in range(-200, 200, slide) if start <= time < start + length]

    assert _last(rows.run(frame), windowed=True) == _expected(drawn, windows)


def test_close_mode_returns_a_window_once(rows: Stream):
    rows.partitions = 1
    rows.batch(left=[("a", 1, 1, 0.0), ("b", 9, 2, 0.0), ("a", 11, 4, 0.0)])
    rows.batch(left=[("a", 5, 8, 0.0), ("a", 14, 16, 0.0)])
    rows.batch(left=[("a", 15, 32, 0.0)])
    rows.batch(left=[("a", 9, 64, 0.0), ("c", 40, 128, 0.0)])
    rows.batch(left=[("a", 1_000, 256, 0.0)])
    frame = _sums(
        rows,
        on="t",
        window=hfs.window("10 seconds"),
        grace="5 seconds",
        emit="close",
        aggs={"total": ("sum", "x"), "set": ("collect_set", "x")},
    )
    batches = {
        n: [(row[0], seconds(row[1]), row[3], row[4]) for row in found]
        for n, found in rows.run(frame).items()
    }
    assert batches[0] == batches[1] == []
    # The row at 15 closes [0, 10). The row at 9 that comes after it is dropped.
    assert batches[2] == [("a", 0, 9, [1, 8]), ("b", 0, 2, [2])]
    assert batches[3] == [("a", 10, 52, [4, 16, 32])]
    assert batches[4] == [("c", 40, 128, [128])]


def test_a_row_behind_its_grace_is_dropped(rows: Stream):
    # J14, without windows: a late row is neither stored nor returned. A row exactly `grace` behind
    # (90) is not late.
    rows.partitions = 1
    rows.batch(left=[("a", 100, 1, 0.0)])
    rows.batch(left=[("a", 90, 2, 0.0), ("a", 89, 4, 0.0)])
    rows.batch(left=[("b", 89, 8, 0.0)])
    frame = _sums(rows, on="t", grace="10 seconds", aggs={"total": ("sum", "x")})
    assert rows.run(frame) == {0: [("a", 1)], 1: [("a", 3)], 2: []}


def test_windows_are_stored_for_their_retention(rows: Stream):
    rows.partitions = 1
    rows.batch(left=[("a", 5, 1, 0.0), ("a", 29, 2, 0.0)])
    rows.batch(left=[("a", 6, 4, 0.0)])
    rows.batch(left=[("a", 30, 8, 0.0)])
    rows.batch(left=[("a", 7, 16, 0.0), ("a", 10, 32, 0.0)])
    frame = _sums(
        rows,
        on="t",
        window=hfs.window("10 seconds"),
        retention="30 seconds",
        aggs={"total": ("sum", "x")},
    )
    batches = {
        n: [(seconds(row[1]), row[3]) for row in found] for n, found in rows.run(frame).items()
    }
    assert batches == {0: [(0, 1), (20, 2)], 1: [(0, 5)], 2: [(30, 8)], 3: [(10, 32)]}


TYPES: list[tuple[str, sql.DataType, list[Any]]] = [
    ("byte", sql.ByteType(), [1, None, -128]),
    ("short", sql.ShortType(), [1, None, 32_767]),
    ("int", sql.IntegerType(), [1, None, -(2**31)]),
    ("long", sql.LongType(), [2**62, None, -5]),
    ("float", sql.FloatType(), [1.5, None, float("nan")]),
    ("double", sql.DoubleType(), [0.1, None, -2.5]),
    ("dec", sql.DecimalType(10, 2), [Decimal("1.25"), None, Decimal("-99999999.99")]),
    ("wide", sql.DecimalType(38, 6), [Decimal("1.000001"), None, Decimal("-7.5")]),
    ("text", sql.StringType(), ["é", None, "日本"]),
    ("flag", sql.BooleanType(), [True, None, False]),
    ("day", sql.DateType(), [date(1969, 7, 20), None, date(2024, 2, 29)]),
    ("raw", sql.BinaryType(), [b"\0", None, b""]),
    ("span", sql.DayTimeIntervalType(), [timedelta(seconds=1), None, timedelta(days=-3)]),
]


def test_results_have_sparks_types_and_values(spark):
    """The functions that ignore the order of rows, against Spark's batch aggregation.

    Each runs over all `TYPES`; `sum` and `avg` run over numbers and intervals.
    """
    schema = sql.StructType(
        [sql.StructField("k", sql.IntegerType()), *(sql.StructField(n, t) for n, t, _ in TYPES)]
    )
    rows = [
        (k, *(values[(k + n) % 3] for _, _, values in TYPES))
        for k in range(3)
        for n in range(k + 1)
    ]
    frame = spark.createDataFrame(rows, schema)
    aggs: dict[str, Any] = {}
    ours: dict[str, Any] = {}
    for name, data_type, _ in TYPES:
        number = isinstance(data_type, (sql.NumericType, sql.DayTimeIntervalType))
        for function in [
            "count",
            "min",
            "max",
            "count_distinct",
            *(["sum", "avg"] if number else []),
            *(["count_if", "bool_and", "bool_or"] if name == "flag" else []),
        ]:
            aggs[f"{function}_{name}"] = getattr(F, function)(name).alias(f"{function}_{name}")
            ours[f"{function}_{name}"] = (function, name)
        ours[f"set_{name}"] = ("collect_set", name)
        aggs[f"set_{name}"] = F.sort_array(F.collect_set(name)).alias(f"set_{name}")
    expected = frame.groupBy("k").agg(*(aggs[name] for name in ours))
    got = hfs.aggregate(frame, by="k", aggs=ours, state=hfs.State.scratch(partitions=2))
    assert [(f.name, f.dataType) for f in got.schema] == [
        (f.name, f.dataType) for f in expected.schema
    ]
    assert sorted(map(repr, got.collect())) == sorted(map(repr, expected.collect()))


def test_variances_are_near_sparks(spark):
    """In another order of the rows the last digits may differ, in Spark, too."""
    draw = random.Random(3)
    rows = [
        (draw.choice("abc"), draw.choice([None, 5, -(2**40), 2**40]), 1e6 + draw.random())
        for _ in range(200)
    ]
    rows += [("one", 1, 1.0), ("none", None, None)]
    frame = spark.createDataFrame(rows, "k string, x long, y double")
    frame = frame.withColumn("d", F.col("y").cast("decimal(20, 6)")).withColumn(
        "f", F.col("y").cast("float")
    )
    ours: dict[str, Any] = {
        f"{function}_{column}": (function, column)
        for function in ("variance", "stddev", "var_pop", "stddev_pop")
        for column in ("x", "y", "d", "f")
    }
    got = hfs.aggregate(frame, by="k", aggs=ours, state=hfs.State.scratch(partitions=2))
    expected = frame.groupBy("k").agg(
        *(getattr(F, function)(column).alias(name) for name, (function, column) in ours.items())
    )
    assert [(f.name, f.dataType) for f in got.schema] == [
        (f.name, f.dataType) for f in expected.schema
    ]
    found = {row["k"]: tuple(row)[1:] for row in got.collect()}
    of_spark = {row["k"]: tuple(row)[1:] for row in expected.collect()}
    assert found.keys() == of_spark.keys()
    for key, row in found.items():
        for value, other in zip(row, of_spark[key], strict=True):
            near = None if other is None else pytest.approx(other, rel=1e-9, abs=1e-9)
            assert value == near, key


def test_averages_of_long_intervals_equal_sparks(spark):
    """Sums or averages exceed 2^53 microseconds; half microseconds are rounded away from zero."""
    rows = [("a", timedelta(days=3_000 * n, microseconds=1)) for n in range(-3, 40)]
    rows += [("b", timedelta(days=200_000, microseconds=n)) for n in (1, 2)]
    rows += [("c", timedelta(days=-200_000, microseconds=-n)) for n in (1, 2)]
    frame = spark.createDataFrame(rows, "k string, x interval day to second")
    got = hfs.aggregate(
        frame, by="k", aggs={"mean": ("avg", "x")}, state=hfs.State.scratch(partitions=1)
    )
    assert sorted(got.collect()) == sorted(frame.groupBy("k").agg(F.avg("x")).collect())


def test_rows_without_a_time_are_neither_the_first_nor_the_last(spark):
    rows = [("a", at(1), 1), ("a", None, 9), ("a", at(2), 2), ("a", None, 0), ("b", None, 5)]
    frame = spark.createDataFrame(rows, "k string, t timestamp, x long")
    ours = {
        "first": ("first", "x"),
        "last": ("last", "x"),
        "n": "count",
        "all": ("collect_list", "x"),
    }
    got = hfs.aggregate(
        frame, by="k", on="t", aggs=ours, state=hfs.State.scratch(partitions=1)
    ).collect()
    expected = (
        frame.groupBy("k").agg(F.min_by("x", "t"), F.max_by("x", "t"), F.count("*")).collect()
    )
    assert (
        sorted(tuple(row)[:4] for row in got)
        == sorted(map(tuple, expected))
        == [("a", 1, 2, 4), ("b", None, None, 1)]
    )
    assert {row["k"]: row["all"] for row in got} == {"a": [0, 9, 1, 2], "b": [5]}


def test_a_static_frame_closes_all_its_windows(spark):
    rows = [("a", at(n), n) for n in range(25)]
    frame = spark.createDataFrame(rows, "k string, t timestamp, x long")
    got = hfs.aggregate(
        frame,
        by="k",
        on="t",
        window=hfs.window("10 seconds"),
        emit="close",
        aggs={"total": ("sum", "x")},
        state=hfs.State.scratch(partitions=1),
    )
    assert [(seconds(row[1]), seconds(row[2]), row[3]) for row in got.collect()] == [
        (0, 10, 45),
        (10, 20, 145),
        (20, 30, 110),
    ]


def test_a_sum_that_does_not_fit_is_an_error(spark):
    frame = spark.createDataFrame([("a", 2**62)] * 2, "k string, x long")
    with pytest.raises(
        Exception, match=r"sum\(x\) does not fit Int64: cast the column to a wider type"
    ):
        hfs.aggregate(frame, by="k", aggs={"s": ("sum", "x")}, state=hfs.State.scratch()).collect()


@pytest.mark.parametrize("function", ["sum", "avg"])
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_decimal_sum_is_the_same_in_every_order(spark, order: tuple[int, ...], function: str):
    most = "0." + "9" * 38  # two of them do not fit 128 bits
    numbers = [Decimal(most), Decimal(most), Decimal(f"-{most}")]
    rows = [("k", numbers[n]) for n in order]
    frame = spark.createDataFrame(rows, "k string, x decimal(38, 38)").coalesce(1)
    got = hfs.aggregate(
        frame, by="k", aggs={"s": (function, "x")}, state=hfs.State.scratch(partitions=1)
    )
    expected = {"sum": most, "avg": "0." + "3" * 38}
    assert [row["s"] for row in got.collect()] == [Decimal(expected[function])]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"aggs": {}}, "aggs"),
        ({"aggs": {"n": "sum"}}, "give 'count' or a pair"),
        ({"aggs": {"n": ("median", "x")}}, "functions: count, sum"),
        ({"aggs": {"n": ("sum", "z")}}, "no column 'z'"),
        ({"aggs": {"n": ("sum", "k")}}, "needs numbers"),
        ({"aggs": {"n": ("stddev", "k")}}, "stddev needs numbers"),
        ({"aggs": {"k": "count"}}, "two columns named 'k'"),
        (
            {"aggs": {"n": ("min", "c")}},
            r"compares strings by their bytes, and column 'c' is string collate UTF8_LCASE",
        ),
        ({"aggs": {"n": ("collect_set", "s")}}, "compares strings by their bytes"),
        ({"aggs": {"n": ("bool_or", "x")}}, "bool_or cannot take column 'x'"),
        ({"aggs": {"n": ("max_by", "x")}}, r"\('max_by', value, order\)"),
        ({"aggs": {"n": ("max_by", [], "x")}}, "a list of columns"),
        ({"aggs": {"n": ("max_by", ["x", "z"], "x")}}, "no column 'z'"),
        ({"aggs": {"n": ("min_by", "x", "z")}}, "no column 'z'"),
        ({"aggs": {"n": ("min_by", "x", "c")}}, "min_by compares strings by their bytes"),
        ({"aggs": {"n": ("max_by", "x", "m")}}, "max_by cannot take column 'x' and 'm'"),
        ({"aggs": {"n": ("sum", "x", "x")}}, "give 'count' or a pair"),
        ({"aggs": {"n": ("max_by", "x", "x", 0)}}, "0 values: give a number from 1 to 1000"),
        ({"aggs": {"n": ("max_by", "x", "x", 1_001)}}, "1001 values: give a number"),
        ({"aggs": {"n": ("max_by", "x", "x", "3")}}, "'3' values: give a number"),
        ({"aggs": {"n": ("max_by", "x", "x", True)}}, "True values: give a number"),
        ({"by": "z"}, "no column 'z'"),
        ({"by": []}, "by is empty"),
        ({"name": ""}, "name=''"),
        ({"by": ["k", "k"]}, "twice"),
        ({"on": "x"}, "not a timestamp"),
        ({"by": ["k", "t"], "on": "t"}, "column 't' is a key, too"),
        ({"window": hfs.window("1 minute")}, "needs a time"),
        ({"window": "1 minute", "on": "t"}, "hfs.window"),
        ({"emit": "close", "on": "t"}, "needs a window"),
        ({"emit": "end"}, "'update' and 'close'"),
        ({"grace": "1 minute"}, "needs a time"),
        ({"retention": "1 minute", "on": "t"}, "no window"),
        (
            {"retention": "1 second", "on": "t", "window": hfs.window("1 minute")},
            "shorter than a window",
        ),
    ],
)
def test_wrong_arguments_are_named(spark, options: dict[str, Any], words: str):
    frame = spark.createDataFrame([("a", at(0), 1)], "k string, t timestamp, x long")
    frame = frame.withColumn("c", F.collate("k", "UTF8_LCASE")).withColumn(
        "s", F.array(F.struct("c"))
    )
    frame = frame.withColumn("m", F.create_map("k", "x"))
    with pytest.raises(ValueError, match=words):
        hfs.aggregate(
            frame, **{"by": "k", "aggs": {"n": "count"}, "state": hfs.State.scratch(), **options}
        )


def test_a_column_is_no_aggregator(spark):
    frame = spark.createDataFrame([("a", 1)], "k string, x long")
    with pytest.raises(ValueError, match="give 'count' or a pair"):
        hfs.aggregate(frame, by="k", aggs={"n": F.sum("x")}, state=hfs.State.scratch())


def test_functions_take_expressions(spark):
    rows = [("a", 1, 2.0), ("a", None, 3.0), ("a", 4, None), ("b", 5, 6.0)]
    frame = spark.createDataFrame(rows, "k string, x long, `y.z` double")
    x, y = F.col("x"), frame["`y.z`"]
    aggs = {
        "product": ("sum", x * y),
        "same": ("sum", F.col("X") * y),
        "large": ("count", F.when(x > 3, 1)),
        "larger": ("count_if", x > 3),
        "all": ("bool_and", x > 3),
        "any": ("bool_or", x > 3),
        "least": ("min", F.struct(y, x)),
        "texts": ("collect_set", F.concat("k", x.cast("string"))),
        "x": ("max", "x"),
        "plain": ("sum", (x + 0).alias("x")),
    }
    got = hfs.aggregate(frame, by="k", aggs=aggs, state=hfs.State.scratch(partitions=2))
    spark_columns = [
        getattr(F, function)(column).alias(n) for n, (function, column) in aggs.items()
    ]
    expected = frame.groupBy("k").agg(*spark_columns)
    assert [(f.name, f.dataType) for f in got.schema] == [
        (f.name, f.dataType) for f in expected.schema
    ]

    def plain(found: Any) -> list[Any]:
        return sorted((*row[:8], sorted(row[8]), *row[9:]) for row in found.collect())

    assert plain(got) == plain(expected)


def test_an_expression_of_a_stream_is_computed_in_each_micro_batch(rows: Stream):
    drawn = rows_of(3, 60)
    _cut(rows, drawn, 3)
    even = F.when(F.col("x") % 2 == 0, F.col("x"))
    frame = _sums(rows, on="t", aggs={"n": "count", "even": ("sum", even)})
    expected: dict[Any, tuple[int, int | None]] = {}
    for key, _, x, _ in drawn:
        n, total = expected.get(key, (0, None))
        expected[key] = (n + 1, total if x is None or x % 2 else (total or 0) + x)
    last = {key: row[1:] for key, row in rows.last_of_each(frame).items()}
    assert last == expected


RANKED = {
    "most": ("max_by", "x", "y"),
    "least": ("min_by", "x", "y"),
    "newest": ("max_by", ["t", "x"], "t"),
    "largest": ("max_by", ["y", "x"], "x"),
    "top": ("max_by", "x", "y", 3),
    "bottom": ("min_by", ["x"], "y", 1_000),
}


def _ranked(rows: list[tuple[Any, ...]]) -> dict[str, Any]:
    """The results of `RANKED` by their definition: nulls are less than all values."""

    def place(value: Any) -> Any:
        return (value is not None, value or 0)

    valued = [row for row in rows if row[2] is not None]
    ascending = [row[2] for row in sorted(rows, key=lambda row: (row[3], place(row[2])))]
    newest = max(rows, key=lambda row: (row[1], place(row[2])))
    largest = max(valued, key=lambda row: (row[2], row[3]), default=None)
    return {
        "most": ascending[-1],
        "least": ascending[0],
        "newest": (newest[1], newest[2]),
        "largest": None if largest is None else (largest[3], largest[2]),
        "top": ascending[:-4:-1],
        "bottom": [(x,) for x in ascending],
    }


@pytest.mark.parametrize("parts", [1, 4])
def test_values_of_the_greatest_and_least_orders(rows: Stream, parts: int):
    drawn = [(key, time, x, round(y, 1)) for key, time, x, y in rows_of(parts, 120, late=20)]
    _cut(rows, drawn, parts)
    last: dict[Any, dict[str, Any]] = {}
    found = rows.last_of_each(_sums(rows, on="t", aggs=RANKED)).values()
    for key, most, least, newest, largest, top, bottom in found:
        last[key] = {
            "most": most,
            "least": least,
            "newest": (seconds(newest["t"]), newest["x"]),
            "largest": None if largest is None else tuple(largest),
            "top": top,
            "bottom": [tuple(value) for value in bottom],
        }
    groups: dict[Any, list[tuple[Any, ...]]] = {}
    for row in drawn:
        groups.setdefault(row[0], []).append(row)
    assert last == {key: _ranked(members) for key, members in groups.items()}


def test_ranked_values_have_sparks_types_and_values(spark):
    schema = sql.StructType(
        [
            sql.StructField("k", sql.IntegerType()),
            sql.StructField("order", sql.DoubleType()),
            *(sql.StructField(name, data_type) for name, data_type, _ in TYPES),
        ]
    )
    # Orders are distinct: Spark does not define the value of equal ones.
    orders = [[2.5, float("nan")], [None, -1.0], [None, None], [0.5, 0.25]]
    rows = [
        (k, order, *(values[(k + n) % 3] for _, _, values in TYPES))
        for k, of_group in enumerate(orders)
        for n, order in enumerate(of_group)
    ]
    frame = spark.createDataFrame(rows, schema)
    ours: dict[str, Any] = {}
    for function in ["max_by", "min_by"]:
        for name, _, _ in TYPES:
            ours[f"{function}_{name}"] = (function, name, "order")
            ours[f"of_{function}_{name}"] = (function, "order", name)
        ours[f"{function}_row"] = (function, [name for name, _, _ in TYPES], "order")
        ours[f"{function}_some"] = (
            function,
            F.struct("k", "text"),
            F.when(F.col("order") > 0, F.col("order")),
        )

    def expected(name: str) -> Any:
        function, value, order = ours[name]
        value = F.struct(*value) if isinstance(value, list) else value
        return getattr(F, function)(value, order).alias(name)

    got = hfs.aggregate(frame, by="k", aggs=ours, state=hfs.State.scratch(partitions=2))
    of_spark = frame.groupBy("k").agg(*map(expected, ours))
    assert [(f.name, f.dataType) for f in got.schema] == [
        (f.name, f.dataType) for f in of_spark.schema
    ]
    assert sorted(map(repr, got.collect())) == sorted(map(repr, of_spark.collect()))


def test_several_ranked_values_are_an_array_or_null(spark):
    rows = [("a", 1, 0.5), ("a", 2, None), ("a", None, 2.5), ("a", 4, 1.5), ("b", 5, None)]
    frame = spark.createDataFrame(rows, "k string, x long, y double")
    aggs = {
        "top": ("max_by", "x", "y", 2),
        "least": ("min_by", ["y", "x"], F.when(F.col("x") < 3, F.col("y")), 5),
    }
    got = hfs.aggregate(frame, by="k", aggs=aggs, state=hfs.State.scratch(partitions=2))
    assert [field.dataType.simpleString() for field in got.schema] == [
        "string",
        "array<bigint>",
        "array<struct<y:double,x:bigint>>",
    ]
    assert sorted(map(tuple, got.collect())) == [("a", [None, 4], [(0.5, 1)]), ("b", None, None)]


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (lambda: F.col("z"), r"aggs\['n'\]: the frame cannot compute"),
        (lambda: F.col("k"), r"aggs\['n'\]: sum needs numbers, and column 'k' is string"),
        (lambda: F.sum("x"), r"aggs\['n'\]: sum cannot take column 'sum\(x\)'"),
        (lambda: F.explode(F.array("x")), r"aggs\['n'\]: sum cannot take column 'col'"),
        (lambda: F.col("*"), r"aggs\['n'\]: .* is 2 columns: give one"),
    ],
)
def test_a_wrong_expression_is_named(spark, column: Callable[[], Any], words: str):
    frame = spark.createDataFrame([("a", 1)], "k string, x long")
    with pytest.raises(ValueError, match=words):
        hfs.aggregate(frame, by="k", aggs={"n": ("sum", column())}, state=hfs.State.scratch())


def test_two_scratch_operators_need_no_names(spark):
    frame = spark.createDataFrame([("a", 1), ("a", 2)], "k string, x long")
    one, other = (
        hfs.aggregate(
            frame, by="k", aggs={result: ("sum", "x")}, state=hfs.State.scratch(partitions=1)
        )
        for result in ("one", "other")
    )
    assert [tuple(row) for row in one.join(other, "k").collect()] == [("a", 3, 3)]


def test_window_arguments_are_checked_at_the_call():
    for length, slide in (
        ("0 seconds", None),
        ("-1 second", None),
        ("1 second", "2 seconds"),
        ("1 second", "0 seconds"),
    ):
        with pytest.raises(ValueError, match=r"length|slide"):
            hfs.window(length, slide)


def test_another_function_under_the_same_name_is_refused(rows: Stream):
    rows.batch(left=[("a", 1, 1, 0.0)])

    def frame(function: str) -> Any:
        return _sums(rows, aggs={"n": (function, "x")})

    rows.run(frame("sum"))
    rows.batch(left=[("a", 1, 1, 0.0)])
    with pytest.raises(
        Exception, match=r'value column "n" was sum\(Int64\) and is now max\(Int64\)'
    ):
        rows.run(frame("max"))


def test_conditions_of_a_stream(rows: Stream):
    drawn = rows_of(5, 60)
    _cut(rows, drawn, 4)
    positive = F.col("x") > 0
    aggs = {
        "n": ("count_if", positive),
        "all": ("bool_and", positive),
        "any": ("bool_or", positive),
    }
    found = rows.last_of_each(_sums(rows, aggs=aggs))
    last = {key: row[1:] for key, row in found.items()}
    groups: dict[Any, list[bool]] = {}
    for key, _, x, _ in drawn:
        groups.setdefault(key, []).extend([] if x is None else [x > 0])
    assert last == {key: (sum(of), all(of), any(of)) for key, of in groups.items()}


def test_another_number_of_ranked_values_is_refused(rows: Stream):
    rows.batch(left=[("a", 1, 1, 0.0)])

    def frame(*number: int) -> Any:
        return _sums(rows, aggs={"n": ("max_by", "x", "y", *number)})

    rows.run(frame(2))
    for number, words in [((3,), r"Int64, Float64, 3\)"), ((), r"Int64, Float64\)")]:
        rows.batch(left=[("a", 1, 1, 0.0)])
        with pytest.raises(
            Exception,
            match=rf'"n" was max_by\(Int64, Float64, 2\) and is now max_by\({words}',
        ):
            rows.run(frame(*number))


def test_a_column_in_place_of_a_function_is_named(spark):
    frame = spark.createDataFrame([("a", 1)], "k string, x int")
    with pytest.raises(ValueError, match=r"aggs\['n'\]=.*give 'count' or a pair"):
        hfs.aggregate(frame, by="k", aggs={"n": (F.col("x"), "sum")}, state=hfs.State.scratch())
