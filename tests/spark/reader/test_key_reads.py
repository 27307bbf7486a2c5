"""The values that a filter selects in key columns, as reads of keys and scans."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from holdfast._reader.dataset.domain import Domain, Points, Range
from holdfast._reader.dataset.key_reads import key_reads

TWO = pa.schema([("k", pa.string()), ("n", pa.int32())])


def texts(*values: str | None) -> Points:
    return Points(pa.array(values, pa.string()))


def numbers(*values: int) -> Points:
    return Points(pa.array(values, pa.int32()))


def bounds(lower: str | None = None, upper: str | None = None) -> Range:
    low, high = (None if text is None else pa.scalar(text) for text in (lower, upper))
    return Range(low, high)


@pytest.mark.parametrize(
    ("selected", "expected"),
    [
        ({"k": texts("a"), "n": numbers(1)}, [("a", 1)]),
        ({"k": texts("a", "b"), "n": numbers(1, 2)}, [("a", 1), ("a", 2), ("b", 1), ("b", 2)]),
        ({"k": texts(None), "n": numbers(1)}, [(None, 1)]),
        ({"k": texts(), "n": numbers(1)}, []),
        ({"k": texts("a")}, [("prefix", ("a",))]),
        ({"k": texts("a", "b")}, [("prefix", ("a",)), ("prefix", ("b",))]),
        ({"n": numbers(1)}, [("all",)]),
        ({"k": bounds("a", "d")}, [("between", ("a",), ("d",))]),
        ({"k": bounds("b")}, [("from", ("b",))]),
        ({"k": bounds(upper="d")}, [("to", ("d",))]),
        # Too many keys for reads one by one, and too many prefixes for scans.
        (
            {"k": texts("a"), "n": numbers(*range(20_000))},
            [("between", ("a", 0), ("a", 19_999))],
        ),
        (
            {"k": texts(*(f"{n:05}" for n in range(20_000))), "n": numbers(1)},
            [("between", ("00000",), ("19999",))],
        ),
    ],
)
def test_selected_values_limit_the_keys_that_are_read(
    selected: dict[str, Domain], expected: list[Any]
):
    reads = key_reads(selected, TWO, points=True, ranges=True)
    if reads.keys is not None:
        found: list[Any] = [tuple(row.values()) for row in reads.keys.to_pylist()]
    else:
        found = [
            (scan.rows, *(tuple(row.values()) for row in scan.bounds.to_pylist()))
            for scan in reads.scans
        ]
    assert found == expected


def test_whole_keys_are_read_without_longer_ones():
    key = pa.schema([("key", pa.string())])
    scans = key_reads({"key": texts("a", "ab")}, key, points=False, ranges=True).scans
    assert [(scan.rows, scan.bounds["key"].to_pylist()) for scan in scans] == [
        ("between", ["a", "a"]),
        ("between", ["ab", "ab"]),
    ]
