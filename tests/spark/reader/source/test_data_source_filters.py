"""Filters of Spark that become reads of keys."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)
from streams import KEYS, Stream

import holdfast.spark as hfs
from holdfast.spark.source.key_filters import KeyFilters

PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"
K, N = ("k",), ("n",)
TWO = pa.schema([("k", pa.string()), ("n", pa.int32())])


@pytest.fixture
def push_down(spark) -> Iterator[None]:
    spark.conf.set(PUSH_DOWN, "true")
    yield
    spark.conf.unset(PUSH_DOWN)


def found(filters: list[Any], schema: pa.Schema = TWO) -> Any:
    """What filters say: keys as tuples, a prefix, or a range."""
    of = KeyFilters.of(filters, schema)
    if of.keys is not None:
        return sorted(tuple(row.values()) for row in of.keys.to_pylist())
    return of.prefix or (of.start, of.end)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([EqualTo(K, "a"), EqualTo(N, 1)], [("a", 1)]),
        ([In(K, ("a", "b", "a", None)), EqualTo(N, 1)], [("a", 1), ("b", 1)]),
        ([In(K, ("a", "b")), In(N, (1, 2))], [("a", 1), ("a", 2), ("b", 1), ("b", 2)]),
        ([In(K, ("a", "b")), EqualTo(K, "c"), EqualNullSafe(N, 1)], [("c", 1)]),
        ([EqualTo(K, None), EqualTo(N, 1)], []),
        ([EqualTo(K, "a")], ("a",)),
        ([EqualTo(K, "a"), GreaterThan(N, 1)], ("a",)),
        ([EqualTo(N, 1)], (None, None)),
        ([In(K, ("a", "b"))], (None, None)),
        ([EqualNullSafe(K, None), EqualTo(N, 1)], (None, None)),
        ([Not(EqualTo(K, "a")), IsNotNull(K)], (None, None)),
        ([EqualTo(("s", "k"), "a")], (None, None)),
        ([GreaterThan(K, "a"), LessThanOrEqual(K, "d")], (("a",), ("d",))),
        ([GreaterThanOrEqual(K, "a"), GreaterThan(K, "b")], (("b",), None)),
        ([LessThan(K, "d"), LessThan(K, None)], (None, ("d",))),
        ([EqualTo(K, "a"), In(N, tuple(range(20_000)))], ("a",)),
    ],
)
def test_filters_say_which_keys_are_read(filters: list[Any], expected: Any):
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
def test_values_of_another_type_say_nothing(kind: pa.DataType, value: Any, is_key: bool):
    schema = pa.schema([("k", kind)])
    assert (KeyFilters.of([EqualTo(K, value)], schema).keys is not None) == is_key


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
    # The filter's column is not read: Spark does not know it.
    assert [row.x for row in read(stream, columns="x").where("x = 3").collect()] == [3]


def test_a_filter_is_applied_by_spark_without_push_down(stream: Stream):
    stream.batch(left=[(key, 1, 1) for key in KEYS])
    frame = stream.source("left")
    stream.run(hfs.materialize(frame, by="k", name="table", state=stream.state()))
    wanted = read(stream).where("k = 'c'")
    assert [row.k for row in wanted.collect()] == ["c"]
    assert scanned(wanted) == len(KEYS)
