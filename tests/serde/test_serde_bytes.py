"""The stored bytes. A failure here means a change of format, not a wrong test."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import pickle
from typing import NamedTuple

import pyarrow as pa
import pyspark.sql
import pytest

import holdfast as hf
from holdfast import serde

DAY = dt.datetime(2026, 11, 21, 8, 30, 15, 123456, dt.UTC)
ZONE = dt.timezone(dt.timedelta(hours=2))


@pytest.mark.parametrize(
    ("kind", "value", "golden"),
    [
        (serde.BYTES, b"a\x00b", "610062"),
        (serde.STRING, "", ""),
        (serde.STRING, "Ω€", "cea9e282ac"),
        (serde.INT64, 0, "8000000000000000"),
        (serde.INT64, -2, "7ffffffffffffffe"),
        (serde.INT64, 2**63 - 1, "ffffffffffffffff"),
        (serde.INT64, -(2**63), "0000000000000000"),
        (serde.FLOAT64, 0.0, "8000000000000000"),
        (serde.FLOAT64, 1.5, "bff8000000000000"),
        (serde.FLOAT64, -1.5, "4007ffffffffffff"),
        (serde.FLOAT64, math.inf, "fff0000000000000"),
        (serde.FLOAT64, -math.inf, "000fffffffffffff"),
        (serde.FLOAT64, 7, "c01c000000000000"),
        (serde.BOOL, False, "00"),
        (serde.BOOL, True, "01"),
        (serde.TIMESTAMP, DAY, "800660c52b837600"),
        (serde.TIMESTAMP, DAY.astimezone(ZONE), "800660c52b837600"),
        (serde.TIMESTAMP, -1, "7fffffffffffffff"),
        (
            serde.JSON,
            {"b": [1, 2.5, None, True], "a": "ü"},
            b'{"b":[1,2.5,null,true],"a":"\xc3\xbc"}'.hex(),
        ),
        (serde.JSON, "x", b'"x"'.hex()),
    ],
)
def test_simple_values_have_their_golden_bytes(kind, value, golden):
    data = kind.serialize(value)
    assert data.hex() == golden
    if isinstance(value, int) and kind is serde.TIMESTAMP:
        value = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=value)
    assert kind.deserialize(data) == value
    if isinstance(kind, serde.TypedSerde):
        assert kind.serialize_value(value) == data
        assert kind.deserialize_value(data) == value


def test_equal_floats_have_equal_bytes_as_keys():
    assert serde.FLOAT64.serialize(-0.0) == serde.FLOAT64.serialize(0.0)
    nan = "fff8000000000000"
    assert (
        serde.FLOAT64.serialize(math.nan).hex() == serde.FLOAT64.serialize(-math.nan).hex() == nan
    )
    # A value keeps every bit.
    assert serde.FLOAT64.serialize_value(-0.0).hex() == "7fffffffffffffff"
    assert (
        math.copysign(1, serde.FLOAT64.deserialize_value(serde.FLOAT64.serialize_value(-0.0))) == -1
    )
    assert (
        math.copysign(1, serde.FLOAT64.deserialize_value(serde.FLOAT64.serialize_value(-math.nan)))
        == -1
    )


# The kinds of types that a key's field can have: type, value, a key's field, a value's cell.
FIELDS = [
    (pa.bool_(), True, "01", "01"),
    (pa.int8(), -2, "7e", "fe"),
    (pa.int16(), 258, "8102", "0201"),
    (pa.int32(), -2, "7ffffffe", "feffffff"),
    (pa.int64(), 258, "8000000000000102", "0201000000000000"),
    (pa.uint8(), 200, "c8", "c8"),
    (pa.uint16(), 258, "0102", "0201"),
    (pa.uint32(), 258, "00000102", "02010000"),
    (pa.uint64(), 2**64 - 2, "fffffffffffffffe", "feffffffffffffff"),
    (pa.float32(), -1.5, "403fffff", "0000c0bf"),
    (pa.float64(), 1.5, "bff8000000000000", "000000000000f83f"),
    (
        pa.decimal128(12, 2),
        decimal.Decimal("-123.45"),
        "7fffffffffffffffffffffffffffcfc7",
        "c7cf" + "ff" * 14,
    ),
    (pa.date32(), dt.date(2026, 11, 21), "8000512a", "2a510000"),
    (pa.timestamp("s"), dt.datetime(1970, 1, 1, 0, 4, 18), "8000000000000102", "0201000000000000"),
    (
        pa.timestamp("ms", "UTC"),
        dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
        "8000000000000000",
        "0000000000000000",
    ),
    (pa.timestamp("us", "Europe/Berlin"), DAY, "800660c52b837600", "0076832bc5600600"),
    (pa.string(), "a\0b", "6100ff6200", "03610062"),
    (pa.large_string(), "", "00", "00"),
    (pa.string_view(), "a", "6100", "0161"),
    (pa.binary(), b"\0\xff", "00ffff00", "0200ff"),
    (pa.large_binary(), b"a", "6100", "0161"),
    (pa.binary_view(), b"a", "6100", "0161"),
    (pa.dictionary(pa.int32(), pa.string()), "a", "6100", "0161"),
    (
        pa.struct([("x", pa.int8()), ("y", pa.string())]),
        {"x": None, "y": "a"},
        "00016100",
        "020161",
    ),
]
CODES = {
    "bool": "b",
    "int8": "c",
    "int16": "s",
    "int32": "i",
    "int64": "l",
    "uint8": "C",
    "uint16": "S",
    "uint32": "I",
    "uint64": "L",
    "float": "f",
    "double": "g",
    "decimal128(12, 2)": "d:12,2",
    "date32[day]": "tdD",
    "timestamp[s]": "tss:",
    "timestamp[ms, tz=UTC]": "tsm:UTC",
    "timestamp[us, tz=Europe/Berlin]": "tsu:UTC",
    "string": "u",
    "large_string": "u",
    "string_view": "u",
    "binary": "z",
    "large_binary": "z",
    "binary_view": "z",
    "dictionary<values=string, indices=int32, ordered=0>": "u",
}


def text(words):
    return bytes([len(words)]) + words.encode()


def head(type_):
    """Returns the beginning of a row with one column `f`."""
    name = text("f")
    if pa.types.is_struct(type_):
        columns = (
            b"\x01" + name + text("+s") + b"\x02" + text("x") + text("c") + text("y") + text("u")
        )
    else:
        columns = b"\x01" + name + text(CODES[str(type_)])
    return b"\x01" + bytes([len(columns)]) + columns


@pytest.mark.parametrize(
    ("type_", "value", "key", "cell"), FIELDS, ids=[str(field[0]) for field in FIELDS]
)
def test_fields_of_every_type_have_their_golden_bytes(type_, value, key, cell):
    struct = serde.struct(pa.schema([("f", type_)]))
    data = struct.serialize((value,))
    assert data.hex() == "01" + key
    assert struct.deserialize(data) == (value,)
    data = struct.serialize_value({"f": value})
    assert data == head(type_) + b"\x01" + bytes.fromhex(cell)
    assert struct.deserialize_value(data) == {"f": value}
    assert struct.serialize((None,)) == b"\x00"
    assert struct.serialize_value((None,)) == head(type_) + b"\x00"
    assert struct.deserialize(b"\x00") == struct.deserialize_value(head(type_) + b"\x00") == (None,)


def test_lists_and_maps_have_their_golden_bytes():
    struct = serde.struct(
        pa.schema([("l", pa.list_(pa.int16())), ("m", pa.map_(pa.string(), pa.bool_()))])
    )
    row = {"l": [1, None, 3], "m": {"a": True, "b": None}}
    data = struct.serialize_value(row)
    columns = (
        b"\x02"
        + text("l")
        + text("+l")
        + text("s")
        + text("m")
        + text("+m")
        + text("u")
        + text("b")
    )
    cells = b"\x03" + b"\x03\x05\x01\x00\x03\x00" + b"\x02\x03" + b"\x03\x01a\x01" + b"\x01\x01b"
    assert data == b"\x01" + bytes([len(columns)]) + columns + cells
    assert struct.deserialize_value(data) == row
    # A struct with lists or maps cannot be a key, so `serialize` returns a value's bytes.
    assert struct.serialize(row) == data
    assert struct.deserialize(data) == row


def test_more_than_eight_columns_and_a_long_string_are_read_back():
    struct = serde.struct(pa.schema([(f"c{n}", pa.string()) for n in range(10)]))
    row = (*[None] * 8, "x" * 200, "")
    data = struct.serialize_value(row)
    assert data.endswith(b"\x00\x03" + b"\xc8\x01" + b"x" * 200 + b"\x00")
    assert struct.deserialize_value(data) == row
    assert struct.deserialize(struct.serialize(row)) == row


def test_a_struct_without_fields_is_read_back():
    nothing = serde.struct(pa.schema([]))
    assert nothing.serialize(()) == b""
    assert nothing.serialize_value({}).hex() == "010100"
    assert nothing.deserialize(b"") == nothing.deserialize_value(bytes.fromhex("010100")) == ()


@pytest.mark.parametrize(
    "kind",
    [
        *(
            getattr(serde, name)
            for name in ["BYTES", "STRING", "INT64", "FLOAT64", "BOOL", "TIMESTAMP", "JSON"]
        ),
        serde.struct(pa.schema([("a", pa.list_(pa.int8()))])),
    ],
    ids=repr,
)
def test_serdes_can_be_pickled(kind):
    copy = pickle.loads(pickle.dumps(kind))
    assert copy == kind
    assert hash(copy) == hash(kind)
    assert hf.stores.key_value("kv", value=copy) == hf.stores.key_value("kv", value=kind)


def test_different_serdes_are_not_equal():
    structs = [serde.struct(pa.schema([("a", type_)])) for type_ in (pa.int8(), pa.string())]
    assert len({serde.INT64, serde.TIMESTAMP, serde.STRING, serde.JSON, serde.BYTES, *structs}) == 7


def test_a_row_of_another_struct_is_taken_by_name():
    fields = [("rate", pa.float64()), ("spread", pa.float64())]
    one, other = (serde.struct(pa.schema(order)) for order in (fields, fields[::-1]))
    row = one.deserialize(one.serialize((1.0, 2.0)))
    assert other.deserialize(other.serialize(row)) == {"rate": 1.0, "spread": 2.0}
    nested = serde.struct(pa.schema([("both", pa.struct(fields[::-1]))]))
    assert nested.deserialize(nested.serialize((row,)))["both"] == {"rate": 1.0, "spread": 2.0}
    with pytest.raises(TypeError, match="wanted: a tuple or dict of"):
        serde.struct(pa.schema([("a", pa.float64()), ("b", pa.float64())])).serialize(row)


class Quote(NamedTuple):
    rate: float
    spread: float


@pytest.mark.parametrize("make", [Quote, pyspark.sql.Row], ids=["NamedTuple", "pyspark Row"])
def test_a_tuple_that_names_its_fields_is_taken_by_name(make):
    struct = serde.struct(pa.schema([("spread", pa.float64()), ("rate", pa.float64())]))
    row = make(rate=1.0, spread=2.0)
    assert struct.deserialize(struct.serialize(row)) == {"rate": 1.0, "spread": 2.0}
    both = pa.struct([("spread", pa.float64()), ("rate", pa.float64())])
    nested = serde.struct(pa.schema([("both", both)]))
    assert nested.deserialize(nested.serialize((row,)))["both"] == {"rate": 1.0, "spread": 2.0}
    other = serde.struct(pa.schema([("a", pa.float64()), ("b", pa.float64())]))
    with pytest.raises(TypeError, match=r"has the fields \['rate', 'spread'\]; wanted: a tuple"):
        other.serialize(row)
    assert other.deserialize(other.serialize(tuple(row))) == {"a": 1.0, "b": 2.0}


@pytest.mark.parametrize("names", [["a"], ["a", "b"]])
def test_a_tuple_with_two_fields_of_one_name_is_refused(names):
    row = pyspark.sql.Row("a", "a")(1, 2)
    fields = [(name, pa.int64()) for name in names]
    for struct, value in (
        (serde.struct(pa.schema(fields)), row),
        (serde.struct(pa.schema([("both", pa.struct(fields))])), (row,)),
    ):
        for serialize in (struct.serialize, struct.serialize_value):
            with pytest.raises(TypeError, match=r"has the fields \['a', 'a'\], two of one name"):
                serialize(value)


def test_a_row_is_a_tuple_with_named_fields():
    struct = serde.struct(pa.schema([("a", pa.int8()), ("b", pa.struct([("c", pa.string())]))]))
    row = struct.deserialize(struct.serialize((1, ("x",))))
    assert row == (1, ("x",))
    assert row == {"a": 1, "b": {"c": "x"}}
    assert row != {"a": 1}
    assert row != (1, ("y",))
    assert (row["a"], row["b"]["c"], dict(row), hash(row)) == (
        1,
        "x",
        {"a": 1, "b": ("x",)},
        hash((1, ("x",))),
    )
    assert pickle.loads(pickle.dumps(row)) == row
    assert repr(row) == "Row(a=1, b=Row(c='x'))"
    with pytest.raises(KeyError):
        row["nothing"]
