"""Connects a Python worker to its executor's state host, and starts the host if needed."""

import fcntl
import hashlib
import os
import secrets
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

from holdfast import errors
from holdfast.errors import HoldfastError
from holdfast.spark.worker.executor import Executor

if TYPE_CHECKING:
    from holdfast._core import HostClient

_CONNECT_SECONDS: Final = 10.0
_START_SECONDS: Final = 30.0
# A host without a session ends after this time, or after three times the longest pause between its
# queries' micro-batches if that is longer.
_IDLE_SECONDS: Final = 600
_LOG_TAIL: Final = 4_000
_LOG_LIMIT: Final = 4 << 20
_SOCKET_PATH_LIMIT: Final = 107  # bytes of sun_path without its terminating zero
_ADDRESS_ADVICE: Final = (
    "If it cannot listen for other executors, check spark.executor.bindAddress, SPARK_LOCAL_IP and "
    "SPARK_LOCAL_HOSTNAME of this machine"
)


def connect() -> "HostClient":
    """Returns a new connection to this executor's state host; starts the host if none listens.

    Raises `HoldfastError`, with the end of the host's log, if the host cannot be started, and
    outside of Spark's Python workers.
    """
    executor = Executor.of_process(os.getpid())
    files = HostFiles.of(executor)
    with suppress(OSError):
        return files.connect()
    # Several tasks may get here at once: the first one starts the host, the others connect to it.
    with files.locked():
        deadline = time.monotonic() + _CONNECT_SECONDS
        while True:
            try:
                return files.connect()
            except (TimeoutError, PermissionError):
                break
            except OSError:
                # If a live host has the socket, it has refused only this connection, or is about to
                # end: retry, and leave its socket and token in place.
                if not files.is_served() or time.monotonic() > deadline:
                    break
                time.sleep(0.1)
        if files.is_served():
            # The host hangs or has another token. A kill is safe: the next host replays the log.
            files.kill()
        return _start(files, executor)


