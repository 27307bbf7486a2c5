"""Values of a struct's fields: a value that would be read back as another one is refused.

Rows and columns agree.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings

import holdfast as hf
from holdfast import serde

NOON = dt.datetime(2026, 11, 21, 12, 0, 0, 1500)
UTC_NOON = NOON.replace(tzinfo=dt.UTC)
BELOW_A_SECOND = dt.timezone(dt.timedelta(hours=1, microseconds=1))


def struct_of(type_: pa.DataType) -> serde.TypedSerde[Any]:
    return serde.struct(pa.schema([("outer", pa.struct([("x", type_)])), ("x", type_)]))


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        *(
            (type_, value)
            for type_ in (pa.int32(), pa.uint64())
            for value in (1.5, 1.0, np.float64(2.7), True, np.True_, "1")
        ),
        (pa.dictionary(pa.int32(), pa.int32()), 1.5),
        *((pa.float64(), value) for value in (True, Decimal(1), "1")),
        *((pa.bool_(), value) for value in (1, 0.0, "")),
        *(
            (type_, b"a")
            for type_ in (
                pa.string(),
                pa.large_string(),
                pa.string_view(),
                pa.dictionary(pa.int32(), pa.string()),
            )
        ),
        *((type_, "a") for type_ in (pa.binary(), pa.large_binary(), pa.binary_view())),
        *((pa.date32(), value) for value in (NOON, 1.5, True)),
        *((pa.timestamp("us"), value) for value in (NOON.date(), 1.5, True)),
        *((pa.decimal128(5, 2), value) for value in (1.5, True, "1")),
        *(
            (type_, np.timedelta64(5, "ns"))
            for type_ in (pa.int64(), pa.float64(), pa.decimal128(5, 2), pa.date32())
        ),
        *(
            (pa.list_(pa.int32()), value)
            for value in ("ab", b"ab", {1: 2}, 1, [1, 1.5], np.array([1.5]))
        ),
        *(
            (pa.map_(pa.string(), pa.int32()), value)
            for value in ({"a": 1.5}, {b"a": 1}, ["ab"], 1)
        ),
    ],
)
def test_a_value_of_another_kind_is_refused_and_its_field_named(type_, value):
    for row, field in [(({"x": None}, value), "x"), (((value,), None), r"outer\.x")]:
        with pytest.raises(
            TypeError, match=rf"has a field {field}(\[\](\.(key|value))?)?, .*; wanted: "
        ):
            struct_of(type_).serialize_value(row)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (pa.timestamp("s"), NOON),
        (pa.timestamp("s", "UTC"), UTC_NOON.replace(microsecond=1)),
        (pa.timestamp("ms", "UTC"), UTC_NOON),
        (pa.timestamp("ns"), dt.datetime(9999, 1, 1)),
        (pa.decimal128(5, 2), Decimal("1.005")),
        (pa.decimal128(5, 2), 1000),
        (pa.int8(), 128),
        (pa.uint64(), -1),
        (pa.float64(), 2**53 + 1),
        (pa.float32(), 1e300),
        *((pa.float64(), np.longdouble(number)) for number in ("0.1", "1e400")),
        (pa.float32(), np.longdouble("1e400")),
        (pa.timestamp("us"), UTC_NOON),
        (pa.list_(pa.timestamp("s")), [NOON]),
        (pa.string(), "\ud800"),
        (pa.timestamp("s", "UTC"), NOON.replace(microsecond=0, tzinfo=BELOW_A_SECOND)),
        (pa.timestamp("us", "UTC"), dt.datetime.min.replace(tzinfo=BELOW_A_SECOND)),
    ],
)
def test_a_value_that_does_not_fit_is_refused_and_its_field_named(type_, value):
    for row, field in [(({"x": None}, value), "x"), (((value,), None), "outer")]:
        with pytest.raises(
            hf.errors.SerializationError, match=rf"field {field}[^ ]*, .*, does not fit "
        ):
            struct_of(type_).serialize_value(row)


@pytest.mark.parametrize(
    ("type_", "value", "read"),
    [
        (pa.int32(), np.int64(3), 3),
        (pa.float64(), 3, 3.0),
        (pa.float64(), np.float32(2.5), 2.5),
        (pa.float64(), np.longdouble(2.5), 2.5),
        (pa.bool_(), np.True_, True),
        (pa.binary(), bytearray(b"a"), b"a"),
        (pa.decimal128(5, 2), np.int64(3), Decimal(3)),
        (pa.decimal128(5, 2), Decimal("1.5000"), Decimal("1.5")),
        (pa.timestamp("ms"), NOON.replace(microsecond=2000), NOON.replace(microsecond=2000)),
        (
            pa.timestamp("us", "UTC"),
            UTC_NOON.astimezone(dt.timezone(dt.timedelta(hours=5))),
            UTC_NOON,
        ),
        (
            pa.timestamp("us", "UTC"),
            NOON.replace(tzinfo=BELOW_A_SECOND),
            UTC_NOON - dt.timedelta(hours=1, microseconds=1),
        ),
        (pa.list_(pa.int32()), np.array([1, 2]), [1, 2]),
        (pa.map_(pa.string(), pa.int8()), [("a", 1)], {"a": 1}),
    ],
)
def test_equivalent_values_are_accepted(type_, value, read):
    of_type = struct_of(type_)
    assert of_type.deserialize_value(of_type.serialize_value(((value,), value))) == ((read,), read)


@pytest.mark.parametrize(
    ("key", "entries"),
    [
        (pa.string(), [("a", 1), ("a", 2)]),
        (pa.float32(), {0.1: 1, 0.1 + 1e-12: 2}),
        (pa.float64(), [(0.0, 1), (-0.0, 2)]),
        (pa.timestamp("us"), {dt.datetime(1970, 1, 1): 1, 0: 2}),
        (pa.struct([("a", pa.int8())]), [({"a": 1}, 1), ((1,), 2)]),
        (pa.dictionary(pa.int32(), pa.date32()), [(dt.date(1970, 1, 2), 1), (1, 2)]),
        (
            pa.struct([("a", pa.dictionary(pa.int32(), pa.decimal128(4, 2)))]),
            [((Decimal(1),), 1), ((1,), 2)],
        ),
    ],
)
def test_keys_of_a_map_that_are_read_as_equal_are_refused(key, entries):
    """A regression test: a read returned one of the entries."""
    for row, field in [(({"x": None}, entries), "x"), (((entries,), None), r"outer\.x")]:
        with pytest.raises(
            hf.errors.SerializationError, match=rf"field {field} has several entries of the key"
        ):
            struct_of(pa.map_(key, pa.int8())).serialize_value(row)


@pytest.mark.parametrize("in_struct", [False, True])
def test_keys_of_a_map_may_be_in_the_repeated_hour_of_a_zone(in_struct):
    """A regression test: Python takes the two moments for one key."""
    key: pa.DataType = pa.timestamp("us", "America/New_York")
    moments: list[Any] = [dt.datetime(2024, 11, 3, hour, 30, tzinfo=dt.UTC) for hour in (5, 6, 12)]
    if in_struct:
        key, moments = pa.struct([("at", key)]), [(moment,) for moment in moments]
    of_type = struct_of(pa.map_(key, pa.int8()))
    entries = dict(zip(moments, range(3), strict=True))
    _, read = of_type.deserialize_value(of_type.serialize_value((None, entries)))
    assert read == entries
    assert of_type.deserialize_value(of_type.serialize_value((None, read)))[1] == entries
    with pytest.raises(hf.errors.SerializationError, match="several entries of the key"):
        of_type.serialize_value((None, [(moments[1], 1), (moments[1], 2)]))


def test_keys_of_a_map_may_be_structs():
    of_type = struct_of(pa.map_(pa.struct([("a", pa.int8())]), pa.int8()))
    data = of_type.serialize_value((None, [((1,), 1), ((2,), 2)]))
    assert of_type.deserialize_value(data) == (None, {(1,): 1, (2,): 2})


@pytest.mark.parametrize("in_list", [False, True])
def test_a_null_struct_over_a_dictionary_is_stored(in_list):
    """A regression test: pyarrow gives a null struct a key that the dictionary does not have."""
    inner = pa.struct([("x", pa.dictionary(pa.int32(), pa.string()))])
    of_type = serde.struct(pa.schema([("outer", pa.list_(inner) if in_list else inner)]))
    values = [{"outer": [value] if in_list else value} for value in (None, {"x": "a"}, {"x": None})]
    for value in values:
        assert of_type.deserialize_value(of_type.serialize_value(value)) == value
    column = pa.array([*values[:1], None], pa.struct(list(of_type._schema)))
    encoded = pa.array(of_type.encode(column, as_key=False))
    assert encoded.to_pylist() == [of_type.serialize_value(values[0]), None]


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (pa.date32(), dt.date(2024, 1, 2)),
        (pa.timestamp("us", "UTC"), UTC_NOON),
        (pa.decimal128(6, 2), Decimal("1.50")),
        (pa.string_view(), "a"),
    ],
)
def test_a_scalar_may_have_values_of_any_dictionary(type_, value):
    """A regression test: pyarrow makes no dictionaries of these types from Python values."""
    of_type = struct_of(pa.dictionary(pa.int32(), type_))
    data = of_type.serialize_value(((value,), value))
    assert of_type.deserialize_value(data) == ((value,), value)


TYPES = [
    *(
        pa.bool_(),
        pa.int8(),
        pa.int64(),
        pa.uint8(),
        pa.uint64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.binary(),
    ),
    *(
        pa.date32(),
        pa.timestamp("s"),
        pa.timestamp("us", "UTC"),
        pa.timestamp("ns"),
        pa.decimal128(6, 2),
    ),
    *(pa.list_(pa.int8()), pa.map_(pa.string(), pa.int8()), pa.dictionary(pa.int32(), pa.string())),
]
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-300, 300)
    | st.sampled_from([2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 2**70])
    | st.floats()
    | st.sampled_from([1.0, -0.0, 0.1, 16777217.0])
    | st.text(max_size=2)
    | st.binary(max_size=2)
    | st.decimals(places=3, min_value=-9999, max_value=9999)
    | st.dates()
    | st.datetimes()
    | st.datetimes(timezones=st.just(dt.UTC))
)
VALUES = (
    PLAIN | st.lists(PLAIN, max_size=2) | st.dictionaries(st.text(max_size=1), PLAIN, max_size=2)
)


def is_same(value: Any, read: Any, type_: pa.DataType) -> bool:
    """Returns whether the value that was read is the written one, as its type represents it."""
    types = pa.types
    if value is None or read is None:
        same = value is read
    elif types.is_list(type_):
        same = len(value) == len(read) and all(
            is_same(a, b, type_.value_type) for a, b in zip(value, read, strict=True)
        )
    elif types.is_map(type_):
        value = dict(value)
        same = value.keys() == read.keys() and all(
            is_same(value[key], read[key], type_.item_type) for key in value
        )
    elif types.is_floating(type_):
        value = float(np.float32(value)) if types.is_float32(type_) else float(value)
        same = type(read) is float and (value == read or (math.isnan(value) and math.isnan(read)))
    elif types.is_timestamp(type_) and isinstance(value, dt.datetime):
        # Without a zone it is UTC.
        same = value.replace(tzinfo=dt.UTC) == read.replace(tzinfo=dt.UTC)
    elif types.is_temporal(type_) and isinstance(value, int):
        same = str(pa.scalar(value, type_).as_py()) == str(read)
    else:
        same = value == read and (type(value) is type(read) or types.is_decimal(type_))
    return same


@settings(max_examples=1500, deadline=None)
@given(type_=st.sampled_from(TYPES), value=VALUES)
@example(type_=pa.int64(), value=1.9)
@example(type_=pa.timestamp("s"), value=NOON)
def test_accepted_values_are_read_back_and_the_fast_path_accepts_no_more(type_, value):
    of_type = serde.struct(pa.schema([("x", type_)]))
    quick = of_type.core.serialize_fields((value,), False)
    try:
        slow = of_type.core.serialize_row(
            of_type._column(of_type._dump((value,)), of_type._type), False
        )
    except (TypeError, hf.errors.SerializationError):
        assert quick is None
        return
    assert quick in (None, slow)
    try:
        read = of_type.deserialize_value(slow)["x"]
    except (OverflowError, ValueError):
        # A date or timestamp beyond `datetime`, given as a number: columns can read it.
        return
    assert is_same(value, read, type_)
