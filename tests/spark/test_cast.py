"""What a processor or an aggregator may give for the types that it declared, and what is refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from holdfast.spark.cast import cast

A = pa.struct([("a", pa.int64())])
AB = pa.struct([("a", pa.int64()), ("b", pa.float32())])
F32, F64, I8, I64, TEXT = pa.float32(), pa.float64(), pa.int8(), pa.int64(), pa.string()
BERLIN = pa.timestamp("ns", "Europe/Berlin")
UTC = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("given", "wanted", "words"),
    [
        (pa.array([{"b": 1.0}]), AB, r"x has the fields \['b'\]; wanted: \['a', 'b'\]"),
        (pa.array([{"a": 1, "b": 1.0, "c": 2}]), AB, r"x has the fields \['a', 'b', 'c'\]"),
        (pa.array([{"o": [{"b": 1}]}]), pa.struct([("o", pa.list_(AB))]), r"x\.o\[\] has the fields \['b'\]"),
        (pa.array([[{"b": 1}]], pa.large_list(pa.struct([("b", I64)]))), pa.list_(A), r"x\[\] has the fields"),
        (pa.array([[("k", {"b": 1})]], pa.map_(TEXT, pa.struct([("b", I64)]))), pa.map_(TEXT, A), r"x\[\]\.value has"),
        (pa.array([1.0, 1e300]), F32, r"x has 1e\+300, which float cannot hold"),
        (pa.array([1e300]).dictionary_encode(), F32, r"x has 1e\+300"),
        (pa.array([{"a": 1, "b": 1e300}]), AB, r"x\.b has 1e\+300"),
        (pa.array([[("k", 1.0)], [("k", -1e300)]], pa.map_(TEXT, F64)), pa.map_(TEXT, F32), r"x\[\]\.value has -1e\+300"),
        (pa.array([[1.0], [1e300]]).slice(1), pa.list_(F32), r"x\[\] has 1e\+300"),
        (pa.array(["1"]), I64, "x is string, which is not turned into int64"),
        (pa.array([1]), TEXT, "x is int64, which is not turned into string"),
        (pa.array([1.5]), pa.bool_(), "x is double, which is not turned into bool"),
        (pa.array([True]), I64, "x is bool"),
        (pa.array(["2024-01-01"]), UTC, "x is string"),
        (pa.array([300]), I8, "300"),
        (pa.array([1.5]), I64, "truncated"),
        (pa.array([[1, 2]], pa.list_view(I8)), pa.list_(F32), "x had 2 elements"),
    ],
)
def test_what_would_be_lost_is_named(given: pa.Array, wanted: pa.DataType, words: str):
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
        (pa.array(["x", None]).dictionary_encode(), TEXT, ["x", None]),
        (pa.array(["x"], pa.large_string()), TEXT, ["x"]),
        (pa.array([b"x"], pa.large_binary()), pa.binary(), [b"x"]),
        (pa.nulls(2), AB, [None, None]),
        (pa.array([{"a": 1, "b": None}]), AB, [{"a": 1, "b": None}]),
        (pa.array([[1], None], pa.large_list(I8)), pa.list_(F32), [[1.0], None]),
        (pa.array([[("k", 1.0)], None], pa.map_(TEXT, F64)), pa.map_(TEXT, F32), [[("k", 1.0)], None]),
    ],
)
def test_what_loses_nothing_is_taken(given: pa.Array, wanted: pa.DataType, expected: list[Any] | None):
    found = cast(given, wanted, "x")
    assert found.type == wanted
    if expected is not None:
        assert found.to_pylist() == expected
