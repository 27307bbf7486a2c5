"""The files of an executor's state host."""

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.spark.worker import state_host
from holdfast.spark.worker.executor import Executor
from holdfast.spark.worker.state_host import HostFiles, _sweep

ENDS = ("sock", "token", "lock", "host", "log")


def _files(folder: Path, stem: str) -> HostFiles:
    for end in ENDS:
        (folder / f"{stem}.{end}").write_text("")
    return HostFiles(*(folder / f"{stem}.{end}" for end in ("sock", "token", "lock", "log")))


@pytest.mark.parametrize("held", ["host", "lock"])
def test_a_sweep_leaves_files_locked_in_another_container(tmp_path: Path, held: str) -> None:
    # A process id without a process: an executor that has ended, or one in another container with
    # the same TMPDIR.
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    stem = f"{gone.pid}-aaaaaaaaaaaa"
    _files(tmp_path, stem)
    ours = _files(tmp_path, "1-bbbbbbbbbbbb")
    with (tmp_path / f"{stem}.{held}").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        _sweep(ours)
        assert len(list(tmp_path.iterdir())) == 2 * len(ENDS), "its host is alive"
    _sweep(ours)
    assert sorted(file.name.partition("-")[0] for file in tmp_path.iterdir()) == ["1"] * len(ENDS)


@pytest.mark.parametrize("ends", [False, True])
def test_a_host_that_refuses_briefly_is_not_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    """It may be out of handles while it serves others, or be about to end."""
    files = _files(tmp_path, "1-aaaaaaaaaaaa")
    holder = (tmp_path / "1-aaaaaaaaaaaa.host").open("rb")
    fcntl.flock(holder, fcntl.LOCK_EX)
    tried = 0

    def connect(_: HostFiles) -> str:
        nonlocal tried
        tried += 1
        if tried < 4:
            raise ConnectionRefusedError
        if ends:
            holder.close()
            raise FileNotFoundError
        return "the host that lives"

    monkeypatch.setattr(HostFiles, "connect", connect)
    monkeypatch.setattr(HostFiles, "of", lambda _: files)
    monkeypatch.setattr(Executor, "of_process", lambda _: Executor(1, "0"))
    monkeypatch.setattr(
        state_host, "_start", lambda *_: "the next host" if holder.closed else "one too many"
    )
    assert state_host.connect() == ("the next host" if ends else "the host that lives")
    assert tried == 4


@pytest.mark.parametrize("refusal", [ConnectionRefusedError, TimeoutError, PermissionError])
def test_a_host_that_keeps_refusing_is_killed_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: type[OSError]
) -> None:
    files = _files(tmp_path, "1-aaaaaaaaaaaa")
    done: list[str] = []

    def connect(_: HostFiles) -> str:
        raise refusal

    monkeypatch.setattr(state_host, "_CONNECT_SECONDS", 0.2)
    monkeypatch.setattr(HostFiles, "connect", connect)
    monkeypatch.setattr(HostFiles, "kill", lambda _: done.append("killed"))
    monkeypatch.setattr(HostFiles, "of", lambda _: files)
    monkeypatch.setattr(Executor, "of_process", lambda _: Executor(1, "0"))
    monkeypatch.setattr(state_host, "_start", lambda *_: done.append("started"))
    with (tmp_path / "1-aaaaaaaaaaaa.host").open("rb") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        state_host.connect()
    assert done == ["killed", "started"]


@pytest.mark.parametrize("other", ["no socket", "a socket of a longer name"])
def test_a_process_that_has_the_id_of_an_ended_host_is_not_killed(
    tmp_path: Path, other: str
) -> None:
    files = _files(tmp_path, "1-aaaaaaaaaaaa")
    process = _sleeping(*([f"{files.socket}2"] if other != "no socket" else []))
    try:
        files.socket.with_suffix(".host").write_text(str(process.pid))
        files.kill()
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_a_host_that_was_started_for_the_socket_is_killed(tmp_path: Path) -> None:
    files = _files(tmp_path, "1-aaaaaaaaaaaa")
    process = _sleeping("--socket", str(files.socket))
    try:
        files.socket.with_suffix(".host").write_text(str(process.pid))
        files.kill()
        assert process.wait(60) == -signal.SIGKILL
    finally:
        process.kill()
        process.wait()


def _sleeping(*arguments: str) -> subprocess.Popen[bytes]:
    """A process that has the arguments in its command line."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", *arguments])
    # Popen returns while the kernel still replaces the program: its command line may be empty.
    while not Path(f"/proc/{process.pid}/cmdline").read_bytes():
        time.sleep(0.01)
    return process


def test_a_host_has_the_temporary_folder_of_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The databases of a root in an object store are there, beside the host's socket."""
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setenv("TEMP", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    given: dict[str, str] = {}

    class _StartedError(Exception):
        pass

    def started(_: list[str], *, env: dict[str, str], **__: Any) -> None:
        given.update(env)
        raise _StartedError

    monkeypatch.setattr(subprocess, "Popen", started)
    files = _files(tmp_path, "1-aaaaaaaaaaaa")
    with pytest.raises(_StartedError):
        state_host._start(files, Executor(os.getpid(), "0"))
    assert given["TMPDIR"] == str(tmp_path)
