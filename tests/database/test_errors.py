"""Failures: each raises an error that names it and says what to do; committed data stays."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import holdfast as hf
from processes import run_script, running

KV = [hf.stores.key_value("kv")]


# Directories that are open elsewhere.


def test_a_second_open_in_this_process_names_the_holder(bench):
    with pytest.raises(hf.errors.StoreLockedError, match=rf"{os.getpid()}") as caught:
        hf.open(bench.path, KV)
    assert str(bench.path) in str(caught.value)
    bench.kv.put(b"a", b"1")
    bench.db.commit()


def test_a_second_process_gets_the_pid_of_the_holder(tmp_path):
    holder = """
    db = hf.open(sys.argv[1], [hf.stores.key_value("kv")])
    db["kv"].put(b"a", b"1"); db.commit()
    print("open"); sys.stdin.readline()
    """
    path = tmp_path / "db"
    with running(holder, path) as process:
        assert process.stdout.readline() == "open\n"
        with pytest.raises(hf.errors.StoreLockedError, match=rf"process {process.pid}\b"):
            hf.open(path, KV)
    # The holder is dead, so its lock is released.
    with hf.open(path, KV) as db:
        assert db["kv"].get(b"a") == b"1"


def test_a_process_that_only_built_stores_may_fork(tmp_path):
    script = """
    stores = [hf.stores.key_value("kv")]
    pid = os.fork()
    if pid == 0:
        with hf.open(sys.argv[1], stores) as db:
            db["kv"].put(b"a", b"1"); db.commit()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    with hf.open(sys.argv[1], stores) as db:
        print(db["kv"].get(b"a"))
    """
    assert run_script(script, tmp_path / "db") == "b'1'\n"


def test_a_forked_child_raises_with_the_advice_to_spawn(tmp_path):
    script = """
    stores = [hf.stores.key_value("kv"), hf.stores.versioned("rates", history_retention=10)]
    db = hf.open(sys.argv[1], stores)
    kv, rates = db["kv"], db["rates"]
    kv.put(b"a", b"1"); db.commit(); kv.put(b"b", b"2")
    iterator, reader = kv.range(), kv.range_batches()
    pid = os.fork()
    if pid == 0:
        calls = {
            "get": lambda: kv.get(b"a"), "put": lambda: kv.put(b"a", b"x"),
            "commit": db.commit, "close": db.close,
            "iterator": lambda: next(iterator), "reader": lambda: next(reader),
            "rates": lambda: rates.get(b"a"),
            "batch": lambda: kv.get_batch(pa.array([b"a"])),
            "view": lambda: kv.read_only().get(b"a"),
            "open": lambda: hf.open(sys.argv[1] + ".child", [hf.stores.key_value("kv")]),
        }
        for name, call in calls.items():
            try:
                call()
                print(name, "worked")
            except hf.errors.ForkedProcessError as error:
                assert str(os.getppid()) in str(error), error
                print(name, "ForkedProcessError")
        sys.stdout.flush()
        sys.exit(0)  # an ordinary end: the child destroys all objects
    _, status = os.waitpid(pid, 0)
    assert status == 0, status
    db.commit()
    print("parent", kv.get(b"a"), kv.get(b"b"), next(iterator))
    db.close()
    """
    printed = run_script(script, tmp_path / "db").splitlines()
    names = [
        "get",
        "put",
        "commit",
        "close",
        "iterator",
        "reader",
        "rates",
        "batch",
        "view",
        "open",
    ]
    assert printed == [
        *[f"{name} ForkedProcessError" for name in names],
        "parent b'1' b'2' (b'a', b'1')",
    ]


# Crashes.

WRITER = """
durability = hf.Durability[sys.argv[2]]
db = hf.open(
    sys.argv[1],
    [hf.stores.key_value("kv"), hf.stores.versioned("rates", history_retention=10**9)],
    durability=durability,
)
for n in range(int(sys.argv[3])):
    db["kv"].put(b"n", str(n).encode())
    db["kv"].put(b"%d" % n, b"x" * 1000)
    db["rates"].put(b"n", str(n).encode(), n)
    db.commit({("log", 0): n})
