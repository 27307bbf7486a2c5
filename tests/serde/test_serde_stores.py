"""Typed stores: the scalar and the batch forms agree on all rows."""

from __future__ import annotations

import contextlib
import datetime as dt
import math

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast import serde

DAY = dt.datetime(2026, 11, 21, 8, 30, tzinfo=dt.UTC)
PAIR = pa.schema([("code", pa.string()), ("number", pa.int32())])
PAIRS = pa.struct(list(PAIR))
# Serde, the type of its columns, and values in order.
KINDS = [
    (serde.STRING, pa.string(), ["", "a", "ä", "€"]),
    (serde.INT64, pa.int64(), [-(2**63), -1, 0, 2**63 - 1]),
    (serde.FLOAT64, pa.float64(), [-math.inf, -1.5, 0.0, 2.5]),
    (serde.BOOL, pa.bool_(), [False, True]),
    (
        serde.TIMESTAMP,
        pa.timestamp("us", "UTC"),
        [DAY - dt.timedelta(days=30_000), DAY, DAY + dt.timedelta(microseconds=1)],
    ),
    (
        serde.struct(PAIR),
        PAIRS,
        [{"code": None, "number": 1}, {"code": "a", "number": -1}, {"code": "a", "number": 0}],
    ),
]
IDS = [repr(kind[0]) for kind in KINDS]


def pylist(column):
    return pa.array(column).to_pylist()


def rows(batch):
    return pa.record_batch(batch).to_pylist()


@pytest.mark.parametrize(("kind", "type_", "values"), KINDS, ids=IDS)
def test_both_forms_agree_in_a_key_value_store(open_stores, kind, type_, values):
    kv = open_stores(key=kind, value=kind)["kv"]
    column = pa.array(values[::-1], type_)
    kv.put_batch(column, column)
    assert [(key, value) for key, value in kv.range()] == [(value, value) for value in values]
    for value in values:
        assert kv.get(value) == value
        kv.put(value, values[0])
    found = pa.array(kv.get_batch(column))
    assert found.type == type_
    assert found.to_pylist() == [values[0]] * len(values)
    kv.delete_batch(column[:1])
    assert kv.delete(values[0]) == values[0]
    assert kv.put_if_absent(values[0], values[1]) is None
    assert kv.put_if_absent(values[0], values[0]) == values[1]
    table = pa.table(kv.range_batches())
    assert table.schema.types == [type_, type_]
    assert table.column("key").to_pylist() == [key for key, _ in kv.range()] == values[:-1]
    reverse = pa.table(kv.range_batches(values[0], values[-1], reverse=True, batch_rows=1))
    assert reverse.column("key").to_pylist() == values[:-1][::-1]
    with kv.range() as iterator:
        assert iterator.peek_next_key() == values[0]


@pytest.mark.parametrize(("kind", "type_", "values"), KINDS, ids=IDS)
def test_both_forms_agree_in_a_versioned_store(open_stores, kind, type_, values):
    rates = open_stores(key=kind, value=kind)["rates"]
    a, b = values[:2]
    keys, times = pa.array([a, a, b], type_), pa.array([10, 20, 10])
    assert rows(rates.put_batch(keys, pa.array([a, b, None], type_), times)) == [
        {"accepted": True, "valid_to": None},
        {"accepted": True, "valid_to": None},
        {"accepted": True, "valid_to": None},
    ]
    assert rates.put(a, a, 15).valid_to == 20
    assert rates.get(a) == (b, 20, None)
    assert rates.get(b) is None
    assert rows(rates.get_batch(keys, times)) == [
        {"value": a, "timestamp": 10, "valid_to": 15},
        {"value": b, "timestamp": 20, "valid_to": None},
        {"value": None, "timestamp": None, "valid_to": None},
    ]
    assert pa.record_batch(rates.get_batch(keys)).schema.field("value").type == type_
    is_put = pa.array([True, False])
    applied = rows(
        rates.apply_batch(is_put, keys[1:], pa.array([a, None], type_), pa.array([30, 40]))
    )
    assert applied == [
        {"accepted": True, "value": None, "timestamp": None, "valid_to": None},
        {"accepted": None, "value": None, "timestamp": None, "valid_to": None},
    ]
    versions = pa.table(rates.versions_batches(None, b, 0, 100)).to_pylist()
    assert [(row["key"], row["value"]) for row in versions] == [(a, a), (a, a), (a, b), (a, a)]
    assert [(key, record.value) for key, record in rates.versions_range(None, b, 0, 100)] == [
        (a, a),
        (a, a),
        (a, b),
        (a, a),
    ]
    assert pa.table(rates.scan_batches()).to_pylist() == [
        {"key": a, "value": a, "timestamp": 30, "valid_to": None}
    ]
    assert rates.delete(a, 50) == (a, 30, None)
    assert [record.value for _, record in rates.versions(a, 0, 100)] == [a, b, a, a]


