"""The state host of the executor that a Python worker belongs to: found, or started."""

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
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

from holdfast import errors
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast._core import HostClient

_CONNECT_SECONDS: Final = 10.0
_START_SECONDS: Final = 30.0
_IDLE_SECONDS: Final = 60
_LOG_TAIL: Final = 4_000
_LOG_LIMIT: Final = 4 << 20
_SOCKET_PATH_LIMIT: Final = 107  # bytes of sun_path without its closing zero


def connect() -> "HostClient":
    """A new session's connection to this executor's state host; starts the host where none listens.

    Raises `HoldfastError` where the host cannot be started, with the end of its log, and outside of
    Spark's Python workers.
    """
    executor = Executor.of_process(os.getpid())
    place = Place.of(executor)
    with suppress(OSError):
        return place.connect()
    # Several tasks come here at once; the first starts the host, the others find it.
    with place.locked():
        deadline = time.monotonic() + _CONNECT_SECONDS
        while True:
            try:
                return place.connect()
            except (TimeoutError, PermissionError):
                break
            except OSError:
                # One that lives has refused this connection alone, or is about to end: its socket
                # and token are left.
                if not place.is_served() or time.monotonic() > deadline:
                    break
                time.sleep(0.1)
        if place.is_served():
            # It is stopped, or as good as: whatever it holds, the next one has from the log.
            place.kill()
        return _start(place, executor)


class Executor(NamedTuple):
    """An executor's process: its id, and its start time, since process ids come again."""

    pid: int
    started: str

    def address(self) -> "tuple[str, str | None] | None":
        """The host name that Spark knows this executor by, and the address that it listens at if
        that is another one.

        Every cluster manager starts executors with both on the command line: what Spark's own
        blocks are fetched from is where others find this executor's state. None where Spark has no
        other executors (`local[...]`).
        """
        arguments = (
            Path(f"/proc/{self.pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        )
        given = dict(pairwise(arguments))
        name = given.get("--hostname")
        return None if name is None else (name, given.get("--bind-address"))

    @staticmethod
    def of_process(pid: int) -> "Executor":
        """The JVM above a Python worker: the worker's parent, or, with Spark's fork server between,
        its parent.
        """
        above = pid
        while above > 1:
            parent, started, command = _process(above)
            if command == "java":
                return Executor(above, started)
            above = parent
        raise HoldfastError(
            f"no Java process above process {pid}: an operator's task must run in a Python worker "
            "that Spark started"
        )


class Place(NamedTuple):
    """Where an executor's state host listens, and the files beside the socket."""

    socket: Path
    token: Path
    lock: Path
    log: Path

    @staticmethod
    def of(executor: Executor) -> "Place":
        """The files of an executor's host, in a folder that only this user may enter."""
        mark = hashlib.blake2b(
            f"{executor.pid} {executor.started}".encode(), digest_size=6
        ).hexdigest()
        stem = f"{executor.pid}-{mark}"
        folder = _private_folder(Path(tempfile.gettempdir()) / f"holdfast-{os.getuid()}", stem)
        return Place(*(folder / f"{stem}.{end}" for end in ("sock", "token", "lock", "log")))

    def connect(self) -> "HostClient":
        """Connect to a host that listens; `OSError` where none does, or it has another token."""
        from holdfast._core import HostClient

        return HostClient.connect(str(self.socket), self.token.read_text(), _CONNECT_SECONDS)

    def is_served(self) -> bool:
        """Whether a host holds the socket, also one that takes no connection at the moment."""
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
        """The file that a host holds as long as it listens."""
        return self.socket.with_suffix(".host")

    def kill(self) -> None:
        """SIGKILL the host that does not answer, and wait until it has let go of its socket and its
        databases.
        """
        text = self._holder.read_text()
        if not text.isdecimal():
            return
        process = Path("/proc") / text
        with suppress(OSError):
            # Process ids come again: only one that was started for this socket.
            if os.fsencode(self.socket) not in (process / "cmdline").read_bytes().split(b"\0"):
                return
            os.kill(int(text), signal.SIGKILL)
            deadline = time.monotonic() + _CONNECT_SECONDS
            while time.monotonic() < deadline and (process / "cmdline").read_bytes():
                time.sleep(0.01)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock under which a host is started; a process that dies lets go of it."""
        handle = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def _start(place: Place, executor: Executor) -> "HostClient":
    _sweep(place)
    token = secrets.token_hex(32)
    place.token.unlink(missing_ok=True)
    handle = os.open(place.token, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(token)
    place.socket.unlink(missing_ok=True)
    # -P: whatever lies in Spark's working directory is no module of ours.
    command = [
        sys.executable,
        "-P",
        "-m",
        "holdfast.host",
        "--socket",
        str(place.socket),
        "--token-file",
        str(place.token),
    ]
    command += ["--executor-pid", str(executor.pid), "--idle-seconds", str(_IDLE_SECONDS)]
    address = executor.address()
    if address is not None:
        name, bind = address
        command += ["--name", name, *(() if bind is None else ("--bind", bind))]
    # The host must find the package that this worker has found, wherever that was.
    paths = [str(Path(errors.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}
    # Each session has a thread of its own: with an arena of malloc for each, what is freed would
    # not come back.
    environment.setdefault("MALLOC_ARENA_MAX", "2")
    with _open_log(place.log) as log:
        start = log.tell()
        # A session of its own: signals to Spark's process group do not reach it, it watches the
        # executor itself.
        host = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=environment,
            cwd=place.socket.parent,
        )
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            return place.connect()
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
            raise HoldfastError(
                f"the state host of executor {executor.pid} {fate} ({error}); "
                f"the end of its log {place.log}:\n{_tail(place.log, start)}"
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


def _sweep(place: Place) -> None:
    """Remove what hosts of executors that are gone have left behind.

    A process id says nothing of another container that shares the folder: a host that lives there
    holds its `.host` as long as it listens, and who starts one its `.lock`. One that only closes
    its databases does without these files.
    """
    left: dict[str, list[Path]] = {}
    for file in place.lock.parent.iterdir():
        stem = file.name.partition(".")[0]
        pid = stem.partition("-")[0]
        if pid.isdecimal() and not _is_alive(int(pid)):
            left.setdefault(stem, []).append(file)
    for files in left.values():
        with ExitStack() as held, suppress(OSError):
            for file in files:
                if file.suffix in {".host", ".lock"}:
                    lock = held.enter_context(file.open("rb"))
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for file in files:
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
    """The folder, made for this user alone; somebody else's of that name is refused, it could hold
    a false socket.
    """
    if len(os.fsencode(folder / f"{stem}.sock")) > _SOCKET_PATH_LIMIT:
        folder = Path("/tmp") / folder.name  # noqa: S108 - sockets have short paths
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise HoldfastError(
            f"{folder} belongs to somebody else: remove it, or set TMPDIR to a folder of your own"
        )
    if stat.S_IMODE(status.st_mode) != 0o700:
        folder.chmod(0o700)
    return folder


def _process(pid: int) -> tuple[int, str, str]:
    """The parent, the start time and the command's name of a process."""
    # The name stands in brackets and may hold anything, brackets too.
    head, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    fields = rest.split()
    return int(fields[1]), fields[19], head.partition("(")[2]
