"""Results of processors and aggregators that can be cast to their declared types, and others."""

from __future__ import annotations

from datetime import UTC as ZONE
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from holdfast.spark.worker.cast import cast

A = pa.struct([("a", pa.int64())])
AB = pa.struct([("a", pa.int64()), ("b", pa.float32())])
F32, F64, I8, I64, TEXT = pa.float32(), pa.float64(), pa.int8(), pa.int64(), pa.string()
BERLIN = pa.timestamp("ns", "Europe/Berlin")
BERLIN_US, US, UTC = (
    pa.timestamp("us", "Europe/Berlin"),
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
)
CENTS, DATE = pa.decimal128(10, 2), pa.date32()
HOUR = 3_600_000_000
NOON = 19_675 * 24 * HOUR + 12 * HOUR


@pytest.mark.parametrize(
    ("given", "wanted", "words"),
    [
        (pa.array([{"b": 1.0}]), AB, r"x has the fields \['b'\]; wanted: \['a', 'b'\]"),
        (pa.array([{"a": 1, "b": 1.0, "c": 2}]), AB, r"x has the fields \['a', 'b', 'c'\]"),
        (
            pa.array([{"o": [{"b": 1}]}]),
            pa.struct([("o", pa.list_(AB))]),
            r"x\.o\[\] has the fields \['b'\]",
        ),
        (
            pa.array([[{"b": 1}]], pa.large_list(pa.struct([("b", I64)]))),
            pa.list_(A),
            r"x\[\] has the fields",
        ),
        (
            pa.array([[("k", {"b": 1})]], pa.map_(TEXT, pa.struct([("b", I64)]))),
            pa.map_(TEXT, A),
            r"x\[\]\.value has",
        ),
        (pa.array([1.0, 1e300]), F32, r"x has 1e\+300, which float cannot hold"),
        (pa.array([1e300]).dictionary_encode(), F32, r"x has 1e\+300"),
        (pa.array([{"a": 1, "b": 1e300}]), AB, r"x\.b has 1e\+300"),
        (
            pa.array([[("k", 1.0)], [("k", -1e300)]], pa.map_(TEXT, F64)),
            pa.map_(TEXT, F32),
            r"x\[\]\.value has -1e\+300",
        ),
        (pa.array([[1.0], [1e300]]).slice(1), pa.list_(F32), r"x\[\] has 1e\+300"),
        (pa.array(["1"]), I64, "x is string, which is not converted to int64"),
        (pa.array([1]), TEXT, "x is int64, which is not converted to string"),
        (pa.array([1.5]), pa.bool_(), "x is double, which is not converted to bool"),
        (pa.array([True]), I64, "x is bool"),
        (pa.array(["2024-01-01"]), UTC, "x is string"),
        (pa.array([300]), I8, "300"),
        (pa.array([1.5]), I64, "truncated"),
        (
            pa.array([NOON], US),
            DATE,
            r"x has 2023-11-14 12:00:00\.000000, which date32\[day\] cannot hold",
        ),
        (pa.array([NOON - 12 * HOUR], BERLIN_US), DATE, "x has 2023-11-14 01:00:00.* cannot hold"),
        (
            pa.array([{"d": NOON}], pa.struct([("d", US)])),
            pa.struct([("d", DATE)]),
            r"x\.d has 2023-11-14 12:00",
        ),
        (
            pa.array([NOON], US),
            pa.time64("us"),
            r"x is timestamp\[us\], and time64\[us\] is a time of day",
        ),
        (pa.array([1e9]), CENTS, "overflow"),
        (pa.array([float("nan")]), CENTS, "(?i)nan"),
        (pa.array([float("inf")], F32), CENTS, "(?i)inf"),
        (pa.array([[1e9]]), pa.list_(CENTS), "overflow"),
        (pa.array([Decimal("1.234")]), CENTS, "data loss"),
        (
            pa.array([1], pa.int32()),
            DATE,
            r"x is int32, and date32\[day\] is no timestamp: cast it",
        ),
        (pa.array([[1]], pa.list_(pa.int32())), pa.list_(DATE), r"x\[\] is int32, and date32"),
        (pa.array([1]), pa.time64("us"), r"x is int64, and time64\[us\] is no timestamp"),
        (
            pa.array([NOON], BERLIN_US),
            US,
            r"x is timestamp\[us, tz=Europe/Berlin\], and timestamp\[us\] has no zone: take the",
        ),
        (pa.array([1_001], pa.timestamp("ns")), I64, "would lose data: 1001"),
        (pa.array([1_001], pa.duration("ns")), I64, "would lose data: 1001"),
        (
            pa.array([[1_000]], pa.list_(pa.timestamp("ns"))),
            pa.list_(I64),
            r"x\[\] is timestamp\[ns\].*cast it to timestamp\[us\]",
        ),
    ],
)
def test_a_cast_that_would_lose_data_is_named(given: pa.Array, wanted: pa.DataType, words: str):
    with pytest.raises(ValueError, match=words):
        cast(given, wanted, "x")


