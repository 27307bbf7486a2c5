"""Serves the state of queries over HTTP, for clients in any language.

`Gateway` serves from the process that makes it; `holdfast serve` is a process of its own.
docs/serve.md has the paths and examples.
"""

import signal
import socket
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from os import PathLike, fspath
from types import FrameType
from typing import Final

from holdfast import _core
from holdfast._reader.read_source import Offline

__all__ = ["LISTEN", "Gateway", "named_roots"]

LISTEN: Final = "127.0.0.1:8474"


class Gateway(AbstractContextManager["Gateway"]):
    """Serves the state of roots over HTTP until it is closed; a context manager.

    `roots` is a dict from the names in paths to the roots, or one root. The name of a single root
    is that of its folder. `storage_options` configure the clients of the object stores.

    A gateway only reads. By default only processes of this machine reach it. `listen` at another
    address needs `token_file`, a file with the secret that clients send, and encryption: `cert` and
    `key` are PEM files. With `insecure=True` the gateway does not encrypt: use it only behind a
    proxy that does.

    State hosts answer the reads. With `offline="auto"`, if no host answers, the gateway makes
    copies in `cache_dir` and reads them. The copies of each root take at most `cache_bytes` of the
    disk, as in `holdfast.connect`. At most `max_requests` reads run at the same time. A read waits
    at most `timeout` seconds for its epoch or a host. A response waits at most `timeout` seconds
    for a client that accepts no bytes.

    Raises `ValueError` for settings that would open the state to a network by accident,
    `StateMismatchError` if a root holds no state, `HoldfastError` if the address is in use.
    """

    def __init__(
        self,
        roots: str | PathLike[str] | Mapping[str, str | PathLike[str]],
        *,
        storage_options: Mapping[str, str] | None = None,
        listen: str = LISTEN,
        token_file: str | PathLike[str] | None = None,
        cert: str | PathLike[str] | None = None,
        key: str | PathLike[str] | None = None,
        insecure: bool = False,
        offline: Offline = "never",
        cache_dir: str | PathLike[str] | None = None,
        cache_bytes: int | None = None,
        max_requests: int = 64,
        timeout: float = 30.0,
    ) -> None:
        if not isinstance(roots, Mapping):
            roots = {_folder(fspath(roots)): roots}
        self._core: Final = _core.Gateway.start(
            {
                "roots": [(name, fspath(root)) for name, root in roots.items()],
                "storage_options": dict(storage_options or {}),
                "listen": listen,
                "token_file": token_file,
                "tls": _tls(cert, key),
                "insecure": insecure,
                "offline": offline,
                "cache": (cache_dir, cache_bytes),
                "max_requests": max_requests,
                "timeout": timeout,
            }
        )

    @property
    def url(self) -> str:
        """The address that the gateway listens at."""
        return self._core.url()

    def close(self) -> None:
        """Ends the gateway, after a few seconds for requests that are being answered."""
        self._core.stop()

    def run(self) -> None:
        """Serves until the process gets SIGINT or SIGTERM, then closes the gateway.

        Call it in the main thread.
        """
        signals = (signal.SIGINT, signal.SIGTERM)

        def handler(number: int, frame: FrameType | None) -> None:
            """Does nothing: the signal's number is written to the socket."""

        receiver, sender = socket.socketpair()
        with receiver, sender:
            sender.setblocking(False)
            before = [signal.signal(number, handler) for number in signals]
            # If a thread of the gateway gets the signal, this thread does not wake up. But every
            # thread that gets a signal writes the signal's number to this file descriptor.
            file_before = signal.set_wakeup_fd(sender.fileno())
            try:
                receiver.recv(1)
            finally:
                signal.set_wakeup_fd(file_before)
                for number, handler_before in zip(signals, before, strict=True):
                    signal.signal(number, handler_before)
                self.close()

    def __exit__(self, *exc: object) -> None:
        self.close()


def _tls(
    cert: str | PathLike[str] | None, key: str | PathLike[str] | None
) -> tuple[str, str] | None:
    if cert is None and key is None:
        return None
    if cert is None or key is None:
        raise ValueError("give a certificate and its key, or none of them")
    return fspath(cert), fspath(key)


def _folder(root: str) -> str:
    """The last part of a root's address, which is its name in paths."""
    return root.rstrip("/").rpartition("/")[2]


def named_roots(roots: Sequence[str]) -> dict[str, str]:
    """Returns roots by name: each is `ROOT` or `NAME=ROOT`.

    Raises `ValueError` if two have one name.
    """
    named: dict[str, str] = {}
    for given in roots:
        name, equals, root = given.partition("=")
        if not equals or "/" in name:
            name, root = _folder(given), given
        if name in named:
            raise ValueError(f"two roots have the name {name!r}: give one as NAME=ROOT")
        named[name] = root
    return named
