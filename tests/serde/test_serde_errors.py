"""Errors of conversions name store, column, row or key, the given and the wanted value."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

import holdfast as hf
from holdfast import serde

PAIR = serde.struct(
    pa.schema([("code", pa.string()), pa.field("number", pa.int32(), nullable=False)])
)


def pairs(rows, number="int32"):
    return pa.array(rows, pa.struct([("code", pa.string()), ("number", pa.type_for_alias(number))]))


@pytest.mark.parametrize(
    ("kind", "wrong", "words"),
    [
        (serde.INT64, "x", r"'x' is a str; wanted: int"),
        (serde.INT64, 1.5, r"1\.5 is a float; wanted: int"),
        (serde.INT64, True, r"True is a bool; wanted: int"),
        (serde.FLOAT64, "x", r"'x' is a str; wanted: float"),
        (serde.FLOAT64, False, r"False is a bool; wanted: float"),
        (serde.STRING, b"x", r"b'x' is a bytes; wanted: str"),
        (serde.BOOL, 1, r"1 is a int; wanted: bool"),
        (
            serde.TIMESTAMP,
            "now",
            r"moment is a str; wanted: epoch microseconds \(int\) or an aware datetime",
        ),
        (serde.JSON, b"x", r"bytes is not JSON serializable"),
        (serde.BYTES, "x", r"is a str \('x'\); wanted: bytes"),
        (PAIR, 7, r"7 is a int; wanted: a tuple or dict of \['code', 'number'\]"),
        (PAIR, ("a",), r"\('a',\) is a tuple; wanted: a tuple or dict"),
        (
            PAIR,
            {"code": "a"},
            r"has the fields \['code'\]; wanted: a tuple or dict of \['code', 'number'\]",
        ),
        (
            PAIR,
            {"code": "a", "number": 1, "more": 2},
            r"has the fields \['code', 'number', 'more'\]",
        ),
        (PAIR, (1, 2), r"has a field code, 1, which is a int; wanted: string"),
        (PAIR, ("a", "b"), r"has a field number, 'b', which is a str; wanted: int32"),
    ],
)
def test_a_wrong_type_names_the_given_and_the_wanted_type(open_stores, kind, wrong, words):
    db = open_stores(key=kind, value=kind)
    with pytest.raises(TypeError, match=rf"store kv: the key .*{words}"):
        db["kv"].get(wrong)
    with pytest.raises(TypeError, match=rf"store rates: the key .*{words}"):
        db["rates"].put(wrong, None, 1)


@pytest.mark.parametrize(
    ("kind", "wrong", "words"),
    [
        (serde.INT64, 2**63, "too (large|big)"),
        (
            serde.FLOAT64,
            2**53 + 1,
            "no float equals this integer; the nearest is 9007199254740992.0",
        ),
        (serde.FLOAT64, np.int64(-(2**53) - 1), "no float equals this integer"),
        (serde.FLOAT64, 10**400, "too (large|big)"),
        (serde.STRING, "\ud800", "surrogates not allowed"),
        (serde.JSON, math.nan, "Out of range float"),
        (PAIR, ("a", 2**40), "number"),
        (PAIR, ("a", None), "row 0 of row.number is null, which its schema does not allow"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(open_stores, kind, wrong, words):
    db = open_stores(key=serde.INT64, value=kind)
    with pytest.raises(
        (hf.errors.SerializationError, TypeError), match=rf"store kv: .*the value .*{words}"
    ):
        db["kv"].put(1, wrong)
    assert db["kv"].get(1) is None


def test_a_null_key_is_a_value_error_that_names_its_row(open_stores):
    db = open_stores(key=serde.INT64, value=serde.INT64)
    with pytest.raises(ValueError, match="store kv: the key is None"):
        db["kv"].put(None, 1)
    keys = pa.chunked_array([[1], [None, 3]], pa.int64())
    for call in [
        lambda: db["kv"].put_batch(keys, keys),
        lambda: db["kv"].get_batch(keys),
        lambda: db["kv"].delete_batch(keys),
        lambda: db["rates"].put_batch(keys, keys, pa.array([1, 2, 3])),
        lambda: db["rates"].get_batch(keys),
    ]:
        with pytest.raises(ValueError, match="row 1 of keys is null"):
            call()
    with pytest.raises(ValueError, match="row 0 of keys is null"):
        db["kv"].put_batch(pa.nulls(1), pa.array([1]))
    assert list(db["kv"].range()) == []


@pytest.mark.parametrize(
    ("kind", "wrong", "words"),
    [
        (serde.INT64, pa.array(["x"]), "column {} has Arrow type Utf8; wanted Int64"),
        (serde.INT64, pa.array([1], pa.int32()), "column {} has Arrow type Int32; wanted Int64"),
        (serde.FLOAT64, pa.array([1]), "column {} has Arrow type Int64; wanted Float64"),
        (serde.STRING, pa.array([b"x"]), "column {} has Arrow type Binary; wanted Utf8"),
        (
            serde.STRING,
            pa.array([b"x"]).dictionary_encode(),
            "column {} has Arrow type Dictionary.*; wanted Utf8",
        ),
        (serde.JSON, pa.array([1]), "column {} has Arrow type Int64; wanted Utf8, of JSON texts"),
        (serde.BOOL, pa.array([1]), "column {} has Arrow type Int64; wanted Boolean"),
        (
            serde.TIMESTAMP,
            pa.array(["x"]),
            "column {} has Arrow type Utf8; wanted timestamp of any unit and zone, or Int64",
        ),
        (PAIR, pa.array([1]), r"column {} has Arrow type Int64; wanted Struct"),
        (PAIR, pairs([("a", 1)], "int64"), r"column {}\.number has Arrow type Int64; wanted Int32"),
        (PAIR, pa.array([{"code": "a"}]), r"column {}\.number is missing"),
        (
            PAIR,
            pa.array([{"code": "a", "number": 1, "more": 1}]),
            (
                r"column {} has a field \"more\" that its schema does not have; "
                r"it has \[\"code\", \"number\"\]"
            ),
        ),
    ],
)
def test_a_wrong_type_of_column_names_it(open_stores, kind, wrong, words):
    db = open_stores(key=kind, value=kind)
    right = db["kv"]
    for call, name in [
        (lambda: db["kv"].put_batch(wrong, pa.nulls(1)), "keys"),
        (lambda: db["kv"].get_batch(wrong), "keys"),
        (lambda: db["kv"].put_batch(pa.nulls(1), wrong), "values"),
    ]:
        with pytest.raises(TypeError, match=words.format(name) + r".*\[store: kv\]"):
            call()
    with pytest.raises(TypeError, match=r"keys is a list; wanted: an Arrow array"):
        right.put_batch([1], pa.nulls(1))


def test_a_null_that_the_schema_forbids_names_its_row(open_stores):
    kv = open_stores(value=PAIR)["kv"]
    rows = pa.array(
        [None, {"code": None, "number": 1}, {"code": "a", "number": None}], pairs([]).type
    )
    with pytest.raises(
        ValueError,
        match=r"row 2 of values\.number is null, which its schema does not allow.*store: kv",
    ):
        kv.put_batch(pa.array([b"a", b"b", b"c"]), rows)
    kv.put_batch(pa.array([b"a", b"b"]), rows[:2])
    assert list(kv.range()) == [(b"b", (None, 1))]


def test_nulls_outside_a_slice_and_in_a_null_list_do_not_count(open_stores):
    item = pa.field("item", pa.int64(), nullable=False)
    kv = open_stores(value=serde.struct(pa.schema([("a", pa.list_(item))])))["kv"]
    rows = pa.array([{"a": [None]}, {"a": [1]}])
    kv.put_batch(pa.array([b"k"]), rows.slice(1))
    lists = pa.ListArray.from_arrays(
        pa.array([0, 1, 2], pa.int32()), pa.array([None, 1]), mask=pa.array([True, False])
    )
    kv.put_batch(pa.array([b"l", b"m"]), pa.StructArray.from_arrays([lists], ["a"]))
    assert dict(kv.range()) == {b"k": ([1],), b"l": (None,), b"m": ([1],)}
    with pytest.raises(ValueError, match=r"values\.a\[\] is null"):
        kv.put_batch(pa.array([b"n"]), rows.slice(0, 1))


@pytest.mark.parametrize(
    ("kind", "stored", "words"),
    [
        (serde.INT64, b"abc", "8 bytes, this has 3|middle of a cell"),
        (serde.INT64, b"123456789", "8 bytes, this has 9|1 bytes are left over"),
        (serde.BOOL, b"\x02", "boolean"),
        (serde.STRING, b"ok\xff", "UTF-8|utf-8"),
        (serde.TIMESTAMP, b"", "8 bytes|middle of a cell"),
        (PAIR, b"", "middle of a cell"),
        (PAIR, b"\x07abc", "version of the row's format, is 7; this version of Holdfast reads 1"),
        (PAIR, PAIR.serialize_value(("a", 1))[:-1], "middle of a cell"),
        (PAIR, PAIR.serialize_value(("a", 1)) + b"x", "1 bytes are left over"),
        (PAIR, PAIR.serialize_value(("a", 1)).replace(b"\x01a\x01", b"\x01\xff\x01"), "not UTF-8"),
    ],
)
def test_stored_bytes_of_another_kind_name_store_and_key(open_stores, kind, stored, words):
    db = open_stores()
    db["kv"].put(b"the key", stored)
    db["kv"].put(b"z", None)
    db["rates"].put(b"the key", stored, 1)
    db.commit()
    db = open_stores(value=kind)
    keys = pa.array([b"z", b"the key"])
    if not isinstance(kind, type(serde.STRING)) or kind is not serde.STRING:
        with pytest.raises(
            hf.errors.SerializationError,
            match=rf"store kv: .* stored value .*b'the key'.*({words})",
        ):
            db["kv"].get(b"the key")
    for name, read in [
        ("kv", lambda: pa.table(db["kv"].range_batches())),
        ("rates", lambda: list(db["rates"].scan_batches())),
    ]:
        with pytest.raises(
            (hf.errors.SerializationError, pa.ArrowException),
            match=rf"row 0 of value .*({words}).*store: {name}, key: the key",
        ):
            read()
    with pytest.raises(
        hf.errors.SerializationError, match=rf"store rates: .*b'the key'.*({words})"
    ):
        db["rates"].get(b"the key")
    with pytest.raises(
        hf.errors.SerializationError, match=rf"row 1 of values .*({words}).*store: kv"
    ):
        db["kv"].get_batch(keys)


@pytest.mark.parametrize("decoded", [False, True], ids=["store", "stream"])
def test_a_reader_ends_with_its_first_error(open_stores, decoded):
    """A regression test: the reader continued after the failed batch, without its rows."""
    db = open_stores()
    for key, value in [(b"a", b"x"), (b"b", b"\xff"), (b"c", b"y")]:
        db["kv"].put(key, value)
    db.commit()
    db = open_stores(value=serde.STRING)
    reader = db["kv"].range_batches(batch_rows=2)
    if decoded:
        reader = pa.RecordBatchReader.from_stream(reader)
    with pytest.raises((hf.errors.SerializationError, pa.ArrowException), match="key: b"):
        next(reader)
    for _ in range(2):
        with pytest.raises(
            (hf.errors.HoldfastError, pa.ArrowException), match="ended with an error; open another"
        ):
            next(reader)


def test_a_bad_row_of_get_batch_shows_its_typed_key(open_stores):
    db = open_stores(key=serde.STRING)
    db["kv"].put("the key", b"abc")
    db.commit()
    kv = open_stores(key=serde.STRING, value=serde.INT64)["kv"]
    with pytest.raises(
        hf.errors.SerializationError, match=r"row 1 of values \(abc\).*store: kv, key: the key"
    ):
        kv.get_batch(pa.array(["x", "the key"]))


def test_stored_keys_of_another_kind_are_named(open_stores):
    db = open_stores()
    db["kv"].put(b"the key", b"")
    db.commit()
    kv = open_stores(key=PAIR)["kv"]
    with pytest.raises(
        hf.errors.SerializationError,
        match=r"store kv: .* stored key b'the key'.*field code begins with an invalid byte",
    ):
        list(kv.range())
    with pytest.raises(
        hf.errors.SerializationError,
        match=r"row 0 of key \(the key\).*field code begins with an invalid byte",
    ):
        list(kv.range_batches())


@pytest.mark.parametrize(
    ("type_", "field"),
    [
        (pa.list_(pa.int8()), "tags"),
        (pa.map_(pa.string(), pa.int8()), "tags"),
        (pa.large_list(pa.int8()), "tags"),
        (pa.struct([("deep", pa.struct([("down", pa.list_(pa.int8()))]))]), r"tags\.deep\.down"),
    ],
)
def test_the_builder_refuses_invalid_key_types(type_, field):
    kind = serde.struct(pa.schema([("id", pa.int64()), ("tags", type_)]))
    for build in [
        hf.stores.key_value,
        lambda name, **serdes: hf.stores.versioned(name, history_retention=1, **serdes),
    ]:
        build("kv", value=kind)
        with pytest.raises(
            TypeError, match=rf"store kv: key: field {field} has type .*cannot be part of a key"
        ):
            build("kv", key=kind)


@pytest.mark.parametrize(
    "type_",
    [
        pa.null(),
        pa.time32("s"),
        pa.duration("us"),
        pa.float16(),
        pa.decimal256(40, 2),
        pa.list_(pa.duration("s")),
        pa.map_(pa.string(), pa.duration("s")),
    ],
    ids=str,
)
def test_the_serde_refuses_types_that_cannot_be_stored(type_):
    with pytest.raises(
        TypeError, match=r"field a\.odd(\[\](\.value)?)? has type .*, which cannot be stored"
    ):
        serde.struct(pa.schema([("a", pa.struct([("odd", type_)]))]))


@pytest.mark.parametrize(
    ("type_", "words"),
    [
        *(
            (pa.dictionary(keys, pa.string()), "declare Utf8, or a dictionary with Int32 keys")
            for keys in (pa.int8(), pa.uint8(), pa.int16(), pa.uint16())
        ),
        *(
            (pa.dictionary(pa.int32(), values), "must be numbers, times, strings or binary")
            for values in (
                pa.bool_(),
                pa.list_(pa.int8()),
                pa.struct([("a", pa.int8())]),
                pa.map_(pa.string(), pa.int8()),
                pa.dictionary(pa.int32(), pa.string()),
            )
        ),
        (pa.map_(pa.string(), pa.int8(), keys_sorted=True), "declare it without sorted keys"),
    ],
)
def test_the_serde_refuses_types_that_reads_cannot_return(type_, words):
    """A regression test: rows were put that no batch could read."""
    for odd, path in [(type_, r"a\.odd"), (pa.list_(type_), r"a\.odd\[\]")]:
        with pytest.raises(
            TypeError, match=rf"field {path} has type .*, which reads cannot return: .*{words}"
        ):
            serde.struct(pa.schema([("a", pa.struct([("odd", odd)]))]))


@pytest.mark.parametrize("keys", [pa.int32(), pa.uint32(), pa.int64(), pa.uint64()], ids=str)
def test_a_batch_may_have_many_values_of_a_dictionary(open_stores, keys):
    type_ = pa.struct([("word", pa.dictionary(keys, pa.string()))])
    kv = open_stores(key=serde.INT64, value=serde.struct(pa.schema(list(type_))))["kv"]
    words = [{"word": str(n)} for n in range(70_000)]
    kv.put_batch(pa.array(range(len(words))), pa.array(words, pa.struct([("word", pa.string())])))
    column = pa.array(kv.get_batch(pa.array(range(len(words)))))
    assert column.type == type_
    assert column.to_pylist() == words


@pytest.mark.parametrize(
    "key", [pa.list_(pa.int8()), pa.struct([("a", pa.map_(pa.int8(), pa.int8()))])], ids=str
)
def test_the_serde_refuses_keys_of_a_map_that_a_dict_cannot_have(key):
    with pytest.raises(
        TypeError, match=r"field a\[\]\.odd is a map whose keys are .*cannot be keys"
    ):
        serde.struct(pa.schema([("a", pa.list_(pa.struct([("odd", pa.map_(key, pa.int8()))])))]))


def test_a_map_with_equal_keys_is_read_whole_or_not_at_all(open_stores):
    """A regression test: `get` returned one of the entries."""
    type_ = pa.struct([("m", pa.map_(pa.string(), pa.int8()))])
    kv = open_stores(value=serde.struct(pa.schema(list(type_))))["kv"]
    rows = pa.array([{"m": [("a", 1), ("a", 2)]}], type_)
    kv.put_batch(pa.array([b"k"]), rows)
    assert pa.array(kv.get_batch(pa.array([b"k"]))).equals(rows)
    with pytest.raises(
        hf.errors.SerializationError,
        match=r"store kv: .* of key b'k': field m has several entries of the key 'a'",
    ):
        kv.get(b"k")


def test_a_null_in_a_map_names_its_side(open_stores):
    whole = pa.field("value", pa.int64(), nullable=False)
    kv = open_stores(value=serde.struct(pa.schema([("m", pa.map_(pa.string(), whole))])))["kv"]
    rows = pa.array([{"m": [("a", None)]}], pa.struct([("m", pa.map_(pa.string(), pa.int64()))]))
    with pytest.raises(ValueError, match=r"row 0 of values\.m\[\]\.value is null"):
        kv.put_batch(pa.array([b"k"]), rows)


def test_two_fields_of_one_name_are_refused():
    with pytest.raises(ValueError, match="field a appears twice"):
        serde.struct(pa.schema([("a", pa.int8()), ("a", pa.int8())]))


@pytest.mark.parametrize("name", ["code", "number"])
def test_two_columns_of_one_name_are_refused(open_stores, name):
    kv = open_stores(key=PAIR, value=serde.INT64)["kv"]
    columns = {"code": pa.array(["a"]), "number": pa.array([1], pa.int32())}
    twice = pa.RecordBatch.from_arrays([*columns.values(), columns[name]], [*columns, name])
    with pytest.raises(ValueError, match=f'column keys has two fields "{name}"'):
        kv.put_batch(twice, pa.array([1]))


def test_an_invalid_schema_is_refused():
    with pytest.raises(TypeError):
        serde.struct(7)


@pytest.mark.parametrize("wrong", [None, "int64", int])
def test_an_invalid_serde_is_refused(wrong):
    with pytest.raises(
        TypeError, match="store kv: value is .*; wanted: a serde, such as serde.STRING"
    ):
        hf.stores.key_value("kv", value=wrong)


def test_a_flag_must_be_a_bool():
    for flag in ("persistent", "transactional"):
        with pytest.raises(TypeError, match=f"store kv: {flag} is 'no'; wanted: True or False"):
            hf.stores.key_value("kv", **{flag: "no"})
    with pytest.raises(TypeError, match="store w: retain_duplicates is 1; wanted"):
        hf.stores.window(
            "w",
            retention=1,
            window_size=1,
            retain_duplicates=1,  # type: ignore[arg-type]
        )


def test_a_value_that_cannot_be_returned_is_not_deleted(open_stores):
    db = open_stores()
    db["kv"].put(b"k", b"abc")
    db["rates"].put(b"k", b"abc", 1)
    db.commit()
    db = open_stores(value=serde.INT64)
    for delete in [lambda: db["kv"].delete(b"k"), lambda: db["rates"].delete(b"k", 2)]:
        with pytest.raises(hf.errors.SerializationError):
            delete()
    db["kv"].put(b"other", 1)
    db.commit()
    for name in ("kv", "rates"):
        with pytest.raises(hf.errors.SerializationError):
            db[name].get(b"k")


def test_puts_of_a_batch_whose_reads_cannot_be_returned_are_not_committed(open_stores):
    db = open_stores()
    db["rates"].put(b"k", b"abc", 1)
    db.commit()
    db = open_stores(value=serde.INT64)
    rates = db["rates"]
    values, times = pa.array([7, None], pa.int64()), pa.array([5, 5])
    with pytest.raises(hf.errors.SerializationError, match="store: rates"):
        rates.apply_batch(pa.array([False, False]), pa.array([b"new", b"k"]), values, times)
    db.commit()  # nothing was put
    with pytest.raises(hf.errors.SerializationError, match="store: rates"):
        rates.apply_batch(pa.array([True, False]), pa.array([b"new", b"k"]), values, times)
    with pytest.raises(hf.errors.HoldfastError, match="failed half-way.*rollback"):
        db.commit()
    with pytest.raises(hf.errors.HoldfastError, match="failed half-way.*rollback"):
        rates.put(b"z", 1, 1)
    db.rollback()
    assert rates.get(b"new") is None
    rates.put(b"z", 1, 1)
    db.commit()
    assert rates.get(b"z").value == 1


def test_a_serde_that_fails_names_store_and_item(tmp_path):
    class Picky:
        def serialize(self, value):
            return value.encode("ascii")

        def deserialize(self, data):
            return data.decode("ascii")

    with hf.open(tmp_path / "db", [hf.stores.key_value("kv", value=Picky())]) as db:
        with pytest.raises(
            hf.errors.SerializationError, match="store kv: .* cannot serialize the value 'ü'"
        ):
            db["kv"].put(b"a", "ü")
        db["kv"].put_batch(pa.array([b"a"]), pa.array(["ü"]))
        with pytest.raises(
            hf.errors.SerializationError, match="store kv: .* cannot deserialize the stored value"
        ):
            db["kv"].get(b"a")


@pytest.mark.parametrize("serialized", [None, "text"], ids=["None", "str"])
def test_a_serde_that_does_not_return_bytes_is_refused_and_deletes_nothing(open_stores, serialized):
    class Wrong:
        def serialize(self, value):
            return b"right" if value == "right" else serialized

        def deserialize(self, data):
            return data.decode()

    db = open_stores(key=Wrong(), value=Wrong())
    kv, rates = db["kv"], db["rates"]
    kv.put("right", "right")
    rates.put("right", "right", 1)
    what = f"is a {type(serialized).__name__} .*; wanted: bytes"
    for put in [
        lambda: kv.put("right", "wrong"),
        lambda: kv.put_if_absent("right", "wrong"),
        lambda: kv.put_all([("right", None), ("right", "wrong")]),
    ]:
        with pytest.raises(TypeError, match=f"store kv: the value {what}"):
            put()
    with pytest.raises(TypeError, match=f"store rates: the value {what}"):
        rates.put("right", "wrong", 2)
    for call in [
        lambda: kv.put("wrong", "right"),
        lambda: kv.get("wrong"),
        lambda: kv.delete("wrong"),
        lambda: kv.delete_range("wrong"),
        lambda: kv.range("wrong"),
        lambda: kv.prefix_scan("wrong"),
    ]:
        with pytest.raises(TypeError, match=f"store kv: the (key|prefix) {what}"):
            call()
    db.commit()
    assert list(kv.range()) == [("right", "right")]
    assert [version.timestamp for _, version in rates.scan()] == [1]


@pytest.mark.parametrize("kind", [serde.STRING, serde.JSON], ids=repr)
def test_a_string_that_is_not_utf8_names_its_row(tmp_path, kind):
    # A regression test: Spark and Parquet do not check strings, and no scan could pass such a row.
    bad = pa.array([b'"a"', b'"\xff"'], pa.binary()).view(pa.string())
    with hf.open(tmp_path / "db", [hf.stores.key_value("kv", value=kind)]) as db:
        with pytest.raises(ValueError, match="row 1 of values is no valid UTF-8"):
            db["kv"].put_batch(pa.array([b"k", b"l"]), bad)
        db.commit()
        assert list(db["kv"].range()) == []
    struct = serde.struct(pa.schema([("s", pa.string())]))
    nested = pa.StructArray.from_arrays([bad], ["s"])
    with (
        hf.open(tmp_path / "structs", [hf.stores.key_value("kv", key=struct)]) as db,
        pytest.raises(ValueError, match="row 1 of .*s is no valid UTF-8"),
    ):
        db["kv"].put_batch(nested, pa.array([b"1", b"2"]))
