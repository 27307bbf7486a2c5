"""Changes of a struct's columns: older rows are read with the new schema."""

from __future__ import annotations

import pyarrow as pa
import pytest

import holdfast as hf
from holdfast import serde

OLD = pa.schema([("id", pa.int64()), ("name", pa.string()), ("tags", pa.list_(pa.string()))])
NEW = pa.schema([("rate", pa.float64()), ("name", pa.large_string()), ("id", pa.int64())])


def read(data, schema):
    """Returns a row read with a schema; checks that the scalar and the batch form agree."""
    kind = serde.struct(schema)
    row = kind.deserialize_value(data)
    column = pa.array(kind.core.decode(pa.array([data, None]), as_key=False))
    assert column.type == pa.struct(list(schema))
    assert column.null_count == 1
    assert row == kind._load(column.to_pylist()[0])
    return row


def test_added_columns_are_null_and_dropped_ones_are_skipped():
    old = serde.struct(OLD).serialize_value((1, "a", ["x", None]))
    assert read(old, NEW) == {"rate": None, "name": "a", "id": 1}
    new = serde.struct(NEW).serialize_value((1.5, "b", 2))
    assert read(new, OLD) == {"id": 2, "name": "b", "tags": None}


def test_every_type_can_be_skipped():
    types = [
        pa.bool_(),
        pa.int8(),
        pa.float64(),
        pa.decimal128(30, 2),
        pa.string(),
        pa.binary(),
        pa.date32(),
        pa.timestamp("ns", "UTC"),
    ]
    types += [
        pa.list_(pa.list_(pa.bool_())),
        pa.map_(pa.string(), pa.int64()),
        pa.struct([("x", pa.string()), ("y", pa.list_(pa.int8()))]),
    ]
    values = [
        True,
        1,
        1.5,
        None,
        "a",
        b"b",
        None,
        None,
        [[True, None], None, []],
        {"k": 1, "l": None},
        {"x": None, "y": [1]},
    ]
    fields = [(f"f{n}", type_) for n, type_ in enumerate(types)]
    data = serde.struct(pa.schema([*fields, ("last", pa.int8())])).serialize_value((*values, 7))
    assert read(data, pa.schema([("last", pa.int8())])) == (7,)
    for field in fields:
        assert read(data, pa.schema([field, ("last", pa.int8())]))["last"] == 7
    assert read(data, pa.schema([])) == ()


def test_structs_inside_may_change_too():
    old = pa.schema(
        [
            ("s", pa.struct([("a", pa.int8()), ("b", pa.string())])),
            ("l", pa.list_(pa.struct([("a", pa.int8())]))),
        ]
    )
    new = pa.schema(
        [
            ("s", pa.struct([("b", pa.string()), ("c", pa.bool_())])),
            ("l", pa.list_(pa.struct([("b", pa.int8()), ("a", pa.int8())]))),
        ]
    )
    data = serde.struct(old).serialize_value(({"a": 1, "b": "x"}, [{"a": 2}, None]))
    assert read(data, new) == {"s": {"b": "x", "c": None}, "l": [{"b": None, "a": 2}, None]}
    assert read(serde.struct(old).serialize_value((None, None)), new) == (None, None)


def test_forms_and_zones_are_no_change_of_type():
    old = pa.schema(
        [("a", pa.string()), ("b", pa.timestamp("us", "UTC")), ("c", pa.list_(pa.binary()))]
    )
    new = pa.schema(
        [
            ("a", pa.dictionary(pa.int32(), pa.string())),
            ("b", pa.timestamp("us", "Asia/Tokyo")),
            ("c", pa.large_list(pa.large_binary())),
        ]
    )
    import datetime as dt

    day = dt.datetime(2026, 11, 21, tzinfo=dt.UTC)
    assert read(serde.struct(old).serialize_value(("x", day, [b"y"])), new) == ("x", day, [b"y"])


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (("id", pa.int32()), "column id was stored as Int64 and is now asked for as Int32"),
        (("name", pa.binary()), "column name was stored as Utf8 and is now asked for as Binary"),
        (
            ("tags", pa.list_(pa.int8())),
            r"column tags\[\] was stored as Utf8 and is now asked for as Int8",
        ),
        (("tags", pa.string()), "column tags was stored as List.* and is now asked for as Utf8"),
        (
            pa.field("rate", pa.float64(), nullable=False),
            "column rate is not in rows that were stored before, and may not be null",
        ),
    ],
)
def test_changes_that_do_not_fit_name_the_column(open_stores, column, words):
    data = serde.struct(OLD).serialize_value((1, "a", ["x"]))
    with pytest.raises(hf.errors.SerializationError, match=words):
        serde.struct(pa.schema([column])).deserialize_value(data)


