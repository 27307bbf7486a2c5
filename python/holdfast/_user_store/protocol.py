"""The interface of user stores, and the names that they can have."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping

# The store's folder, beside the database's files, has the same name.
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
# RocksDB's files, Holdfast's, and the text files of offsets.
_RESERVED_NAME = re.compile(
    r"CURRENT|IDENTITY|LOCK|LOG|LOG\.old.*|(MANIFEST|OPTIONS|METADB)-.*"
    r"|\d+\.[a-z]+|archive|HOLDER|COMMITTED|.*\.position",
    re.IGNORECASE,
)


@runtime_checkable
class UserStateStore(Protocol):
    """A user store: any object with these members (KIP-1035's `StateStore`).

    A database calls `init` when it is opened, `commit` before its built-in stores commit, and
    `close` when it is closed. The database's methods raise the errors of these calls unchanged.

    A persistent store that does not manage its offsets (`manages_offsets` False) has them in the
    file `.checkpoint_<name>` of the database's directory; the database logs one warning about it.
    Such a store's own files are in `Database.directory(name)`. Under exactly-once they are deleted
    after an unclean stop, since their content is unknown then.
    """

    name: str
    """ASCII letters, digits, "_", "-" and "."; the first character is not ".".

    The store's folder has the same name, so the names of the database's files (CURRENT, LOG,
    MANIFEST-…) are refused.
    """
    persistent: bool
    manages_offsets: bool

    def init(self, db: Any, /) -> None:
        """Prepares the store for use; an error fails `open`.

        `db` is the open `Database`: the built-in stores, and the user stores before this one in
        `open`'s list, can be used.
        """

    def commit(self, changelog_offsets: Mapping[tuple[str, int], int | None] | None, /) -> None:
        """Makes all writes since the last commit permanent; an error fails `Database.commit`."""

    def committed_offset(self, partition: tuple[str, int], /) -> int | None:
        """Returns the committed offset of (topic, partition), None without one.

        Called only if the store manages its offsets.
        """

    def close(self) -> None:
        """Closes the store; it is not called again.

        `Database.close` raises its error after everything else is closed.
        """


def is_user_store(store: Any) -> bool:
    """Returns whether an object has the members of `UserStateStore`."""
    return isinstance(store, UserStateStore)


def check_name(name: Any) -> None:
    """Raises `ValueError` for a name that a folder cannot have or that a database file has."""
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise ValueError(
            f"a user store's name is {name!r}; it names the store's folder, too: give ASCII "
            "letters, digits, '_', '-' and '.', and no '.' first"
        )
    if _RESERVED_NAME.fullmatch(name) is not None:
        raise ValueError(
            f"a user store's name is {name!r}; it names the store's folder, too, and the database "
            "has a file of that name beside it; give another one"
        )
