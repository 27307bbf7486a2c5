"""Filters of Spark that become reads of keys."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
)
from reading import counted_windows
from streams import KEYS, Stream

import holdfast.spark as hfs
from holdfast._reader.dataset.key_reads import KeyReads, key_reads
from holdfast.spark.source.pushed_filters import pushed_domains

PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"
K, N = ("k",), ("n",)
TWO = pa.schema([("k", pa.string()), ("n", pa.int32())])


@pytest.fixture
def push_down(spark) -> Iterator[None]:
    spark.conf.set(PUSH_DOWN, "true")
    yield
    spark.conf.unset(PUSH_DOWN)


def reads(filters: list[Any], schema: pa.Schema) -> KeyReads:
    return key_reads(pushed_domains(filters, schema), schema, points=True, ranges=True)


def found(filters: list[Any], schema: pa.Schema = TWO) -> Any:
    """The reads that filters become: keys as tuples, or scans with their bounds."""
    of = reads(filters, schema)
    if of.keys is not None:
        return sorted(tuple(row.values()) for row in of.keys.to_pylist())
    return [
        (scan.rows, *(tuple(row.values()) for row in scan.bounds.to_pylist())) for scan in of.scans
    ]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([EqualTo(K, "a"), EqualTo(N, 1)], [("a", 1)]),
        ([In(K, ("a", "b", "a", None)), EqualTo(N, 1)], [("a", 1), ("b", 1)]),
        ([In(K, ("a", "b")), In(N, (1, 2))], [("a", 1), ("a", 2), ("b", 1), ("b", 2)]),
        ([In(K, ("a", "b")), EqualTo(K, "b"), EqualNullSafe(N, 1)], [("b", 1)]),
        ([EqualTo(K, None), EqualTo(N, 1)], []),
        ([EqualTo(K, "a")], [("prefix", ("a",))]),
        ([EqualTo(K, "a"), GreaterThan(N, 1)], [("prefix", ("a",))]),
        (
            [EqualTo(K, "a"), GreaterThan(N, 1), LessThan(N, 5)],
            [("between", ("a", 1), ("a", 5))],
        ),
        ([EqualTo(N, 1)], [("all",)]),
        ([In(K, ("a", "b"))], [("prefix", ("a",)), ("prefix", ("b",))]),
        ([EqualNullSafe(K, None), EqualTo(N, 1)], [(None, 1)]),
        ([IsNull(K), In(N, (1, 2))], [(None, 1), (None, 2)]),
        ([Not(EqualTo(K, "a")), IsNotNull(K)], [("all",)]),
        ([EqualTo(("s", "k"), "a")], [("all",)]),
        ([GreaterThan(K, "a"), LessThanOrEqual(K, "d")], [("between", ("a",), ("d",))]),
        ([GreaterThanOrEqual(K, "a"), GreaterThan(K, "b")], [("from", ("b",))]),
        ([LessThan(K, "d"), LessThan(K, None)], [("to", ("d",))]),
        ([LessThan(K, "a"), GreaterThan(K, "b")], []),
        (
            [EqualTo(K, "a"), In(N, tuple(range(20_000)))],
            [("between", ("a", 0), ("a", 19_999))],
        ),
    ],
)
def test_filters_limit_the_keys_that_are_read(filters: list[Any], expected: Any):
    assert found(filters) == expected


@pytest.mark.parametrize(
    ("kind", "value", "is_key"),
    [
        (pa.int8(), 5, True),
        (pa.int8(), 500, False),
        (pa.int32(), 1.5, False),
        (pa.int32(), 1.0, True),
        (pa.int32(), "1", False),
        (pa.float32(), 0.1, False),
        (pa.float64(), float("nan"), False),
        (pa.decimal128(5, 2), Decimal("1.50"), True),
        (pa.decimal128(5, 2), Decimal("1.555"), False),
        (pa.decimal128(38, 2), Decimal("-1234567890123456789012345.67"), True),
        # PySpark's rounding of -123456789012345678901234567.89.
        (pa.decimal128(38, 2), Decimal("-123456789012345678901234567.9"), False),
        (pa.binary(), b"x", True),
        (pa.date32(), date(2024, 1, 1), True),
        (pa.timestamp("us", "UTC"), datetime(2024, 1, 1, tzinfo=UTC), True),
        (pa.timestamp("us"), datetime(2024, 1, 1), True),
        (pa.timestamp("us"), datetime(2024, 1, 1, tzinfo=UTC), False),
        (pa.struct([("a", pa.int32())]), {"a": 1}, False),
    ],
)
def test_values_of_another_type_limit_nothing(kind: pa.DataType, value: Any, is_key: bool):
    schema = pa.schema([("k", kind)])
    assert (reads([EqualTo(K, value)], schema).keys is not None) == is_key


def read(stream: Stream, **options: Any) -> DataFrame:
    reader = stream.spark.read.format("holdfast").options(**options)
    for name, value in stream.options.get("storage_options", {}).items():
        reader = reader.option(f"storage.{name}", value)
    return reader.load(stream.address)


def scanned(frame: DataFrame) -> int:
    """How many rows the source gave to Spark."""
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan()
    scan = plan.collectLeaves().apply(0)
    return int(scan.metrics().get("numOutputRows").get().value())


@pytest.mark.parametrize("offline", ["auto", "only"])
def test_key_filters_read_only_these_rows(stream: Stream, push_down, offline: str):
    keys = [(f"{key}{number}", number, number) for key in KEYS for number in range(-20, 20)]
    stream.batch(left=keys)
    frame = stream.source("left").select("x", "k", "t")
    stream.run(hfs.materialize(frame, by=["x", "k"], name="table", state=stream.state()))
    table = read(stream, offline=offline)
    for condition, rows, read_rows in (
        ("k = 'a3' and x = 3", 1, 1),
        ("k in ('a3', 'b3', 'zz') and x = 3", 2, 2),
        ("x = 3", 8, 8),
        ("x = 3 and k > 'c'", 6, 8),
        ("x = 3 and k >= 'c' and k < 'd3'", 1, 2),
        ("x in (3, 4)", 16, 16),
        ("x is null", 0, 0),
        ("x between -2 and 1", 32, 32),
        ("x > 17", 16, 24),
        ("k = 'a3'", 1, 320),
        ("x = 3 or k = 'a3'", 8, 320),
        ("k = 'a3' and x = 4", 0, 0),
        ("x <> 3", 312, 320),
    ):
        wanted = table.where(condition)
        assert wanted.count() == rows, condition
        assert scanned(wanted) == read_rows, condition


def test_filters_and_other_options_are_applied_together(stream: Stream, push_down):
    stream.batch(left=[("a", 1, 1), ("a", 3, 3), ("b", 1, 1)])
    frame = stream.source("left")
    stream.run(
        hfs.materialize(
            frame, by="k", on="t", history_retention="1 day", name="table", state=stream.state()
        )
    )
    versions = read(stream, versions="true")
    assert sorted(row.x for row in versions.where("k = 'a'").collect()) == [1, 3]
    assert sorted(row.x for row in versions.where("k <= 'a'").collect()) == [1, 3]
    assert read(stream, key="a").where("k = 'b'").collect() == []
    assert [row.x for row in read(stream, columns="x,k").where("k = 'b'").collect()] == [1]
    # The key is not among the columns, so Spark has no filter that limits the keys.
    assert [row.x for row in read(stream, columns="x").where("x = 3").collect()] == [3]


@pytest.mark.parametrize("offline", ["auto", "only"])
def test_filters_on_windows_read_only_these(stream: Stream, push_down, offline: str):
    stream.batch(left=[(key, second, 1) for key in KEYS for second in range(0, 40, 10)])
    stream.run(counted_windows(stream))
    table = read(stream, offline=offline)
    for condition, rows, read_rows in (
        ("k = 'a'", 4, 4),
        ("k in ('a', 'b', 'zz') and window_start = timestamp '2024-01-01 00:00:20'", 2, 2),
        ("window_start >= timestamp '2024-01-01 00:00:20'", 2 * len(KEYS), 2 * len(KEYS)),
        ("window_start > timestamp '2025-01-01'", 0, 0),
    ):
        wanted = table.where(condition)
        assert wanted.count() == rows, condition
        assert scanned(wanted) == read_rows, condition


def test_versions_of_many_keys_are_read_one_by_one(stream: Stream, push_down):
    keys = [f"k{number}" for number in range(100)]
    stream.batch(left=[(key, second, second) for key in keys for second in (1, 2)])
    stream.run(
        hfs.materialize(
            stream.source("left"),
            by="k",
            on="t",
            history_retention="1 day",
            name="table",
            state=stream.state(),
        )
    )
    wanted = read(stream, versions="true").where(F.col("k").isin(keys[:40]))
    assert wanted.count() == 80
    assert scanned(wanted) == 80


def test_a_filter_is_applied_by_spark_without_push_down(stream: Stream):
    stream.batch(left=[(key, 1, 1) for key in KEYS])
    frame = stream.source("left")
    stream.run(hfs.materialize(frame, by="k", name="table", state=stream.state()))
    wanted = read(stream).where("k = 'c'")
    assert [row.k for row in wanted.collect()] == ["c"]
    assert scanned(wanted) == len(KEYS)