def test_only_keys_or_only_values_may_have_a_serde(open_stores):
    kv = open_stores(key=serde.INT64)["kv"]
    kv.put_batch(pa.array([2, 1]), pa.array([b"b", None]))
    assert list(kv.range()) == [(2, b"b")]
    assert pa.table(kv.range_batches()).to_pylist() == [{"key": 2, "value": b"b"}]
    assert pylist(kv.get_batch(pa.array([1, 2]))) == [None, b"b"]
    kv = open_stores(value=serde.INT64)["rates"]
    kv.put_batch(pa.array([b"a"]), pa.array([7]), pa.array([1]))
    assert rows(kv.get_batch(pa.array([b"a"]))) == [{"value": 7, "timestamp": 1, "valid_to": None}]


def test_batches_of_a_custom_serde_are_bytes(open_stores):
    class Shout:
        def serialize(self, value):
            return value.upper().encode()

        def deserialize(self, data):
            return data.decode().lower()

    kv = open_stores(key=Shout(), value=Shout())["kv"]
    kv.put("a", "x")
    kv.put_batch(pa.array([b"B"]), pa.array(["Y"]))
    assert list(kv.range()) == [("a", "x"), ("b", "y")]
    assert pylist(kv.get_batch(pa.array([b"A", b"a"]))) == [b"X", None]
    assert pa.table(kv.range_batches()).to_pylist() == [
        {"key": b"A", "value": b"X"},
        {"key": b"B", "value": b"Y"},
    ]
    assert [key for key, _ in kv.prefix_scan("b")] == ["b"]


def test_a_prefix_of_a_string_selects_its_keys(open_stores):
    kv = open_stores(key=serde.STRING, value=serde.JSON)["kv"]
    for key in ["a", "ab", "abc", "b"]:
        kv.put(key, [key])
    assert [key for key, _ in kv.prefix_scan("ab")] == ["ab", "abc"]
    with pytest.raises(ValueError, match="the prefix is None"):
        kv.prefix_scan(None)


def test_the_prefix_of_a_struct_is_its_first_fields(open_stores):
    schema = pa.schema([("a", pa.string()), ("b", pa.int8()), ("c", pa.string())])
    kv = open_stores(key=serde.struct(schema))["kv"]
    keys = [("x", 1, "p"), ("x", 1, "q"), ("x", 2, "p"), ("xy", 1, "p"), (None, 1, "p")]
    kv.put_all((key, b"") for key in keys)
    assert [key for key, _ in kv.prefix_scan(("x",))] == keys[:3]
    assert [key for key, _ in kv.prefix_scan({"a": "x", "b": 1})] == keys[:2]
    assert [key for key, _ in kv.prefix_scan(keys[1])] == keys[1:2]
    assert len(list(kv.prefix_scan(()))) == 5
    with pytest.raises(TypeError, match=r"the prefix has the fields \['b'\].*\['a'\]"):
        kv.prefix_scan({"b": 1})