class HostFiles(NamedTuple):
    """The socket of an executor's state host, and the files beside it."""

    socket: Path
    token: Path
    lock: Path
    log: Path

    @staticmethod
    def of(executor: Executor) -> "HostFiles":
        """Returns the files of an executor's host, in a folder that only this user can open."""
        mark = hashlib.blake2b(
            f"{executor.pid} {executor.started}".encode(), digest_size=6
        ).hexdigest()
        stem = f"{executor.pid}-{mark}"
        folder = _private_folder(Path(tempfile.gettempdir()) / f"holdfast-{os.getuid()}", stem)
        return HostFiles(*(folder / f"{stem}.{end}" for end in ("sock", "token", "lock", "log")))

    def connect(self) -> "HostClient":
        """Connects to the host; raises `OSError` if none listens or it has another token."""
        from holdfast._core import HostClient

        return HostClient.connect(str(self.socket), self.token.read_text(), _CONNECT_SECONDS)

    def is_served(self) -> bool:
        """Whether a host serves the socket, even if it accepts no connection at the moment."""
        try:
            handle = os.open(self._holder, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            return False
        finally:
            os.close(handle)

    @property
    def _holder(self) -> Path:
        """The file that a host has locked while it listens."""
        return self.socket.with_suffix(".host")

    def kill(self) -> None:
        """Kills a host that does not answer, and waits up to 10 seconds until it has ended.

        Its socket and its databases are then unlocked.
        """
        text = self._holder.read_text()
        if not text.isdecimal():
            return
        process = Path("/proc") / text
        with suppress(OSError):
            # Process ids are reused: kill only a process that was started for this socket.
            if os.fsencode(self.socket) not in (process / "cmdline").read_bytes().split(b"\0"):
                return
            os.kill(int(text), signal.SIGKILL)
            deadline = time.monotonic() + _CONNECT_SECONDS
            while time.monotonic() < deadline and (process / "cmdline").read_bytes():
                time.sleep(0.01)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the lock under which a host is started. The end of the process releases it, too."""
        handle = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def _start(files: HostFiles, executor: Executor) -> "HostClient":
    _sweep(files)
    token = secrets.token_hex(32)
    files.token.unlink(missing_ok=True)
    handle = os.open(files.token, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(token)
    files.socket.unlink(missing_ok=True)
    # -P: files in Spark's working directory must not be imported as modules.
    command = [
        sys.executable,
        "-P",
        "-m",
        "holdfast.host",
        "--socket",
        str(files.socket),
        "--token-file",
        str(files.token),
    ]
    command += ["--executor-pid", str(executor.pid), "--idle-seconds", str(_IDLE_SECONDS)]
    address = executor.address()
    if address is not None:
        name, bind = address
        command += ["--name", name, *(() if bind is None else ("--bind", bind))]
    # The host must import the same package as this worker.
    paths = [str(Path(errors.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        # Rust takes the temporary folder from TMPDIR only, Python also from TEMP and TMP.
        "TMPDIR": tempfile.gettempdir(),
    }
    # Each session has its own thread. With a malloc arena for each thread, freed memory would not
    # be returned to the system.
    environment.setdefault("MALLOC_ARENA_MAX", "2")
    with _open_log(files.log) as log:
        start = log.tell()
        # A new process session: signals to Spark's process group do not reach the host, which
        # watches the executor itself.
        host = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=environment,
            cwd=files.socket.parent,
        )
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            return files.connect()
        except OSError as error:
            ended = host.poll()
            if ended is None and time.monotonic() < deadline:
                time.sleep(0.01)
                continue
            if ended is None:
                host.kill()
            fate = (
                f"ended with code {ended}"
                if ended is not None
                else f"did not listen within {_START_SECONDS:.0f} s"
            )
            advice = "" if address is None else f". {_ADDRESS_ADVICE}"
            raise HoldfastError(
                f"the state host of executor {executor.pid} {fate} ({error}){advice}; "
                f"the end of its log {files.log}:\n{_tail(files.log, start)}"
            ) from error


def _open_log(path: Path) -> BinaryIO:
    if path.exists() and path.stat().st_size > _LOG_LIMIT:
        path.replace(path.with_suffix(".log.1"))
    log = os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab"
    )
    log.seek(0, os.SEEK_END)
    return log


def _tail(log: Path, start: int) -> str:
    with log.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(start, end - _LOG_TAIL))
        return file.read().decode(errors="replace").strip() or "(empty)"


def _sweep(files: HostFiles) -> None:
    """Removes the files of hosts whose executors have ended.

    Another container that shares the folder has other process ids, so locks decide: a host holds a
    lock on its `.host` file while it listens, and a worker holds one on the `.lock` file while it
    starts a host. A host that is only closing its databases needs neither file.
    """
    left: dict[str, list[Path]] = {}
    for file in files.lock.parent.iterdir():
        stem = file.name.partition(".")[0]
        pid = stem.partition("-")[0]
        if pid.isdecimal() and not _is_alive(int(pid)):
            left.setdefault(stem, []).append(file)
    for group in left.values():
        with ExitStack() as held, suppress(OSError):
            for file in group:
                if file.suffix in {".host", ".lock"}:
                    lock = held.enter_context(file.open("rb"))
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for file in group:
                file.unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _private_folder(folder: Path, stem: str) -> Path:
    """Creates the folder for this user alone.

    A folder of that name that belongs to another user is refused: it could contain a false socket.
    """
    if len(os.fsencode(folder / f"{stem}.sock")) > _SOCKET_PATH_LIMIT:
        folder = Path("/tmp") / folder.name  # noqa: S108 - sockets have short paths
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise HoldfastError(
            f"{folder} is not a folder, or belongs to another user: remove it, or set TMPDIR to a "
            "folder of your own"
        )
    if stat.S_IMODE(status.st_mode) != 0o700:
        folder.chmod(0o700)
    return folder
