"""A reader's connection to a root, which its tables share."""

from functools import lru_cache
from os import getpid
from typing import Any, Final

from holdfast import _core
from holdfast._options import IsolationLevel, check_choice
from holdfast._reader.arrow import arrow
from holdfast._reader.read_source import Offline, ReadSource
from holdfast.errors import StateMismatchError

_TIMEOUT: Final = 30.0

Cache = tuple[str | None, int | None]
"""The folder of a reader's copies, and the limit of their bytes; None: the default."""


class Connection:
    """The extension's reader of a root; another process can unpickle it and connect again."""

    def __init__(
        self,
        root: str,
        storage_options: dict[str, str],
        offline: Offline,
        cache: Cache,
        *,
        is_shared: bool = False,
    ) -> None:
        arrow()
        self._is_shared: Final = is_shared
        self.root: Final = root
        self._storage_options: Final = storage_options
        self._offline: Final = offline
        self._cache: Final = cache
        self._usual_source: Final = self._source({})
        self.core: Final = _core.StateReader.connect(root, storage_options, cache)
        # Stored for `__reduce__`: Spark Connect may pickle a reader after it was closed.
        self.root_id: Final = self.core.root_id()

    def __reduce__(self) -> tuple[Any, ...]:
        options = tuple(self._storage_options.items())
        return _shared, (self.root, self.root_id, options, self._offline, self._cache)

    def close(self) -> None:
        """Closes the reader, unless all unpickled readers of the process share it.

        A Python worker of Spark unpickles a reader for each task. The task that closes its reader
        must not close it for the next one.
        """
        if not self._is_shared:
            self.core.close()

    def source(self, source: ReadSource) -> "_core._ReadSource":
        """Returns the options of a read as the extension takes them."""
        # Most reads have no options. Their check would be 3 % of the time of a read of one key.
        return self._source(source) if source else self._usual_source

    def _source(self, source: ReadSource) -> "_core._ReadSource":
        unknown = source.keys() - ReadSource.__annotations__.keys()
        if unknown:
            raise TypeError(f"{min(unknown)!r} is no option of a read")
        level = source.get("isolation_level")
        if level is not None:
            check_choice("isolation_level", level, IsolationLevel)
        return {
            "epoch": source.get("epoch"),
            "at_least": source.get("at_least"),
            "timeout": source.get("timeout", _TIMEOUT),
            "offline": source.get("offline") or self._offline,
            "isolation_level": level and level.value,
            "stale_ok": source.get("stale_ok", False),
        }


def _shared(
    root: str,
    root_id: str,
    storage_options: tuple[tuple[str, str], ...],
    offline: Offline,
    cache: Cache,
) -> "Connection":
    """Returns the connection that all unpickled readers of a root share in this process.

    A Python worker of Spark unpickles a function for each task, and outlives the task. A root that
    was deleted and created again at its path has another id, and so another connection.
    """
    found = _connected((getpid(), root_id), root, storage_options, offline, cache)
    if found.root_id != root_id:
        raise StateMismatchError(
            f"{root}: this root was deleted and made again since the reader connected: connect "
            "again"
        )
    return found


@lru_cache(maxsize=16)
def _connected(
    key: tuple[int, str],  # noqa: ARG001 - a forked process, or another root, has its own reader
    root: str,
    storage_options: tuple[tuple[str, str], ...],
    offline: Offline,
    cache: Cache,
) -> "Connection":
    return Connection(root, dict(storage_options), offline, cache, is_shared=True)