def test_the_prefix_of_a_struct_is_whole_fields(open_stores):
    schema = pa.schema([("a", pa.binary()), ("b", pa.string()), ("c", pa.int8())])
    kv = open_stores(key=serde.struct(schema))["kv"]
    texts = ["", "\0", "\0\0", "\0x", "x", "x\0", "x\0\1", None]
    keys = [(a if a is None else a.encode(), b, 1) for a in texts for b in texts]
    kv.put_all((key, b"") for key in keys)
    for a in texts:
        first = a if a is None else a.encode()
        assert [key[0] for key, _ in kv.prefix_scan((first,))] == [first] * len(texts)
        for b in texts:
            assert [key for key, _ in kv.prefix_scan((first, b))] == [(first, b, 1)]


def test_json_batches_are_texts(open_stores):
    kv = open_stores(key=serde.STRING, value=serde.JSON)["kv"]
    kv.put_batch(pa.array(["a", "b"]), pa.array(['{"x": [1, 2]}', None]))
    assert kv.get("a") == {"x": [1, 2]}
    kv.put("b", ["ü"])
    assert pylist(kv.get_batch(pa.array(["a", "b"]))) == ['{"x": [1, 2]}', '["ü"]']
    with pytest.raises(
        hf.errors.SerializationError, match=r"row 1 of values is not JSON.*store: kv"
    ):
        kv.put_batch(pa.array(["c", "d"]), pa.array(["1", "{"]))
    assert kv.get("c") is None


@pytest.mark.parametrize(
    "texts",
    [
        pa.array(["null", "1", None], pa.string()),
        pa.array([" null\n", "1", None], pa.string_view()),
        pa.array(["2", "null", "1", None], pa.large_string())[1:],
        pa.chunked_array([["null"], ["1", None]]).dictionary_encode(),
    ],
    ids=["text", "view", "slice", "dictionary"],
)
def test_the_json_text_null_is_read_as_none(open_stores, texts):
    db = open_stores(key=serde.STRING, value=serde.JSON)
    db["kv"].put("a", 1)
    db["kv"].put_batch(pa.array(["a", "b", "c"]), texts)
    assert list(db["kv"].range()) == [("b", 1)]
    db["rates"].put("a", 1, 1)
    db["rates"].put_batch(pa.array(["a", "b", "c"]), texts, pa.array([2, 2, 2]))
    assert [key for key, _ in db["rates"].scan()] == ["b"]


def test_the_json_text_null_cannot_be_a_key(open_stores):
    kv = open_stores(key=serde.JSON, value=serde.STRING)["kv"]
    with pytest.raises(ValueError, match="row 1 of keys is null"):
        kv.put_batch(pa.array(["1", "null"]), pa.array(["a", "b"]))


# Forms of columns that mean the same.

