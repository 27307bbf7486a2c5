"""The interfaces of user stores, and the names that they can have."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast._offsets import TopicPartition

# The store's folder, beside the database's files, has the same name.
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
# Names of RocksDB's files and of Holdfast's files, and the ending by which `open` recognises a
# directory of Kafka Streams.
_RESERVED_NAME = re.compile(
    r"CURRENT|IDENTITY|LOCK|LOG|LOG\.old.*|(MANIFEST|OPTIONS|METADB)-.*"
    r"|\d+\.[a-z]+|archive|HOLDER|COMMITTED|.*\.position",
    re.IGNORECASE,
)

MEMBERS = (
    "name",
    "persistent",
    "transactional",
    "manages_offsets",
    "init",
    "commit",
    "committed_offset",
    "close",
)
TRANSACTIONAL_MEMBERS = (*MEMBERS, "approximate_num_uncommitted_bytes", "rollback", "recover")


@runtime_checkable
class UserStateStore(Protocol):
    """A user store: any object with these members (KIP-1035's `StateStore`).

    A database calls `init` in `open`, `commit` before its built-in stores commit, and `close` in
    `Database.close`. The database's methods raise the errors of these calls unchanged.

    `name`, `persistent`, `transactional` and `manages_offsets` are read before `init`. `open` does
    not read the other members to find them, so a property may need `init`. But it reads a member
    that `__getattr__` forwards to another object.

    Only a transactional store (`TransactionalUserStore`) is part of exactly-once. The writes of any
    other store may outlive `Database.rollback`, as those of a built-in store with
    `transactional=False` do. If such a store has a method `rollback`, the database calls it. Under
    exactly-once `Database.rollback` and `open` raise `StateMismatchError` if such a store has
    committed what its database has not. If the store manages its offsets, `open` checks only the
    partitions of which the database has offsets, and `Database.commit` checks a partition at its
    first commit.

    A persistent store that does not manage its offsets (`manages_offsets` False) has them in the
    file `.checkpoint_<name>` of the database's directory; the database logs one warning about it.
    Such a store's own files are in `Database.directory(name)`. Under exactly-once they are deleted
    after an unclean stop, since their content is unknown then, and at the first open after
    `manages_offsets` has changed to False.
    """

    name: str
    """ASCII letters, digits, "_", "-" and "."; the first character is not ".".

    The store's folder has the same name, so the names of the database's files (CURRENT, LOG,
    MANIFEST-…) are refused.
    """
    persistent: bool
    transactional: bool
    manages_offsets: bool

    def init(self, db: Any, /) -> None:
        """Prepares the store for use; an error fails `open`.

        `db` is the open `Database`: the built-in stores, and the user stores before this one in
        `open`'s list, can be used.
        """

    def commit(self, changelog_offsets: Mapping[tuple[str, int], int | None] | None, /) -> None:
        """Makes all writes since the last commit permanent; an error fails `Database.commit`.

        If a call raises, it must have committed nothing, unless the store is transactional.
        """

    def committed_offset(self, partition: tuple[str, int], /) -> int | None:
        """Returns the committed offset of (topic, partition), None without one.

        Called only if the store manages its offsets. A transactional store does not count a commit
        that is undecided, also before `recover` in an open.
        """

    def close(self) -> None:
        """Closes the store; called once.

        Writes that are not committed are dropped.

        `Database.close` raises the error of this call after everything else is closed.
        """


@runtime_checkable
class TransactionalUserStore(UserStateStore, Protocol):
    """A user store that commits in two steps (KIP-844's `commit` and `recover`).

    `transactional` and `manages_offsets` are true. `commit` makes the writes durable but undecided.
    The database then commits, which decides them. If the database's commit fails, the next `commit`
    comes only after `recover`. `Database.rollback` and each open call `recover` with the offsets of
    the database's last commit. The store keeps the undecided writes if they end at exactly these
    offsets, and drops them otherwise. So it must be able to do both until its next `commit`.

    Only the offsets distinguish two commits. Under exactly-once `Database.commit` therefore raises
    `ValueError` if it moves no offset of the store. A persistent store may have a commit that the
    database has lost. So under exactly-once `open` raises `ValueError` for a persistent store in a
    database in memory or with `Durability.CHANGELOG`.
    """

    @property
    def approximate_num_uncommitted_bytes(self) -> int:
        """The memory of the writes since the last commit.

        It counts in the database's `approximate_num_uncommitted_bytes` and `commit_requested`.
        """
        ...

    def rollback(self) -> None:
        """Drops the writes since the last commit. `recover` is called next."""

    def recover(
        self, changelog_offsets: Mapping[TopicPartition, int], /
    ) -> Mapping[TopicPartition, int]:
        """Keeps or drops the undecided writes, and returns the store's offsets.

        `changelog_offsets` are those of the database's last commit with this store. They have only
        the partitions that were committed with the store, and those in which it is at the
        database's offset. The result must be equal to them, or empty for a store without data,
        which must be restored. Under exactly-once any other result raises `StateMismatchError`.
        """
        ...


def is_user_store(store: Any) -> bool:
    """Returns whether an object has the members of `UserStateStore`."""
    return _has(store, MEMBERS)


def as_transactional(store: UserStateStore) -> TransactionalUserStore | None:
    """Returns a store that is marked transactional and has the members; None for another one."""
    if not store.transactional or not _has(store, TRANSACTIONAL_MEMBERS):
        return None
    return cast("TransactionalUserStore", store)


def _has(store: Any, members: tuple[str, ...]) -> bool:
    """Returns whether an object has all these members; None is not a member.

    Before Python 3.12 `isinstance` reads properties, so one that needs `init` would be missing.
    """
    return all(
        inspect.getattr_static(store, member, None) is not None
        or getattr(store, member, None) is not None
        for member in members
    )


def check_name(name: Any) -> None:
    """Raises `ValueError` for a name that is not allowed, or that a database file may have."""
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


def check_transactional(store: UserStateStore, *, can_lose_commits: str | None) -> None:
    """Raises `ValueError` for a transactional store that cannot be used under exactly-once.

    `can_lose_commits` says why the database may lose a commit, None if it cannot.
    """
    if not store.transactional:
        return
    if as_transactional(store) is None or not store.manages_offsets:
        raise ValueError(
            f"store {store.name}: it is marked transactional, but lacks a member of "
            "holdfast.TransactionalUserStore (recover, rollback, "
            "approximate_num_uncommitted_bytes, manages_offsets true), so exactly-once cannot hold "
            "for it; add them, set transactional to False, or open the database with AT_LEAST_ONCE"
        )
    if can_lose_commits is not None and store.persistent:
        raise ValueError(
            f"store {store.name}: it is transactional, and the database may lose a commit that the "
            f"store has ({can_lose_commits}); open a database in files with Durability.SYNC, or "
            "with AT_LEAST_ONCE"
        )
