"""The order of keys' bytes is Spark SQL's order of the values.

`compare` implements that order independently of the serdes.
"""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import math
import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import serde

INT64 = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats() | st.sampled_from(
    [0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 5e-324, -5e-324]
)
TEXT = st.text(max_size=4) | st.text(st.sampled_from("\0\1a\x7f\x80ÿ\uffff\U00010000"), max_size=4)
BINARY = st.binary(max_size=4) | st.lists(st.sampled_from([0, 1, 254, 255]), max_size=4).map(bytes)
MOMENTS = st.datetimes(timezones=st.just(dt.UTC))
DECIMALS = st.decimals(-(10**10), 10**10, places=3, allow_nan=False)


def compare(a, b):
    """Compares in Spark SQL's ascending order.

    Nulls are first, NaN is greatest and equal to itself, strings and binary compare by unsigned
    bytes.
    """
    if a is None or b is None:
        return (a is not None) - (b is not None)
    if isinstance(a, tuple):
        return next((order for x, y in zip(a, b, strict=True) if (order := compare(x, y))), 0)
    if isinstance(a, float):
        a, b = (
            (math.isnan(a), a if not math.isnan(a) else 0),
            (math.isnan(b), b if not math.isnan(b) else 0),
        )
    if isinstance(a, str):
        a, b = a.encode(), b.encode()
    return (a > b) - (a < b)


def check(kind, values):
    encoded = [kind.serialize(value) for value in values]
    for a, x in zip(values, encoded, strict=True):
        for b, y in zip(values, encoded, strict=True):
            assert (x > y) - (x < y) == compare(a, b), (a, b)


@settings(deadline=None)
@given(st.lists(INT64, min_size=2, max_size=8))
def test_integers_are_ordered(values):
    check(serde.INT64, values)


@settings(deadline=None)
@given(st.lists(FLOATS, min_size=2, max_size=8))
def test_floats_are_ordered(values):
    check(serde.FLOAT64, values)


@settings(deadline=None)
@given(st.lists(TEXT, min_size=2, max_size=8))
def test_strings_are_ordered(values):
    check(serde.STRING, values)


@settings(deadline=None)
@given(st.lists(MOMENTS, min_size=2, max_size=8))
def test_timestamps_are_ordered(values):
    check(serde.TIMESTAMP, values)


def test_booleans_are_ordered():
    check(serde.BOOL, [False, True])


SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("flag", pa.bool_()),
        ("float", pa.float64()),
        ("inner", pa.struct([("data", pa.binary()), ("number", pa.int16())])),
        ("amount", pa.decimal128(20, 3)),
        ("day", pa.date32()),
        ("moment", pa.timestamp("us", "UTC")),
        ("small", pa.float32()),
    ]
)
ROWS = st.tuples(
    st.none() | TEXT,
    st.none() | st.booleans(),
    st.none() | FLOATS,
    st.none() | st.tuples(st.none() | BINARY, st.none() | st.integers(-300, 300)),
    st.none() | DECIMALS,
    st.none() | st.dates(),
    st.none() | MOMENTS,
    st.none() | st.floats(width=32),
)


@settings(deadline=None)
@given(st.lists(ROWS, min_size=2, max_size=6))
def test_structs_are_ordered(rows):
    check(serde.struct(SCHEMA), rows)


def few(value):
    """Draws values of a small domain, so that rows differ in late fields."""
    return st.none() | st.sampled_from(value)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            few(["", "a", "a\0", "a\0b", "b"]),
            few([False, True]),
            few([0.0, -0.0, math.nan, -1.0]),
            st.none() | st.tuples(few([b"", b"\0", b"\0\xff", b"\xff"]), few([-1, 0, 1])),
            few([decimal.Decimal(-1), decimal.Decimal(1)]),
            few([dt.date(1969, 12, 31), dt.date(1970, 1, 1)]),
            few([dt.datetime(1969, 1, 1, tzinfo=dt.UTC), dt.datetime(1970, 1, 1, tzinfo=dt.UTC)]),
            few([0.0, -1.5, math.nan]),
        ),
        min_size=2,
        max_size=8,
    )
)
def test_structs_that_share_first_fields_are_ordered(rows):
    check(serde.struct(SCHEMA), rows)


NUMBERS = [
    ("boolean", [None, True, False]),
    ("tinyint", [None, -128, -1, 0, 127]),
    ("smallint", [None, -(2**15), 0, 2**15 - 1]),
    ("int", [None, -(2**31), -1, 0, 2**31 - 1]),
    ("bigint", [None, -(2**63), -1, 0, 1, 2**63 - 1]),
    ("float", [None, 0.0, -0.0, 1.5, -1.5, math.nan, math.inf, -math.inf]),
    ("double", [None, 0.0, -0.0, 1e300, -1e300, math.nan, math.inf, -math.inf]),
    (
        "decimal(20,3)",
        [None, decimal.Decimal("-1.5"), decimal.Decimal(0), decimal.Decimal("99999.999")],
    ),
    ("string", [None, "", "a", "a\0", "a\0b", "ab", "é", "\uffff", "\U00010000"]),
    ("binary", [None, b"", b"\0", b"\0\0", b"\0\xff", b"\x7f", b"\xff"]),
    ("date", [None, dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2026, 11, 21)]),
    (
        "timestamp",
        [None, *(dt.datetime(year, 1, 1, tzinfo=dt.UTC) for year in (1900, 1969, 1970, 2026))],
    ),
]


@pytest.mark.spark
def test_spark_sorts_in_the_same_order(spark):
    """Spark sorts one table of all types, by each column, then by all of them."""
    rng = random.Random(7)
    rows = [tuple(rng.choice(values) for _, values in NUMBERS) for _ in range(400)]
    names = [f"c{n}" for n in range(len(NUMBERS))]
    schema = ", ".join(f"{name} {type_}" for name, (type_, _) in zip(names, NUMBERS, strict=True))
    frame = spark.createDataFrame(
        [(n, *row) for n, row in enumerate(rows)], f"n int, {schema}"
    ).cache()
    arrow = frame.drop("n").toArrow()
    for columns in [*([name] for name in names), names, names[::-1]]:
        kind = serde.struct(arrow.select(columns).schema)
        encoded = kind.encode(arrow.select(columns).to_struct_array(), as_key=True)
        keys = dict(
            zip(
                (row.n for row in frame.select("n").collect()),
                pa.array(encoded).to_pylist(),
                strict=True,
            )
        )
        by_spark = [keys[row.n] for row in frame.orderBy(*columns).select("n").collect()]
        assert by_spark == sorted(keys.values()), columns
        # Values that Spark treats as equal have equal bytes: as many groups as different keys.
        assert frame.groupBy(*columns).count().count() == len(set(keys.values())), columns


def test_compare_sorts_nulls_first_and_nan_last():
    order = [None, -math.inf, -1.0, 0.0, 1.0, math.inf, math.nan]
    mixed = [0.0, None, math.nan, math.inf, -1.0, -math.inf, 1.0]
    assert sorted(mixed, key=functools.cmp_to_key(compare)) == order
    assert compare(0.0, -0.0) == compare(math.nan, -math.nan) == 0