FORMS = {
    "sliced": lambda values, type_: pa.array([None, *values, None], type_)[1:-1],
    "chunked": lambda values, type_: pa.chunked_array(
        [pa.array(values[:1], type_), pa.array(values[1:], type_)], type_
    ),
    "one chunk": lambda values, type_: pa.chunked_array([pa.array(values, type_)], type_),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
@pytest.mark.parametrize(("kind", "type_", "values"), KINDS, ids=IDS)
def test_equivalent_columns_are_accepted(open_stores, kind, type_, values, form):
    kv = open_stores(key=kind, value=kind)["kv"]
    kv.put_batch(form(values, type_), form([None, *values[1:]], type_))
    assert [value for _, value in kv.range()] == values[1:]
    assert pylist(kv.get_batch(form(values, type_))) == [None, *values[1:]]
    kv.put_batch(form([], type_), form([], type_))
    assert len(pylist(kv.get_batch(form([], type_)))) == 0
    kv.put_batch(form(values, type_), pa.nulls(len(values)))
    assert list(kv.range()) == []


TEXT_TYPES = [
    pa.large_string(),
    pa.string_view(),
    pa.dictionary(pa.int32(), pa.large_string()),
]
# Columns may come with this type, and a schema cannot ask for it.
NARROW = pa.dictionary(pa.int8(), pa.string())


@pytest.mark.parametrize("type_", [*TEXT_TYPES, NARROW], ids=str)
def test_strings_of_every_type_are_accepted(open_stores, type_):
    kv = open_stores(key=serde.STRING, value=serde.STRING)["kv"]
    column = pa.array(["junk", "a", "b", "a"], pa.string()).cast(type_)[1:]
    kv.put_batch(column, column)
    assert list(kv.range()) == [("a", "a"), ("b", "b")]
    assert pa.array(kv.get_batch(column)).type == pa.string()


@pytest.mark.parametrize("type_", [*TEXT_TYPES, NARROW], ids=str)
def test_strings_of_every_type_are_accepted_in_structs(open_stores, type_):
    declared, came = serde.struct(PAIR), pa.struct([("number", pa.int32()), ("code", type_)])
    kv = open_stores(key=declared, value=declared)["kv"]
    # Fields are identified by their names, in any order.
    code = pa.array(["junk", "b", None, "a"], pa.string()).cast(type_)
    column = pa.StructArray.from_arrays(
        [pa.array([0, 1, 2, 3], pa.int32()), code], fields=list(came)
    )[1:]
    kv.put_batch(column, column)
    assert [key for key, _ in kv.range()] == [(None, 2), ("a", 3), ("b", 1)]
    assert pa.array(kv.get_batch(column)).type == PAIRS
    if type_ == NARROW:
        return
    # A schema may ask for these types: columns are returned with them.
    other = serde.struct(pa.schema([("number", pa.int32()), ("code", type_)]))
    assert pa.array(other.core.decode(other.encode(column, as_key=True), as_key=True)).type == came


def test_batches_tables_and_frames_are_structs(open_stores):
    kv = open_stores(key=serde.struct(PAIR), value=serde.INT64)["kv"]
    batch = pa.record_batch({"code": ["a", "b"], "number": pa.array([1, 2], pa.int32())})
    kv.put_batch(batch, pa.array([1, 2]))
    kv.put_batch(pa.Table.from_batches([batch, batch]), pa.array([1, 2, 3, 4]))
    frame = pl.DataFrame(
        {"code": ["c"], "number": [3]}, schema={"code": pl.String, "number": pl.Int32}
    )
    kv.put_batch(frame, pl.Series([5]))
    assert list(kv.range()) == [(("a", 1), 3), (("b", 2), 4), (("c", 3), 5)]
    assert pylist(kv.get_batch(frame)) == [5]


@pytest.mark.parametrize("rows", [0, 1])
def test_slices_of_nested_columns_are_accepted(open_stores, rows):
    """A regression test: an empty slice behind the first row was an error of pyarrow."""
    inner = pa.struct([("x", pa.int64())])
    kv = open_stores(key=serde.INT64, value=serde.struct(pa.schema([("inner", inner)])))["kv"]
    batch = pa.record_batch({"inner": pa.array([{"x": 1}, {"x": 2}], inner)})
    table = pa.Table.from_batches([batch, batch])
    for values in [batch.slice(1, rows), table.slice(1, rows)]:
        kv.put_batch(pa.array([7][:rows], pa.int64()), values)
        assert list(kv.range()) == [(7, {"inner": {"x": 2}})][:rows]
        kv.delete(7)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([DAY], pa.timestamp("s", "UTC")),
        pa.array([DAY], pa.timestamp("ms")),
        pa.array([DAY], pa.timestamp("us", "Asia/Tokyo")),
        pa.array([DAY], pa.timestamp("ns", "UTC")),
        pa.array([int(DAY.timestamp()) * 10**6]),
        pa.array([DAY], pa.timestamp("us", "UTC")).dictionary_encode(),
    ],
    ids=lambda column: str(column.type),
)
def test_times_of_every_unit_are_accepted(open_stores, column):
    kv = open_stores(key=serde.TIMESTAMP, value=serde.TIMESTAMP)["kv"]
    kv.put_batch(column, column)
    assert list(kv.range()) == [(DAY, DAY)]
    assert kv.get(int(DAY.timestamp()) * 10**6) == DAY
    assert pa.array(kv.get_batch(column)).type == pa.timestamp("us", "UTC")


