"""Arguments that a database refuses: the error names the argument."""

from __future__ import annotations

import pyarrow as pa
import pytest

import holdfast as hf

KV = [hf.stores.key_value("kv")]


def test_a_path_that_cannot_be_created_is_named(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(hf.errors.HoldfastError, match="cannot be made") as caught:
        hf.open(tmp_path / "file" / "db", KV)
    assert str(tmp_path / "file" / "db") in str(caught.value)
    with pytest.raises(ValueError, match="there is a file where"):
        hf.open(tmp_path / "file", KV)


def test_another_durability_is_refused(open_bench):
    bench = open_bench()
    bench.db.close()
    with pytest.raises(ValueError, match="sync.*changelog"):
        hf.open(bench.path, KV, durability=hf.Durability.CHANGELOG)


def test_a_store_of_another_kind_is_refused(open_bench):
    bench = open_bench()
    bench.db.close()
    with pytest.raises(ValueError, match="kv"):
        hf.open(bench.path, [hf.stores.versioned("kv", history_retention=10)])


def test_an_unknown_rocksdb_option_is_named(tmp_path):
    with pytest.raises(ValueError, match="no_such_option"):
        hf.open(tmp_path / "db", KV, rocksdb_options={"no_such_option": "1"})


def test_rocksdb_options_of_the_database_and_of_families_are_taken(tmp_path):
    options = {"max_open_files": "77", "max_background_jobs": "3", "write_buffer_size": "123456"}
    hf.open(tmp_path / "db", KV, rocksdb_options=options).close()
    written = max((tmp_path / "db").glob("OPTIONS-*")).read_text().replace(" ", "").splitlines()
    assert {f"{name}={value}" for name, value in options.items()} <= set(written)
    assert "atomic_flush=true" in written


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("comparator", "false"),
        ("atomic_flush", "false"),
        ("unordered_write", "false"),
        ("prefix_extractor", "false"),
        ("wal_dir", "false"),
        ("compaction_style", "kCompactionStyleFIFO"),  # drops the oldest files
        ("compaction_options_fifo", "{max_table_files_size=1}"),
        ("paranoid_checks", "false"),  # opens in spite of a gap in the log
    ],
)
def test_rocksdb_options_that_guarantees_depend_on_are_refused(tmp_path, name, value):
    with pytest.raises(ValueError, match=f"{name} cannot be set"):
        hf.open(tmp_path / "db", KV, rocksdb_options={name: value})


def test_an_unknown_store_lists_the_known_ones(bench):
    with pytest.raises(KeyError, match=r"no store 'orders'.*'kv', 'rates'"):
        bench.db["orders"]


def test_two_stores_of_one_name_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"two of one name.*kv"):
        hf.open(tmp_path / "db", [*KV, *KV])


@pytest.mark.parametrize("value", ["text", 1, bytearray(b"x"), [b"x"]])
def test_a_value_that_is_not_bytes_needs_a_serde(bench, value):
    with pytest.raises(
        TypeError, match=rf"store kv: the value is a {type(value).__name__}.*wanted: bytes"
    ):
        bench.kv.put(b"a", value)
    with pytest.raises(TypeError, match=rf"store rates: the key is a {type(value).__name__}"):
        bench.rates.get(value)


def test_a_restore_is_refused_during_a_transaction(bench):
    bench.kv.put(b"a", b"1")
    with pytest.raises(hf.errors.HoldfastError, match="commit or roll back"):
        bench.db.restore_batch("kv", pa.array([b"b"]), pa.array([b"2"]), None, {})
    bench.db.rollback()
    bench.db.restore_batch("kv", pa.array([b"b"]), pa.array([b"2"]), None, {})
    assert list(bench.kv.range()) == [(b"b", b"2")]


def test_restoring_a_versioned_store_needs_times(bench):
    with pytest.raises(ValueError, match="rates"):
        bench.db.restore_batch("rates", pa.array([b"b"]), pa.array([b"2"]), None, {})
    with pytest.raises(ValueError, match="kv"):
        bench.db.restore_batch("kv", pa.array([b"b"]), pa.array([b"2"]), pa.array([1]), {})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda db: db["kv"].read_only("read_committed"),
            r"isolation_level is 'read_committed'; wanted: one of Isol",
        ),
        (lambda db: db["v"].read_only(hf.Durability.SYNC), "isolation_level is <Durability"),
        (lambda db: db.position("read_committed"), "isolation_level is 'read_committed'"),
        (
            lambda db: db["kv"].read_only(position_bound=hf.Position()),
            "position_bound is a Position; wanted: a PositionBound",
        ),
        (lambda db: hf.PositionBound.at({"a": {0: 1}}), "position is a dict; wanted: a Position"),
        (lambda db: hf.Position({"a": 1}), "offsets is .*; wanted: a mapping of topics"),
        (lambda db: hf.Position([("a", 0, 1)]), "offsets is .*; wanted: a mapping of topics"),
        (lambda db: hf.Position().merge({"a": {0: 1}}), "other is a dict; wanted: a Position"),
        (
            lambda db: db.commit([("log", 0, 1)]),
            "changelog_offsets is .*; wanted: a mapping of",
        ),
        (lambda db: db.commit({"log": 1}), "changelog_offsets is .*; wanted: a mapping of"),
        (lambda db: db.recover([("log", 0)]), "changelog_offsets is .*; wanted: a mapping of"),
        (lambda db: db.committed_offset("log"), "partition is 'log'; wanted:"),
        (
            lambda db: hf.open(None, [], rocksdb_options=[("a", "b")]),
            "rocksdb_options is .*; wanted: a mapping of",
        ),
        (
            lambda db: hf.open(None, [], rocksdb_options={"a": 1}),
            "rocksdb_options is .*; wanted: a mapping of",
        ),
        (
            lambda db: hf.open(None, hf.stores.key_value("a")),
            "stores is a StoreBuilder; wanted: a sequence",
        ),
    ],
)
def test_a_wrong_type_at_the_edge_names_the_argument(call, words):
    with (
        hf.open(
            None, [hf.stores.key_value("kv"), hf.stores.versioned("v", history_retention=1)]
        ) as db,
        pytest.raises(TypeError, match=words),
    ):
        call(db)


@pytest.mark.parametrize("path", ["", " "])
def test_an_empty_path_is_refused(path: str, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        ValueError, match="path is empty: give a folder, or None for a database in memory"
    ):
        hf.open(path, KV)
    assert not list(tmp_path.iterdir())
