"""Keys and values of Spark's types, in the tables of a stopped query."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql import functions as F
from reading import connect
from streams import Stream

import holdfast.spark as hfs
from holdfast._reader.keys import many_keys, one_key

TYPES: dict[str, tuple[str, Any]] = {
    "boolean": ("true", True),
    "byte": ("-5Y", -5),
    "short": ("-500S", -500),
    "int": ("-70000", -70000),
    "long": ("-1099511627776L", -(2**40)),
    "float": ("-1.5F", -1.5),
    "double": ("2.5D", 2.5),
    "zero": ("-0.0D", 0.0),
    "string": ("'grün'", "grün"),
    "empty": ("''", ""),
    "binary": ("x'00ff01'", b"\x00\xff\x01"),
    "date": ("date '1969-07-20'", date(1969, 7, 20)),
    "timestamp": ("timestamp '2024-01-02 00:00:00Z'", datetime(2024, 1, 2, tzinfo=UTC)),
    "timestamp_ntz": (
        "timestamp_ntz '1969-01-02 03:04:05.678901'",
        datetime(1969, 1, 2, 3, 4, 5, 678901),
    ),
    "decimal": ("cast(-12.34 as decimal(10,2))", Decimal("-12.34")),
    "wide decimal": (
        "cast(-12345678901234567890.12 as decimal(30,2))",
        Decimal("-12345678901234567890.12"),
    ),
}
"""By name: an expression of Spark, and its value in Python."""


@pytest.mark.parametrize("offline", ["auto", "only"])
@pytest.mark.parametrize("kind", TYPES)
def test_a_key_of_each_type_is_found_in_its_partition(stream: Stream, kind: str, offline: str):
    column, value = TYPES[kind]
    stream.batch(left=[("a", 1, 1)])
    stream.partitions = 7
    frame = stream.source("left").select(F.expr(column).alias("key"), "k", "x")
    stream.run(hfs.materialize(frame, by=["key", "k"], name="table", state=stream.state()))
    table = connect(stream, offline=offline)["table"]
    assert table.get((value, "a")) == {"x": 1}
    assert table.get((value, "b")) is None
    assert table.get_batch({"key": [value], "k": ["a"]})["x"].to_pylist() == [1]
    assert table.scan(prefix=(value,)).read_all()["x"].to_pylist() == [1]


def test_one_row_has_the_values_and_types_that_arrow_gives(stream: Stream):
    """The row of one key is made without pyarrow, and those of many keys with it."""
    stream.batch(left=[("a", 1, 1), ("null", 1, 1)])
    frame = stream.source("left").select(
        "k",
        *(
            F.when(F.col("k") == "a", F.expr(column)).alias(name)
            for name, (column, _) in TYPES.items()
        ),
        F.array("x").alias("list"),
        F.struct("x").alias("struct"),
        F.expr("timestamp '9999-12-31 23:59:59.999999Z'").alias("last"),
    )
    stream.run(hfs.materialize(frame, by="k", name="table", state=stream.state()))
    table = connect(stream)["table"]
    names = [name for name in table.schema.names if name != "k"]
    # Each column is also read alone: if one value of a row needs pyarrow, pyarrow makes them all.
    for columns in (names, *([name] for name in names)):
        for key in ("a", "null"):
            [expected] = table.get_batch([key], columns=columns).to_pylist()
            found = table.get(key, columns=columns)
            assert found == expected
            assert list(found) == columns
            assert [type(value) for value in found.values()] == [
                type(value) for value in expected.values()
            ]
            zones = [getattr(value, "tzinfo", None) for value in found.values()]
            assert zones == [getattr(value, "tzinfo", None) for value in expected.values()]
    assert table.get("a", columns=["double", "timestamp"]) == {
        "double": 2.5,
        "timestamp": TYPES["timestamp"][1],
    }
    with pytest.raises(ValueError, match="no column 'other'"):
        table.get("a", columns=["double", "other"])


def test_values_larger_than_an_answer_are_read(stream: Stream):
    stream.batch(left=[(f"k{n}", 1, n) for n in range(8)])
    text = F.concat(F.repeat(F.lit("x"), 3_000_000), "k")
    frame = stream.source("left").select("k", text.alias("text"))
    stream.run(hfs.materialize(frame, by="k", name="table", state=stream.state()))
    table = connect(stream, offline="never")["table"]
    keys = [f"k{n}" for n in range(8)]
    found = table.get_batch(keys)
    assert found["text"].to_pylist() == ["x" * 3_000_000 + key for key in keys]
    assert table.get("k3") == {"text": "x" * 3_000_000 + "k3"}


def test_a_key_is_what_arrow_converts(stream: Stream):
    stream.batch(left=[("a", 1, 7)])
    frame = stream.source("left").select("k", F.col("x").cast("int").alias("n"), "x")
    stream.run(hfs.materialize(frame, by=["k", "n"], name="table", state=stream.state()))
    table = connect(stream)["table"]

    class Text(str):
        __slots__ = ()

    for key in [("a", 7), (Text("a"), np.int64(7)), (np.str_("a"), 7.0), (b"a", Decimal(7))]:
        assert table.get(key) == {"x": 7}
        assert table.get((*key[:1], 8)) is None
    assert table.get(("a", None)) is None
    for wrong in [("a", True), ("a", 2**31), ("a", 2**70), ("a", "7"), ("a", 7.5), (5, 7)]:
        with pytest.raises((ValueError, TypeError, pa.ArrowException), match="do not fit"):
            table.get(wrong)
    with pytest.raises(ValueError, match="not whole"):
        table.get_batch([("a", 7), ("a", np.float32(7.5))])
    for numbers in (np.array([7, 7.5]), np.array([7, 7.5], dtype=object)):
        with pytest.raises(ValueError, match="do not fit"):
            table.get_batch({"k": ["a", "a"], "n": numbers})
    found = table.get_batch({"k": ["a", "a"], "n": np.array([7.0, 8.0])})
    assert found["x"].to_pylist() == [7, None]


def test_a_column_of_keys_is_not_rounded(stream: Stream):
    stream.batch(left=[("a", 1, 7)])
    frame = stream.source("left").selectExpr(
        "cast(19.99 as decimal(10, 2)) AS amount", "date '2026-03-01' AS day", "x"
    )
    stream.run(hfs.materialize(frame, by=["amount", "day"], name="table", state=stream.state()))
    table = connect(stream)["table"]
    day = pa.array([datetime(2026, 3, 1)], pa.timestamp("us"))
    found = table.get_batch({"amount": pa.array([19.99]), "day": day})
    assert found["x"].to_pylist() == [7]
    for amount, moment in ([19.991], day), ([19.99], pa.array([datetime(2026, 3, 1, 18)])):
        with pytest.raises(ValueError, match="is not exactly a"):
            table.get_batch({"amount": pa.array(amount), "day": moment})


def test_a_time_key_has_a_zone_if_its_column_has_one(stream: Stream):
    stream.batch(left=[("a", 1, 7)])
    frame = stream.source("left").selectExpr(
        "timestamp '2026-03-01 09:00:00Z' AS t", "timestamp_ntz '2026-03-01 09:00:00' AS n", "x"
    )
    stream.run(hfs.materialize(frame, by=["t", "n"], name="table", state=stream.state()))
    table = connect(stream)["table"]
    naive = datetime(2026, 3, 1, 9)
    aware = naive.replace(tzinfo=UTC)
    assert table.get((aware, naive)) == {"x": 7}
    found = table.get_batch({"t": pd.Series([aware]), "n": pd.Series([naive])})
    assert found["x"].to_pylist() == [7]
    for t, n in ((naive, naive), (aware, aware)):
        for frame in ({"t": [t], "n": [n]}, {"t": pd.Series([t]), "n": pd.Series([n])}):
            with pytest.raises(ValueError, match="time zone"):
                table.get_batch(frame)
    with pytest.raises(ValueError, match="below the unit"):
        table.get((pd.Timestamp(aware) + pd.Timedelta(1, "ns"), naive))
    with pytest.raises(ValueError, match="no time zone"):
        table.get_batch({"t": np.array(["2026-03-01T09:00:00"], "M8[us]"), "n": [naive]})


def test_a_date_key_has_no_time_of_day(stream: Stream):
    stream.batch(left=[("a", 1, 7)])
    frame = stream.source("left").selectExpr("date '2026-03-01' AS day", "x")
    stream.run(hfs.materialize(frame, by="day", name="table", state=stream.state()))
    table = connect(stream)["table"]
    found = table.get_batch([datetime(2026, 3, 1), date(2026, 3, 1), date(2026, 3, 2)])
    assert found["x"].to_pylist() == [7, 7, None]
    with pytest.raises(ValueError, match="is not exactly a"):
        table.get_batch([datetime(2026, 3, 1, 18)])


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us", "UTC"), pa.int64()], ids=str)
@pytest.mark.parametrize("number", [5.7, Decimal("5.7"), np.float64(5.7)], ids=repr)
def test_a_number_for_a_time_is_whole(kind: pa.DataType, number: Any):
    columns = pa.schema([("t", kind)])
    with pytest.raises(ValueError, match="is not whole"):
        one_key(columns, number)
    units = pa.int32() if kind == pa.date32() else pa.int64()
    assert one_key(columns, 5)["t"].cast(units).to_pylist() == [5]


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        (pa.int64(), [2, 1]),
        (pa.string(), ["b", "a"]),
        (pa.timestamp("us", "UTC"), [datetime(2026, 3, 1, tzinfo=UTC)]),
        (pa.float64(), [0.5]),
    ],
    ids=str,
)
def test_keys_may_be_an_iterator(kind: pa.DataType, keys: list[Any]):
    # A regression test: the check of integers used up the iterator, and no key was read.
    columns = pa.schema([("k", kind)])
    assert many_keys(columns, iter(keys))["k"].to_pylist() == keys


@pytest.mark.parametrize(
    "keys",
    [[1e300], np.array([1e300]), pd.Series([1e300]), pa.array([1e300]), pa.array(["1e300"])],
    ids=["list", "numpy", "pandas", "arrow", "text"],
)
def test_a_number_beyond_a_float_is_not_the_key_infinity(keys: Any):
    columns = pa.schema([("k", pa.float32())])
    with pytest.raises(ValueError, match="beyond the range of a float"):
        many_keys(columns, keys)
    for infinite in ([float("inf")], pa.array(["-Infinity"])):
        assert abs(many_keys(columns, infinite)["k"].to_pylist()[0]) == float("inf")


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()], ids=str)
def test_a_numpy_array_of_text_has_whole_keys(kind: pa.DataType):
    # A regression test: each key ended at its first zero.
    columns = pa.schema([("k", kind)])
    texts = ["EUR", "a\0b"]
    expected = texts if kind == pa.string() else [text.encode() for text in texts]
    for keys in (np.array(texts), np.array(texts, dtype=object), pd.Series(texts)):
        assert many_keys(columns, keys)["k"].to_pylist() == expected
    with pytest.raises(ValueError, match="lost zeros at the end"):
        many_keys(columns, np.array([b"a\0b"]))


def test_text_is_no_column_of_keys():
    one = pa.schema([("k", pa.string())])
    two = pa.schema([("a", pa.string()), ("b", pa.string())])
    for columns, keys in [(one, "EUR"), (one, {"k": "EUR"}), (two, {"a": "EU", "b": "XY"})]:
        with pytest.raises(TypeError, match="give a list of values"):
            many_keys(columns, keys)


@pytest.mark.parametrize("column", [pd.Series, pd.Categorical, pd.CategoricalIndex])
def test_python_values_in_a_pandas_column_are_exact(column: Any):
    zone = pa.schema([("t", pa.timestamp("us", "UTC"))])
    aware, naive = datetime(2026, 3, 1, 9, tzinfo=UTC), datetime(2026, 3, 1, 9)
    options = {"dtype": object} if column is pd.Series else {}
    assert many_keys(zone, column([aware], **options))["t"].to_pylist() == [aware]
    with pytest.raises(ValueError, match="has no time zone"):
        many_keys(zone, column([naive], **options))
    with pytest.raises(ValueError, match="is not exactly a date32"):
        many_keys(pa.schema([("d", pa.date32())]), column([naive], **options))
    numbers = pa.schema([("n", pa.int64())])
    assert many_keys(numbers, column([2, 1], **options))["n"].to_pylist() == [2, 1]
    missing = pd.Series([2, None, np.nan], dtype=object)
    assert many_keys(numbers, missing)["n"].to_pylist() == [2, None, None]


def test_slices_of_structs_in_structs_are_keys():
    inner = pa.struct([("n", pa.int32())])
    columns = pa.schema([("s", pa.struct([("in", inner)]))])
    keys = pa.array([{"in": {"n": n}} for n in range(4)], columns.field("s").type)
    sliced = many_keys(columns, keys.slice(2))
    # arrow-rs would fail to import a column with an offset.
    assert sliced["s"].offset == 0
    assert sliced["s"].to_pylist() == [{"in": {"n": 2}}, {"in": {"n": 3}}]


def test_the_fields_of_a_struct_key_are_exact():
    fields = pa.struct([("n", pa.int32()), ("day", pa.date32())])
    columns = pa.schema([("s", fields)])
    key = {"n": 2, "day": date(2026, 3, 1)}
    assert one_key(columns, key)["s"].to_pylist() == [key]
    for keys in [key, None], pd.Series([key, None]):
        assert many_keys(columns, keys)["s"].to_pylist() == [key, None]
    for wrong in ({"n": 2.5}, {"day": datetime(2026, 3, 1, 9)}):
        with pytest.raises(ValueError, match=r"a key has a field s\.(n|day)"):
            one_key(columns, {**key, **wrong})
        for keys in (pd.Series([{**key, **wrong}]), pa.array([{**key, **wrong}])):
            with pytest.raises(ValueError, match=r"a key has a field s\.(n|day)"):
                many_keys(columns, keys)
    plain = pa.array([key, None], pa.struct([("n", pa.int64()), ("day", pa.date32())]))
    for keys in (plain, pd.Series(plain.to_pandas(types_mapper=pd.ArrowDtype))):
        assert many_keys(columns, keys)["s"].to_pylist() == [key, None]


def test_times_inside_a_key_are_exact():
    spans = pa.schema([("s", pa.list_(pa.duration("us")))])
    span = timedelta(seconds=2, microseconds=3)
    assert one_key(spans, [span])["s"].to_pylist() == [[span]]
    nanoseconds = pd.Timedelta(3, "ns")
    for keys in ([[nanoseconds]], pa.array([[nanoseconds]], pa.list_(pa.duration("ns")))):
        with pytest.raises(ValueError, match=r"field s\[\], .* fraction below the unit"):
            many_keys(spans, keys)
    moments = pa.schema([("s", pa.struct([("at", pa.timestamp("us"))]))])
    moment = datetime(2026, 3, 1, 9)
    assert one_key(moments, {"at": moment})["s"].to_pylist() == [{"at": moment}]
    with pytest.raises(
        ValueError, match=r"field s\.at, .* has a time zone, and the field has none"
    ):
        one_key(moments, {"at": moment.replace(tzinfo=UTC)})
    clocks = pa.schema([("s", pa.list_(pa.time64("us")))])
    with pytest.raises(ValueError, match=r"a key has a field s\[\] of type time64\[us\]"):
        one_key(clocks, [time(9)])


def test_rows_of_a_frame_are_keys_by_the_names_of_their_fields():
    columns = pa.schema([("code", pa.string()), ("day", pa.string())])
    row = Row(day="monday", code="EUR")
    assert one_key(columns, row).to_pylist() == [{"code": "EUR", "day": "monday"}]
    assert many_keys(columns, [row]).to_pylist() == [{"code": "EUR", "day": "monday"}]
    with pytest.raises(ValueError, match="'rate' is no key column"):
        one_key(columns, Row(code="EUR", rate=1.5))


class StreamOnly:
    """A column that is only an Arrow stream, as a polars Series is."""

    dtype = "Float64"

    def __init__(self, column: pa.Array) -> None:
        self.column = pa.chunked_array([column])

    def __arrow_c_stream__(self, schema: Any = None) -> Any:
        return self.column.__arrow_c_stream__(schema)


def test_numbers_become_floats_that_they_name():
    doubles = pa.schema([("d", pa.float64())])
    prices = [Decimal(cents) / 100 for cents in range(1, 2000)]
    for column in (pa.array(prices), pd.Series(prices)):
        assert many_keys(doubles, column)["d"].to_pylist() == [float(price) for price in prices]
    long = pa.array([Decimal("0.1000000000000000055")])
    with pytest.raises(ValueError, match="not exactly a double"):
        many_keys(doubles, long)
    texts = pa.array(["9007199254740992", "0.1", None])
    assert many_keys(doubles, texts)["d"].to_pylist() == [2.0**53, 0.1, None]
    for kind, rounded in ((pa.float64(), 2**53 + 1), (pa.float32(), 2**24 + 1)):
        with pytest.raises(ValueError, match="not exactly"):
            many_keys(pa.schema([("d", kind)]), pa.array([str(rounded)]))
    for kind, column in ((pa.bool_(), pa.array([2])), (pa.int64(), pa.array([True]))):
        for numbers in (column, column.to_numpy(zero_copy_only=False)):
            with pytest.raises(ValueError, match="do not fit"):
                many_keys(pa.schema([("d", kind)]), numbers)
    price = pd.Series([Decimal("0.35")], dtype="category")
    assert many_keys(doubles, price)["d"].to_pylist() == [0.35]
    flags = pd.Series([True, False], dtype="category")
    assert many_keys(pa.schema([("b", pa.bool_())]), flags)["b"].to_pylist() == [True, False]


def test_columns_of_other_libraries_are_exact():
    numbers = pa.schema([("n", pa.int64())])
    assert many_keys(numbers, StreamOnly(pa.array([2.0])))["n"].to_pylist() == [2]
    with pytest.raises(ValueError, match="do not fit"):
        many_keys(numbers, StreamOnly(pa.array([2.5])))
    days = pa.array([date(2026, 3, 1)])
    for zone in (None, "UTC"):
        times = pa.schema([("t", pa.timestamp("us", zone))])
        for dates in (days, np.array(["2026-03-01"], "M8[D]")):
            with pytest.raises(ValueError, match="a date is not a time"):
                many_keys(times, dates)
        assert many_keys(times, [pd.NaT])["t"].to_pylist() == [None]
    with pytest.raises(ValueError, match="not exactly"):
        many_keys(pa.schema([("d", pa.date32())]), [pd.Timestamp(2026, 3, 1, nanosecond=1)])