def test_moments_before_1970_are_floored_and_those_out_of_range_name_their_row(open_stores):
    kv = open_stores(key=serde.TIMESTAMP)["kv"]
    kv.put_batch(pa.array([-1, None][:1], pa.timestamp("ns")), pa.array([b""]))
    assert [key for key, _ in kv.range()] == [
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, dt.UTC)
    ]
    with pytest.raises(
        ValueError, match=r"row 1 of keys does not fit 64 bits of microseconds.*store: kv"
    ):
        kv.put_batch(pa.array([0, 2**62], pa.timestamp("s")), pa.array([b"", b""]))


# Both forms agree on all rows.

NESTED = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("float", pa.float64()),
        ("flag", pa.bool_()),
        ("when", pa.timestamp("us", "UTC")),
        ("inner", pa.struct([("text", pa.string()), ("deep", pa.struct([("n", pa.int8())]))])),
        ("list", pa.list_(pa.struct([("s", pa.string())]))),
        ("map", pa.map_(pa.string(), pa.list_(pa.int16()))),
    ]
)
SMALL = st.text(max_size=3)
STRUCTS = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "float": st.none() | st.floats(allow_nan=False),
        "flag": st.none() | st.booleans(),
        "when": st.none() | st.datetimes(timezones=st.just(dt.UTC)),
        "inner": st.none()
        | st.fixed_dictionaries(
            {
                "text": st.none() | SMALL,
                "deep": st.none()
                | st.fixed_dictionaries({"n": st.none() | st.integers(-128, 127)}),
            }
        ),
        "list": st.none()
        | st.lists(st.none() | st.fixed_dictionaries({"s": st.none() | SMALL}), max_size=3),
        "map": st.none()
        | st.dictionaries(
            SMALL, st.none() | st.lists(st.none() | st.integers(-9, 9), max_size=2), max_size=3
        ),
    }
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(st.none() | STRUCTS, max_size=5))
def test_scalar_and_batch_forms_agree(values):
    kind, type_ = serde.struct(NESTED), pa.struct(list(NESTED))
    column = pa.array(values, type_)
    encoded = pa.array(kind.encode(column, as_key=False))
    assert encoded.to_pylist() == [
        None if value is None else kind.serialize_value(value) for value in values
    ]
    assert [
        None if data is None else kind.deserialize_value(data) for data in encoded.to_pylist()
    ] == values
    assert pa.array(kind.core.decode(encoded, as_key=False)).equals(column)
    sliced = pa.concat_arrays([column, column])[len(values) :]
    assert pa.array(kind.encode(sliced, as_key=False)).equals(encoded)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.none() | st.text(), st.none() | st.integers(-(2**31), 2**31 - 1)), max_size=5
    )
)
def test_scalar_and_batch_forms_of_keys_agree(values):
    kind = serde.struct(PAIR)
    column = pa.array(values, PAIRS)
    encoded = pa.array(kind.encode(column, as_key=True))
    assert encoded.to_pylist() == [kind.serialize(value) for value in values]
    assert [kind.deserialize(data) for data in encoded.to_pylist()] == values
    assert pa.array(kind.core.decode(encoded, as_key=True)).equals(column)


def test_typed_stores_are_the_same_after_a_reopen(open_stores):
    serdes = {"key": serde.INT64, "value": serde.struct(PAIR)}
    db = open_stores(**serdes)
    db["kv"].put(-1, ("a", 1))
    db["rates"].put(-1, ("a", 1), 1)
    db.commit()
    db = open_stores(**serdes)
    assert db["kv"].read_only().get(-1) == db["rates"].read_only().get(-1).value == ("a", 1)
    assert pylist(db["kv"].read_only().get_batch(pa.array([-1]))) == [{"code": "a", "number": 1}]


# The other kinds of store.

OTHERS = {
    "timestamped": lambda **serdes: hf.stores.timestamped_key_value("s", **serdes),
    "window": lambda **serdes: hf.stores.window("s", retention=10**9, window_size=10, **serdes),
    "timestamped_window": lambda **serdes: hf.stores.timestamped_window(
        "s", retention=10**9, window_size=10, **serdes
    ),
    "session": lambda **serdes: hf.stores.session("s", retention=10**9, **serdes),
}


