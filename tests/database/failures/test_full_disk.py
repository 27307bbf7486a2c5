"""A full disk loses no commit, and the database continues after space is freed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast as hf
from processes import run_script

KV = [hf.stores.key_value("kv")]


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