print("committed"); sys.stdin.readline()
"""


def state(path, durability: hf.Durability):
    stores = [*KV, hf.stores.versioned("rates", history_retention=10**9)]
    with hf.open(path, stores, durability=durability) as db:
        newest = db["rates"].get(b"n")
        return (
            db["kv"].get(b"n"),
            newest and newest.value,
            db["rates"].stream_time,
            db.committed_offset(("log", 0)),
            sum(1 for _ in db["kv"].range()),
        )


def test_a_synced_commit_survives_a_kill(tmp_path):
    with running(WRITER, tmp_path / "db", "SYNC", 20) as process:
        assert process.stdout.readline() == "committed\n"
    assert state(tmp_path / "db", hf.Durability.SYNC) == (b"19", b"19", 19, 19, 21)


def test_t14_without_a_log_a_kill_falls_back_to_one_earlier_commit_of_all_stores(tmp_path):
    with running(WRITER, tmp_path / "db", "CHANGELOG", 2_000) as process:
        assert process.stdout.readline() == "committed\n"
    value, version, stream_time, offset, rows = state(tmp_path / "db", hf.Durability.CHANGELOG)
    if offset is None:
        assert (value, version, stream_time, rows) == (None, None, None, 0)
    else:
        assert (value, version, stream_time, rows) == (
            b"%d" % offset,
            b"%d" % offset,
            offset,
            offset + 2,
        )


def test_a_clean_close_keeps_every_commit_without_a_log(open_bench):
    bench = open_bench(durability=hf.Durability.CHANGELOG)
    bench.kv.put(b"a", b"1")
    bench.db.commit({("log", 0): 1})
    bench.reopen()
    assert bench.kv.get(b"a") == b"1"
    assert bench.db.committed_offset(("log", 0)) == 1


# Disks.


def test_a_full_disk_fails_the_commit_and_loses_nothing_that_was_committed(tmp_path):
    # A limit on the size of files stands for the full disk: the write-ahead log cannot grow.
    script = """
    import resource, signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    db = hf.open(sys.argv[1], [hf.stores.key_value("kv")])
    kv = db["kv"]
    kv.put(b"a", b"1"); db.commit({("log", 0): 1})
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
    kv.put(b"b", b"x" * (2 << 20))
    try:
        db.commit({("log", 0): 2})
    except hf.errors.HoldfastError as error:
        print(type(error).__name__, error)
    print(kv.read_only().get(b"a"), kv.read_only().get(b"b"), db.committed_offset(("log", 0)))
    try:
        kv.put(b"c", b"3"); db.commit()
        print("went on")
    except hf.errors.HoldfastError as error:
        print("refused", error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    try:
        db.rollback()
        print("went on")
    except hf.errors.HoldfastError as error:
        print("refused", error)
    print(kv.read_only().get(b"a"))
    try:
        db.close()
    except hf.errors.HoldfastError:
        pass  # it is closed all the same
    with hf.open(sys.argv[1], [hf.stores.key_value("kv")]) as db:
        db["kv"].put(b"d", b"4"); db.commit({("log", 0): 1})
        print(list(db["kv"].range()))
        db["kv"].delete(b"d"); db.commit({("log", 0): 1})
    os._exit(0)
    """
    lines = run_script(script, tmp_path / "db").splitlines()
    first, second, third, rolled_back, readable, opened_again = lines
    assert first.startswith("HoldfastError ")
    assert str(tmp_path) in first
    assert "size of files" in first
    assert "close the database and open it again" in first
    assert second == "b'1' None 1"
    assert third.startswith("refused "), third
    # RocksDB does not continue after a limit of the size of files, only after a full disk.
    assert rolled_back.startswith("refused "), rolled_back
    assert "close the database and open it again" in rolled_back
    assert readable == "b'1'"
    assert opened_again == "[(b'a', b'1'), (b'd', b'4')]"
    with hf.open(tmp_path / "db", KV) as db:
        assert list(db["kv"].range()) == [(b"a", b"1")]
        assert db.committed_offset(("log", 0)) == 1
        db["kv"].put(b"b", b"2")
        db.commit()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A separate disk of 256 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256m", "tmpfs", disk], check=False, capture_output=True
    )
    if mount.returncode:
        pytest.skip(f"only root may mount a disk: {mount.stderr.decode()}")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


@pytest.mark.parametrize(
    ("durability", "size", "limit"),
    [
        # The write-ahead log has no space, and RocksDB refuses writes.
        (hf.Durability.SYNC, 30 << 20, -1),
        # The rows are spilled, and their final files have no space.
        (hf.Durability.SYNC, 10 << 20, 1 << 20),
        (hf.Durability.CHANGELOG, 10 << 20, 1 << 20),
    ],
)
def test_a_rollback_goes_on_after_a_full_disk_has_space_again(small_disk, durability, size, limit):
    filler, large = small_disk / "filler", os.urandom(size)
    filler.write_bytes(bytes(232 << 20))
    db = hf.open(small_disk / "db", KV, durability=durability, uncommitted_max_bytes=limit)
    with db:
        kv = db["kv"]
        kv.put(b"a", b"1")
        db.commit({("log", 0): 1})
        with pytest.raises(hf.errors.HoldfastError, match="[Ff]ree space") as caught:
            for key in (b"b", b"c"):
                kv.put(key, large)
            db.commit({("log", 0): 2})
        assert "rollback()" in str(caught.value)
        filler.unlink()
        db.rollback()
        offset = db.committed_offset(("log", 0))
        kv.put(b"d", b"4")
        db.commit({("log", 0): 3})
        assert offset == 1
        assert [key for key, _ in kv.range()] == [b"a", b"d"]
    with hf.open(small_disk / "db", KV, durability=durability) as db:
        assert [key for key, _ in db["kv"].range()] == [b"a", b"d"]
        assert db.committed_offset(("log", 0)) == 3


def test_a_path_that_cannot_be_created_is_named(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(hf.errors.HoldfastError, match="cannot be made") as caught:
        hf.open(tmp_path / "file" / "db", KV)
    assert str(tmp_path / "file" / "db") in str(caught.value)
    with pytest.raises(ValueError, match="there is a file where"):
        hf.open(tmp_path / "file", KV)


# Damage.


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


# Arguments that do not fit the database.


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


def test_a_checkpoint_creates_the_folders_above_it(bench, tmp_path):
    bench.kv.put(b"k", b"v")
    bench.db.commit()
    bench.db.checkpoint(tmp_path / "no" / "such" / "folder")
    with hf.open(tmp_path / "no" / "such" / "folder", KV) as copy:
        assert copy["kv"].get(b"k") == b"v"
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="a file where the database's directory should be"):
        bench.db.checkpoint(tmp_path / "file" / "copy")


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


def test_a_deleted_directory_is_created_again(open_bench):
    bench = open_bench()
    bench.kv.put(b"a", b"1")
    bench.reopen()
    bench.db.close()
    shutil.rmtree(bench.path)
    with hf.open(bench.path, KV) as db:
        assert list(db["kv"].range()) == []


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