@pytest.fixture
def open_other(tmp_path):
    with contextlib.ExitStack() as stack:

        def opener(name, kind):
            return stack.enter_context(
                hf.open(tmp_path / name, [OTHERS[name](key=kind, value=kind)])
            )["s"]

        yield opener


@pytest.mark.parametrize(("kind", "type_", "values"), KINDS, ids=IDS)
def test_both_forms_agree_in_a_timestamped_store(open_other, kind, type_, values):
    store = open_other("timestamped", kind)
    a, b = values[:2]
    keys = pa.array([b, a], type_)
    store.put_batch(keys, keys, pa.array([1, 2]))
    assert list(store.range()) == [(a, (a, 2)), (b, (b, 1))]
    assert (store.get(a), store.put_if_absent(a, b, 3)) == ((a, 2), (a, 2))
    assert rows(store.get_batch(keys)) == [
        {"value": b, "timestamp": 1},
        {"value": a, "timestamp": 2},
    ]
    assert pa.table(store.range_batches(a, a)).to_pylist() == [
        {"key": a, "value": a, "timestamp": 2}
    ]
    assert [key for key, _ in store.prefix_scan(a)][:1] == [a]
    assert store.delete(a) == (a, 2)
    store.delete_batch(keys)
    assert list(store.range()) == []


@pytest.mark.parametrize("stamped", [False, True])
@pytest.mark.parametrize(("kind", "type_", "values"), KINDS, ids=IDS)
def test_both_forms_agree_in_a_window_store(open_other, kind, type_, values, stamped):
    store = open_other("timestamped_window" if stamped else "window", kind)
    a, b = values[:2]
    keys, starts = pa.array([b, a], type_), pa.array([20, 10])
    times = [pa.array([7, 7])] if stamped else []
    store.put_batch(keys, keys, starts, *times)

    def result(value):
        return (value, 7) if stamped else value

    more = {"timestamp": 7} if stamped else {}
    assert store.fetch(a, 10) == result(a)
    assert list(store.fetch(b, 0, 100)) == [((b, 20, 30), result(b))]
    assert list(store.all()) == [((a, 10, 20), result(a)), ((b, 20, 30), result(b))]
    assert [key for key, _ in store.fetch_range(b, b, 0, 100)] == [(b, 20, 30)]
    found = store.fetch_batch(keys, starts)
    assert (
        rows(found) == [{"value": b} | more, {"value": a} | more]
        if stamped
        else pylist(found) == [b, a]
    )
    window = {"window_start": 20, "window_end": 30, "value": b} | more
    assert rows(store.fetch_batch(keys[:1], starts[:1], starts[:1])) == [{"row": 0} | window]
    assert pa.table(store.fetch_range_batches(b, b, 0, 100)).to_pylist() == [{"key": b} | window]
    assert pa.table(store.all_batches()).column("key").to_pylist() == [a, b]


@pytest.mark.parametrize(("kind", "type_", "values"), KINDS, ids=IDS)
def test_both_forms_agree_in_a_session_store(open_other, kind, type_, values):
    store = open_other("session", kind)
    a, b = values[:2]
    keys, starts, ends = pa.array([b, a], type_), pa.array([20, 10]), pa.array([25, 15])
    store.put_batch(keys, starts, ends, keys)
    assert store.fetch_session(a, 10, 15) == a
    assert list(store.fetch(a, b)) == [((a, 10, 15), a), ((b, 20, 25), b)]
    assert list(store.find_sessions(b, 0, 100)) == [((b, 20, 25), b)]
    assert pylist(store.fetch_session_batch(keys, starts, ends)) == [b, a]
    assert rows(store.find_batch(keys[:1], pa.array([0]), pa.array([100]))) == [
        {"row": 0, "start": 20, "end": 25, "value": b}
    ]
    batches = store.find_batches(None, 0, 100, key_to=None)
    assert pa.table(batches).to_pylist()[1] == {"key": b, "start": 20, "end": 25, "value": b}
    store.remove_batch(keys[:1], starts[:1], ends[:1])
    store.remove(hf.WindowedKey(a, 10, 15))
    assert list(store.find_sessions(None, 0, 100, key_to=None)) == []
