"""Absolute figures of the Python calls.

Run with `pytest benches/python --benchmark-only`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import holdfast as hf

ROWS = 10_000


@pytest.fixture
def db(tmp_path):
    stores = [hf.stores.key_value("kv"), hf.stores.versioned("rates", history_retention=10**12)]
    with hf.open(tmp_path / "db", stores, durability=hf.Durability.CHANGELOG) as db:
        yield db


@pytest.fixture
def columns():
    rng = np.random.default_rng(1)
    keys = pa.array(
        [key.tobytes() for key in rng.integers(0, 256, (ROWS, 16), np.uint8)], pa.binary()
    )
    values = pa.array(
        [value.tobytes() for value in rng.integers(0, 256, (ROWS, 100), np.uint8)], pa.binary()
    )
    return keys, values, pa.array(rng.integers(0, 10**9, ROWS))


def test_kv_put_batch(benchmark, db, columns):
    def run():
        db["kv"].put_batch(*columns[:2])
        db.commit()

    benchmark(run)


def test_kv_get_batch(benchmark, db, columns):
    db["kv"].put_batch(*columns[:2])
    db.commit()
    result = benchmark(db["kv"].get_batch, columns[0])
    assert len(result) == ROWS


def test_versioned_put_batch(benchmark, db, columns):
    def run():
        db["rates"].put_batch(*columns)
        db.commit()

    benchmark(run)


def test_versioned_get_batch_as_of(benchmark, db, columns):
    db["rates"].put_batch(*columns)
    db.commit()
    result = benchmark(db["rates"].get_batch, columns[0], columns[2])
    assert len(result) == ROWS


def test_versioned_apply_batch(benchmark, db, columns):
    is_put = pa.array(np.arange(ROWS) % 2 == 0)

    def run():
        result = db["rates"].apply_batch(is_put, *columns)
        db.commit()
        return result

    assert len(benchmark(run)) == ROWS


def test_scalar_put(benchmark, db):
    benchmark(db["kv"].put, b"k" * 16, b"v" * 100)


def test_scalar_get(benchmark, db):
    db["kv"].put(b"k", b"v")
    db.commit()
    assert benchmark(db["kv"].get, b"k") == b"v"


def test_scan(benchmark, db, columns):
    db["kv"].put_batch(*columns[:2])
    db.commit()
    assert benchmark(lambda: sum(len(batch) for batch in db["kv"].range_batches())) == ROWS