@pytest.mark.parametrize(
    ("given", "wanted", "expected"),
    [
        (pa.array([{"b": 2, "a": 1}, None]), AB, [{"a": 1, "b": 2.0}, None]),
        (pa.array([float("inf"), float("nan"), None, 0.1]), F32, None),
        (pa.array([1, None], I64), I8, [1, None]),
        (pa.array([1.0]), I64, [1]),
        (pa.array([1_700_000_000_000_000]), UTC, None),
        (pa.array([1_700_000_000_000_000_000], BERLIN), UTC, None),
        (pa.array([1_700_000_000_000_000], pa.timestamp("us")), UTC, None),
        # No cast uses the session's time zone.
        (pa.array([NOON, None], UTC), US, [datetime(2023, 11, 14, 12), None]),
        *(
            (pa.array([NOON], pa.timestamp("us", zone)), US, [datetime(2023, 11, 14, 12)])
            for zone in ("Etc/UTC", "Zulu", "GMT0", "-00:00")
        ),
        (pa.array([NOON], US), UTC, [datetime(2023, 11, 14, 12, tzinfo=ZONE)]),
        (pa.array([NOON // HOUR // 24], DATE), US, [datetime(2023, 11, 14)]),
        (
            pa.array([NOON // HOUR // 24], DATE),
            UTC,
            [datetime(2023, 11, 14, tzinfo=ZONE)],
        ),
        (pa.array([NOON - 12 * HOUR, None], US), DATE, [date(2023, 11, 14), None]),
        (pa.array([NOON - 13 * HOUR], BERLIN_US), DATE, [date(2023, 11, 14)]),
        (
            pa.array([1.23, 6.52, -873.18, 56004.7, None]),
            CENTS,
            [*map(Decimal, ("1.23", "6.52", "-873.18", "56004.70")), None],
        ),
        # As in SQL's cast, a double only approximates a decimal.
        (pa.array([3.3000000000000003, 1.23456]), CENTS, [Decimal("3.30"), Decimal("1.23")]),
        (pa.array([1.23], F32), CENTS, [Decimal("1.23")]),
        (pa.array([4], pa.time32("s")), pa.time64("us"), None),
        (pa.array([1_000, None], pa.timestamp("ns")), I64, [1, None]),
        (pa.array([1_000], pa.timestamp("ns", "Europe/Berlin")).dictionary_encode(), I64, [1]),
        (pa.array([2], pa.timestamp("s")), pa.int32(), [2_000_000]),
        (pa.array([3_000], pa.duration("ns")), I64, [3]),
        (pa.array([4], pa.time32("s")), I64, [4_000_000]),
        (pa.array([1], DATE), I64, [24 * HOUR]),
        (pa.array([[1]], pa.list_(US)), pa.list_(I64), [[1]]),
        (pa.array(["x", None]).dictionary_encode(), TEXT, ["x", None]),
        (pa.array(["x"], pa.large_string()), TEXT, ["x"]),
        (pa.array([b"x"], pa.large_binary()), pa.binary(), [b"x"]),
        (pa.nulls(2), AB, [None, None]),
        (pa.array([{"a": 1, "b": None}]), AB, [{"a": 1, "b": None}]),
        (pa.array([[1], None], pa.large_list(I8)), pa.list_(F32), [[1.0], None]),
        (
            pa.array([[("k", 1.0)], None], pa.map_(TEXT, F64)),
            pa.map_(TEXT, F32),
            [[("k", 1.0)], None],
        ),
    ],
)
def test_a_cast_to_a_type_that_can_hold_the_value_is_accepted(
    given: pa.Array, wanted: pa.DataType, expected: list[Any] | None
):
    found = cast(given, wanted, "x")
    assert found.type == wanted
    if expected is not None:
        assert found.to_pylist() == expected


def test_a_list_view_is_cast_or_refused():
    """pyarrow 26 drops its elements."""
    try:
        found = cast(pa.array([[1, 2]], pa.list_view(I8)), pa.list_(F32), "x")
    except ValueError as error:
        assert "x had 2 elements" in str(error)  # noqa: PT017
    else:
        assert found.to_pylist() == [[1.0, 2.0]]
