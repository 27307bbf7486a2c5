"""Damaged, missing and foreign files: the error names the path, and nothing is changed."""

from __future__ import annotations

import os
import shutil

import pyarrow as pa
import pytest
from counting_writer import WRITER, state

import holdfast as hf
from processes import running

KV = [hf.stores.key_value("kv")]


def filled(path) -> None:
    with hf.open(path, KV) as db:
        keys = pa.array([b"%06d" % n for n in range(20_000)])
        db["kv"].put_batch(keys, keys)
        db.commit({("log", 0): 1})


def overwrite(file, at: float, data: bytes) -> None:
    with file.open("r+b") as handle:
        handle.seek(int(file.stat().st_size * at))
        handle.write(data)


def read_all(path) -> int:
    with hf.open(path, KV) as db:
        return sum(1 for _ in db["kv"].range())


def test_a_damaged_data_file_is_named(tmp_path):
    path = tmp_path / "db"
    filled(path)
    largest = max(path.glob("*.sst"), key=lambda file: file.stat().st_size)
    overwrite(largest, 0.3, b"\xff" * 100)
    with pytest.raises(hf.errors.StoreCorruptedError) as caught:
        read_all(path)
    assert str(path) in str(caught.value)


def test_a_write_that_fails_before_staging_leaves_the_transaction_unchanged(tmp_path):
    path = tmp_path / "db"
    filled(path)
    overwrite(max(path.glob("*.sst"), key=lambda file: file.stat().st_size), 0.3, b"\xff" * 100)
    # Without compactions: after one that reads the damaged block, RocksDB refuses every write.
    db = hf.open(path, KV, rocksdb_options={"disable_auto_compactions": "true"})
    with pytest.raises(hf.errors.StoreCorruptedError):
        for n in range(20_000):  # one of them must read the damaged block
            db["kv"].put_if_absent(b"%06d" % n, b"v")
    db["kv"].put(b"z", b"v")
    db.commit({("log", 0): 2})
    assert db["kv"].get(b"z") == b"v"
    assert db.committed_offset(("log", 0)) == 2
    db.close()


def test_a_missing_data_file_is_named_as_damage(tmp_path):
    path = tmp_path / "db"
    filled(path)
    max(path.glob("*.sst"), key=lambda file: file.stat().st_size).unlink()
    with pytest.raises(hf.errors.StoreCorruptedError) as caught:
        read_all(path)
    assert str(path) in str(caught.value)


def test_a_damaged_manifest_is_named(tmp_path):
    path = tmp_path / "db"
    filled(path)
    overwrite(next(path.glob("MANIFEST-*")), 0.5, b"\xff" * 50)
    with pytest.raises(hf.errors.StoreCorruptedError) as caught:
        read_all(path)
    assert str(path) in str(caught.value)


def test_a_damaged_write_ahead_log_is_an_error_and_not_a_silent_loss(tmp_path):
    path = tmp_path / "db"
    with running(WRITER, path, "SYNC", 50) as process:
        assert process.stdout.readline() == "committed\n"
    log = max(path.glob("*.log"), key=lambda file: file.stat().st_size)
    overwrite(log, 0.5, b"\xff" * 50)
    with pytest.raises(
        hf.errors.StoreCorruptedError,
        match=r"last good commit before the damage is \d+, at offsets \[.*\d",
    ) as caught:
        state(path, hf.Durability.SYNC)
    assert str(path) in str(caught.value)


def test_a_write_ahead_log_cut_at_a_commit_is_an_error_too(tmp_path):
    path = tmp_path / "db"
    with running(WRITER, path, "SYNC", 50) as process:
        assert process.stdout.readline() == "committed\n"
    log = max(path.glob("*.log"), key=lambda file: file.stat().st_size)
    os.truncate(log, log.stat().st_size // 2)
    for _ in range(2):  # reading does not repair it
        with pytest.raises(
            hf.errors.StoreCorruptedError,
            match=r"last good commit in the files is \d+, at offsets .* but commit \d+",
        ):
            state(path, hf.Durability.SYNC)
    (path / "COMMITTED").unlink()  # as the message advises
    state(path, hf.Durability.SYNC)


def test_files_of_other_programs_are_not_changed(tmp_path):
    path = tmp_path / "db"
    path.mkdir()
    (path / "CURRENT").write_text("notes of mine\n")
    with pytest.raises(hf.errors.HoldfastError):
        hf.open(path, KV)
    assert (path / "CURRENT").read_text() == "notes of mine\n"


def test_a_deleted_directory_is_created_again(open_bench):
    bench = open_bench()
    bench.kv.put(b"a", b"1")
    bench.reopen()
    bench.db.close()
    shutil.rmtree(bench.path)
    with hf.open(bench.path, KV) as db:
        assert list(db["kv"].range()) == []
