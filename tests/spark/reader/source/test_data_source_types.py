"""Columns of all types that tables have, read by Spark's data source."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from processors import OUT, EveryKind, Unsigned
from pyspark.sql import DataFrame
from streams import Stream

import holdfast as hf
import holdfast.spark as hfs

KEYS = {
    "a": "cast(1 as tinyint)",
    "b": "cast(-2 as smallint)",
    "c": "3",
    "d": "-4L",
    "e": "cast(1.5 as float)",
    "f": "2.5D",
    "g": "12.34BD",
    "big": "cast(-123456789012345678901234567.89 as decimal(38, 2))",
    "h": "true",
    "i": "'s'",
    "j": "cast('b' as binary)",
    "l": "date'1969-12-31'",
    "m": "timestamp'1960-01-01 00:00:01.000001'",
    "n": "timestamp_ntz'2020-01-01 00:00:02'",
}
VALUES_ONLY = {
    "s": "interval '1 02:03:04' day to second",
    "o": "array(1, null, 3)",
    "q": "named_struct('p', 1, 'q', array('x'))",
    "r": "map('y', 1)",
    "rr": "map('y', array(named_struct('z', timestamp'2020-01-01')))",
    "u": "cast(null as string)",
    "v": "array(cast(null as timestamp))",
}


def read(stream: Stream, **options: Any) -> DataFrame:
    reader = stream.spark.read.format("holdfast").options(**options)
    for name, value in stream.options.get("storage_options", {}).items():
        reader = reader.option(f"storage.{name}", value)
    return reader.load(stream.address)


def materialized(stream: Stream, by: list[str], columns: dict[str, str]) -> DataFrame:
    """Runs a query that keeps one row of all columns; returns that row as a frame."""
    stream.batch(left=[("a", 1, 1)])
    made = [f"{sql} as {name}" for name, sql in columns.items()]
    stream.run(
        hfs.materialize(
            stream.source("left").selectExpr("k as kk", *made),
            by=by,
            name="table",
            state=stream.state(),
        )
    )
    return stream.spark.range(1).selectExpr("'a' as kk", *made)


def test_columns_of_all_types_are_read(stream: Stream):
    expected = materialized(stream, ["kk"], {**KEYS, **VALUES_ONLY})
    found = read(stream)
    assert found.dtypes == [("kk", "string"), *expected.dtypes[1:]]
    assert found.collect() == expected.collect()


@pytest.mark.parametrize("name", KEYS)
def test_keys_of_all_types_are_read_and_found(stream: Stream, name: str):
    expected = materialized(stream, [name], {name: KEYS[name]}).select(name, "kk")
    (row,) = expected.collect()
    assert read(stream).collect() == [row]
    assert read(stream).where(f"{name} = {KEYS[name]}").collect() == [row]
    assert read(stream).where(f"{name} <> {KEYS[name]}").collect() == []


def test_stores_of_each_kind_are_read(stream: Stream):
    stream.batch(left=[("a", 1, 1), ("b", 2, 2), ("a", 3, 3)])
    frame = hfs.process(
        stream.source("left"), EveryKind(), by="k", schema=OUT, state=stream.state(), name="kinds"
    )
    stream.run(frame)
    for table in hf.connect(stream.address, **_options(stream)).tables.values():
        found = read(stream, table=f"kinds.{table.store}")
        rows = table.scan().read_all()
        assert found.columns == rows.column_names
        assert found.count() == rows.num_rows


def test_unsigned_numbers_are_read(stream: Stream):
    stream.batch(left=[("a", 1, 1)])
    frame = hfs.process(
        stream.source("left"), Unsigned(), by="k", schema=OUT, state=stream.state(), name="numbers"
    )
    stream.run(frame)
    (row,) = read(stream).collect()
    expected = (2**8 - 1, 2**16 - 1, 2**32 - 1, Decimal(2**64 - 1))
    assert (tuple(row.key), tuple(row.value)) == (expected, expected)


def _options(stream: Stream) -> dict[str, Any]:
    found = stream.options.get("storage_options")
    return {} if found is None else {"storage_options": found}
