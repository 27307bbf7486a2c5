"""The cost of serdes: the same rows as bytes and typed.

Run with `pytest benches/python --benchmark-only`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import holdfast as hf

ROWS = 10_000
PAIR = pa.schema([("rate", pa.float64()), ("source", pa.string())])


@pytest.fixture
def db(tmp_path):
    stores = [
        hf.stores.key_value("bytes"),
        hf.stores.key_value("string", key=hf.serde.INT64, value=hf.serde.STRING),
    ]
    stores.append(hf.stores.key_value("struct", key=hf.serde.INT64, value=hf.serde.struct(PAIR)))
    with hf.open(tmp_path / "db", stores, durability=hf.Durability.CHANGELOG) as db:
        yield db


@pytest.fixture
def columns():
    rng = np.random.default_rng(1)
    keys = pa.array(rng.integers(-(2**63), 2**63 - 1, ROWS))
    values = pa.array(
        [value.tobytes().hex() for value in rng.integers(0, 256, (ROWS, 50), np.uint8)]
    )
    structs = pa.StructArray.from_arrays([pa.array(rng.random(ROWS)), values], fields=list(PAIR))
    return {
        "bytes": (pa.array(hf.serde.INT64.encode(keys, as_key=True)), values),
        "string": (keys, values),
        "struct": (keys, structs),
    }


@pytest.mark.parametrize("store", ["bytes", "string", "struct"])
def test_put_batch(benchmark, db, columns, store):
    def run():
        db[store].put_batch(*columns[store])
        db.commit()

    benchmark(run)


@pytest.mark.parametrize("store", ["bytes", "string", "struct"])
def test_get_batch(benchmark, db, columns, store):
    db[store].put_batch(*columns[store])
    db.commit()
    assert len(benchmark(db[store].get_batch, columns[store][0])) == ROWS


@pytest.mark.parametrize("store", ["bytes", "string", "struct"])
def test_scan(benchmark, db, columns, store):
    db[store].put_batch(*columns[store])
    db.commit()
    assert benchmark(lambda: sum(len(batch) for batch in db[store].range_batches())) == ROWS


@pytest.mark.parametrize("store", ["string", "struct"])
def test_scalar_put_and_get(benchmark, db, store):
    value = "x" * 100 if store == "string" else (1.5, "ECB")

    def run():
        db[store].put(1, value)
        return db[store].get(1)

    assert benchmark(run) == value
