"""The lock of a database's directory, with forked children and with copies of its files."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal

import pytest

import holdfast as hf
from processes import run_script, running

KV = [hf.stores.key_value("kv")]
SECOND = """
try:
    db = hf.open(sys.argv[1], [hf.stores.key_value("kv")])
    db.close()
    print("opened")
except hf.errors.StoreLockedError as error:
    print(error)
"""
PARENT = """
import signal, subprocess
db = hf.open(sys.argv[1], [hf.stores.key_value("kv")])
if sys.argv[2] == "fork":
    child = os.fork()
    if child == 0:
        signal.pause()
else:
    child = subprocess.Popen(["sleep", "1000"], close_fds=False).pid
if sys.argv[3] == "close":
    db.close()
print(child)
sys.stdin.readline()
"""
ENDED = """
db = hf.open(sys.argv[1], [hf.stores.key_value("kv")])
child = os.fork()
if child == 0:
    db = None
    sys.exit(0)  # an ordinary end: the child destroys all objects
assert os.waitpid(child, 0)[1] == 0
print("ended")
sys.stdin.readline()
"""


def copy_if_there(source: str, target: str) -> None:
    """Copies a file, unless RocksDB has deleted it since it was listed."""
    with contextlib.suppress(FileNotFoundError):
        shutil.copy2(source, target)


def test_a_process_that_copies_its_own_directory_file_by_file_keeps_it_locked(tmp_path):
    with hf.open(tmp_path / "db", KV) as db:
        db["kv"].put(b"a", b"1")
        db.commit()
        # POSIX drops all record locks that a process has on a file when it closes the file.
        shutil.copytree(tmp_path / "db", tmp_path / "copy", copy_function=copy_if_there)
        assert (tmp_path / "copy" / "HOLDER").exists()
        assert (tmp_path / "copy" / "LOCK").exists()
        assert f"process {os.getpid()};" in run_script(SECOND, tmp_path / "db")
        with pytest.raises(hf.errors.StoreLockedError, match=rf"{os.getpid()} \(this one\)"):
            hf.open(tmp_path / "db", KV)
    assert run_script(SECOND, tmp_path / "db") == "opened\n"


def test_a_forked_child_that_ends_keeps_its_parents_directory_locked(tmp_path):
    with running(ENDED, tmp_path / "db") as parent:
        assert parent.stdout.readline() == "ended\n"
        with pytest.raises(hf.errors.StoreLockedError, match=rf"process {parent.pid};"):
            hf.open(tmp_path / "db", KV)


@pytest.mark.parametrize("child", ["fork", "exec"])
@pytest.mark.parametrize("end", ["close", "kill"])
def test_a_child_that_outlives_its_parents_database_does_not_keep_it_locked(tmp_path, child, end):
    with running(PARENT, tmp_path / "db", child, end) as parent:
        pid = int(parent.stdout.readline())
        try:
            if end == "kill":
                with pytest.raises(hf.errors.StoreLockedError, match=rf"process {parent.pid};"):
                    hf.open(tmp_path / "db", KV)
                parent.kill()
                parent.wait()
            hf.open(tmp_path / "db", KV).close()
            os.kill(pid, 0)  # the child is alive
        finally:
            os.kill(pid, signal.SIGKILL)
