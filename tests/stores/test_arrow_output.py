"""Results whose consumer requests other types: pyarrow casts them, and checks each value."""

from __future__ import annotations

import pyarrow as pa
import pytest

import holdfast as hf

KEYS = pa.array([b"a", b"b", b"absent"])
YEAR_3111 = 2**55  # beyond the nanoseconds of 64 bits, and no whole number of seconds


@pytest.fixture
def db():
    stores = [
        hf.stores.key_value("bytes"),
        hf.stores.key_value("int64", value=hf.serde.INT64),
        hf.stores.key_value("float64", value=hf.serde.FLOAT64),
        hf.stores.timestamped_key_value("timestamp", value=hf.serde.TIMESTAMP),
    ]
    with hf.open(None, stores) as db:
        db["bytes"].put_all([(b"a", b"text"), (b"b", b"\xff")])
        db["int64"].put_all([(b"a", 5), (b"b", 2**40)])
        db["float64"].put_all([(b"a", 1.75), (b"b", 2.0)])
        db["timestamp"].put(b"a", YEAR_3111, 1_234_567)
        yield db


@pytest.mark.parametrize(
    ("store", "own", "requested"),
    [
        ("bytes", pa.binary(), pa.string()),
        ("int64", pa.int64(), pa.int32()),
        ("float64", pa.float64(), pa.int64()),
    ],
)
def test_a_column_of_another_type_is_refused(db, store, own, requested):
    with pytest.raises(ValueError, match=r"cast it, as in pyarrow\.array\(column\)\.cast\(type\)"):
        pa.array(db[store].get_batch(KEYS), type=requested)
    column = pa.array(db[store].get_batch(KEYS), type=own)
    assert column.type == own
    assert column.is_null().to_pylist() == [False, False, True]


@pytest.mark.parametrize("make", [pa.record_batch, pa.table])
@pytest.mark.parametrize("unit", ["s", "ms", "ns"])
def test_a_time_that_does_not_fit_the_requested_type_of_a_batch_is_an_error(db, make, unit):
    schema = pa.schema([("value", pa.timestamp(unit, "UTC")), ("timestamp", pa.int64())])
    with pytest.raises(pa.ArrowInvalid, match="would"):
        make(db["timestamp"].get_batch(KEYS), schema=schema)


def test_a_number_that_does_not_fit_the_requested_type_of_a_batch_is_an_error(db):
    own = pa.record_batch(db["timestamp"].get_batch(KEYS)).schema
    fits = own.set(1, pa.field("timestamp", pa.int32()))
    batch = pa.record_batch(db["timestamp"].get_batch(KEYS), schema=fits)
    assert batch.schema == fits
    assert batch["timestamp"].to_pylist() == [1_234_567, None, None]
    narrow = own.set(1, pa.field("timestamp", pa.int16()))
    with pytest.raises(pa.ArrowInvalid, match="not in range"):
        pa.record_batch(db["timestamp"].get_batch(KEYS), schema=narrow)


@pytest.mark.parametrize(
    ("store", "requested", "message"),
    [
        ("bytes", pa.string(), "Invalid UTF8"),
        ("int64", pa.int32(), "not in range"),
        ("float64", pa.int64(), "truncated"),
    ],
)
def test_a_value_that_does_not_fit_the_requested_type_of_a_stream_is_an_error(
    db, store, requested, message
):
    schema = pa.schema([("key", pa.string()), ("value", requested)])
    with pytest.raises(pa.ArrowInvalid, match=message):
        pa.table(db[store].range_batches(), schema=schema)


def test_values_that_fit_the_requested_types_of_a_stream_are_cast(db):
    schema = pa.schema([("key", pa.string()), ("value", pa.int32())])
    table = pa.table(db["int64"].range_batches(b"a", b"a"), schema=schema)
    assert table.schema == schema
    assert table.to_pylist() == [{"key": "a", "value": 5}]


def test_a_reader_of_a_stream_keeps_the_types_of_the_store(db):
    requested = pa.schema([("key", pa.string()), ("value", pa.string())])
    reader = pa.RecordBatchReader.from_stream(db["bytes"].range_batches(), schema=requested)
    assert reader.read_all().column("value").to_pylist() == [b"text", b"\xff"]