def test_a_column_cannot_become_not_null():
    strict = serde.struct(pa.schema([pa.field("name", pa.string(), nullable=False)]))
    assert strict.deserialize_value(serde.struct(OLD).serialize_value((1, "a", None))) == ("a",)
    with pytest.raises(
        hf.errors.SerializationError,
        match="column name is null in it, which the schema does not allow any more",
    ):
        strict.deserialize_value(serde.struct(OLD).serialize_value((1, None, None)))


def test_rows_of_many_schemas_are_read_with_the_newest(open_stores):
    schemas = [OLD, NEW, pa.schema([("id", pa.int64())]), OLD]
    for n, schema in enumerate(schemas):
        db = open_stores(key=serde.INT64, value=serde.struct(schema))
        row = dict.fromkeys(schema.names) | {"id": n}
        db["kv"].put(n, row)
        db["rates"].put(n, row, n)
        db.commit()
    wide = pa.schema([("id", pa.int64()), ("rate", pa.float64()), ("more", pa.string())])
    db = open_stores(key=serde.INT64, value=serde.struct(wide))
    expected = [{"id": n, "rate": None, "more": None} for n in range(4)]
    assert [value for _, value in db["kv"].range()] == expected
    assert pa.array(db["kv"].get_batch(pa.array(range(4)))).to_pylist() == expected
    assert pa.table(db["rates"].scan_batches()).column("value").to_pylist() == expected


def test_a_column_that_is_added_again_has_its_old_values_in_older_rows(open_stores):
    name = pa.field("name", pa.string())

    def opened(*fields):
        schema = pa.schema([("id", pa.int64()), *fields])
        return open_stores(key=serde.INT64, value=serde.struct(schema))

    for n, fields in enumerate([[name], []]):
        db = opened(*fields)
        db["kv"].put(n, {"id": n} | {field.name: "a" for field in fields})
        db.commit()
    expected = [(0, "a"), (1, None)]
    assert [value for _, value in opened(name)["kv"].range()] == expected
    # An open compares with the last schema only, but each row has the one it was put with.
    for steps, words in [
        ([[], [name.with_type(pa.int64())]], "column name was stored as Utf8 and is now asked for"),
        ([[], [name], [name.with_nullable(False)]], "column name is not in rows that were stored"),
    ]:
        for fields in steps:
            db = opened(*fields)
        with pytest.raises(hf.errors.SerializationError, match=words):
            list(db["kv"].range())
    opened()
    assert [value for _, value in opened(name)["kv"].range()] == expected


def test_another_serde_than_the_stores_is_refused(open_stores):
    open_stores(key=serde.INT64, value=serde.struct(OLD))
    with pytest.raises(
        ValueError,
        match=r"key: it was written with the serde int64 and is now opened with string "
        r"\[store: kv, path: ",
    ):
        open_stores(key=serde.STRING, value=serde.struct(OLD))
    with pytest.raises(
        ValueError,
        match=r"value: it was written with the serde struct and is now opened with json "
        r"\[store: kv",
    ):
        open_stores(key=serde.INT64, value=serde.JSON)
    with pytest.raises(
        hf.errors.SerializationError,
        match=r"value: column id was stored as Int64 and is now asked for as Utf8.*store: kv",
    ):
        open_stores(key=serde.INT64, value=serde.struct(pa.schema([("id", pa.string())])))
    # A store can always be opened without serdes. This does not change its recorded serdes.
    assert list(open_stores()["kv"].range()) == []
    with pytest.raises(ValueError, match="key: it was written with the serde int64"):
        open_stores(key=serde.TIMESTAMP)
    assert list(open_stores(key=serde.INT64, value=serde.struct(NEW))["kv"].range()) == []


def test_the_fields_of_a_key_are_fixed(open_stores):
    key = pa.schema([("a", pa.int8()), ("b", pa.int8())])
    open_stores(key=serde.struct(key))
    for other in [pa.schema([("a", pa.int8())]), pa.schema([("b", pa.int8()), ("a", pa.int8())])]:
        with pytest.raises(
            ValueError,
            match=r"key: its columns were \(a: Int8, b: Int8\) and are now .*; "
            r"a key's columns are fixed",
        ):
            open_stores(key=serde.struct(other))
    assert list(open_stores(key=serde.struct(key))["kv"].range()) == []
