"""A checkpoint is an independent copy of a database."""

from __future__ import annotations

import pytest

import holdfast as hf

KV = [hf.stores.key_value("kv")]


def test_a_checkpoint_creates_the_folders_above_it(bench, tmp_path):
    bench.kv.put(b"k", b"v")
    bench.db.commit()
    bench.db.checkpoint(tmp_path / "no" / "such" / "folder")
    with hf.open(tmp_path / "no" / "such" / "folder", KV) as copy:
        assert copy["kv"].get(b"k") == b"v"
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="a file where the database's directory should be"):
        bench.db.checkpoint(tmp_path / "file" / "copy")


def test_a_checkpoint_is_an_independent_database(bench, tmp_path):
    bench.kv.put(b"a", b"1")
    bench.rates.put(b"k", b"v", 5)
    bench.db.commit({("log", 0): 1})
    bench.kv.put(b"b", b"not committed")
    bench.db.checkpoint(tmp_path / "copy")
    bench.db.rollback()
    stores = [*KV, hf.stores.versioned("rates", history_retention=bench.rates.history_retention)]
    with hf.open(tmp_path / "copy", stores) as copy:
        assert list(copy["kv"].range()) == [(b"a", b"1")]
        assert copy["rates"].get(b"k") == (b"v", 5, None)
        assert copy.committed_offset(("log", 0)) == 1
        copy["kv"].put(b"a", b"2")
        copy.commit()
    assert bench.kv.get(b"a") == b"1"
    with pytest.raises(ValueError, match="exists already"):
        bench.db.checkpoint(tmp_path / "copy")
