"""User-defined stores: a Python object with the protocol below can be a store of a database."""

from __future__ import annotations

import logging
import re
import shutil
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from holdfast import _checkpoint_file
from holdfast._options import ProcessingGuarantee
from holdfast._records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from holdfast._database import Database

_log = logging.getLogger("holdfast")
_warned: set[str] = set()
# It is the name of a folder beside the database's own files.
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
# RocksDB's files, ours, and the text files of older layouts.
_TAKEN = re.compile(
    r"CURRENT|IDENTITY|LOCK|LOG|LOG\.old.*|(MANIFEST|OPTIONS|METADB)-.*"
    r"|\d+\.[a-z]+|archive|HOLDER|COMMITTED|.*\.position",
    re.IGNORECASE,
)


@runtime_checkable
class UserStateStore(Protocol):
    """What a store of the user's own has (KIP-1035's `StateStore`).

    A database calls `init` when it is opened, `commit` before its own stores commit, `close` when
    it is closed. A store that is persistent and does not manage its offsets (`manages_offsets`
    False) gets the file `.checkpoint_<name>` in the database's directory for them, and one warning.
    Such a store keeps its own files in `db.directory(name)`: under exactly-once they are thrown
    away after an unclean stop, as nobody knows what is in them. What a method raises, the
    database's call hands on.
    """

    name: str
    """Of ASCII letters, digits, "_", "-" and "."; not "." first: the store's folder has it, too. It
    lies beside the database's files, whose names (CURRENT, LOG, MANIFEST-…) are refused.
    """
    persistent: bool
    manages_offsets: bool

    def init(self, db: Database, /) -> None:
        """The database is open; its own stores and the user's before this one can be used. An error
        here fails `open`.
        """

    def commit(self, changelog_offsets: Mapping[tuple[str, int], int | None] | None, /) -> None:
        """Makes all since the last commit permanent. An error here fails the database's commit."""

    def committed_offset(self, partition: tuple[str, int], /) -> int | None:
        """The offset of (topic, partition) that the store stands at; asked only of one that manages
        its offsets.
        """

    def close(self) -> None:
        """Nothing more is asked of it. An error here is raised by the database's `close`, once all
        else is closed.
        """


class Attached:
    """A user's store in a database, with the offsets of one that does not manage them."""

    def __init__(
        self, store: UserStateStore, directory: Path | None, guarantee: ProcessingGuarantee
    ) -> None:
        """Reads the store's checkpoint file; without one, its files of an unclean stop are gone
        under exactly-once.
        """
        self.store = store
        self._guarantee = guarantee
        self._offsets: dict[TopicPartition, int] = {}
        self._has_begun = False
        keeps_file = directory is not None and store.persistent and not store.manages_offsets
        self._file = (
            directory / f".checkpoint_{store.name}"
            if directory is not None and keeps_file
            else None
        )
        if self._file is None or directory is None:
            return
        if store.name not in _warned:
            _warned.add(store.name)
            _log.warning(
                "store %s: it is persistent and does not manage its offsets, so they are kept in a "
                "file of its own (%s); "
                "let it commit them with its data and set manages_offsets",
                store.name,
                self._file.name,
            )
        own_files = directory / store.name
        if (offsets := _checkpoint_file.read(self._file)) is not None:
            self._offsets = offsets
        elif guarantee is ProcessingGuarantee.EXACTLY_ONCE and own_files.is_dir():
            _log.warning(
                "store %s: discarded, since its database was not closed; restore it from its "
                "changelog",
                store.name,
            )
            shutil.rmtree(own_files)

    @property
    def keeps_file(self) -> bool:
        """Whether its offsets go into a text file."""
        return self._file is not None

    def begin(self) -> None:
        """All stores are open: under exactly-once the checkpoint file is gone from now on, until a
        clean close writes it.
        """
        if self._file is not None and self._guarantee is ProcessingGuarantee.EXACTLY_ONCE:
            _checkpoint_file.remove(self._file)
        self._has_begun = True

    def commit(self, offsets: Mapping[tuple[str, int], int | None] | None) -> None:
        """Commits the store, and its offsets."""
        self.store.commit(offsets)
        if self.store.manages_offsets or offsets is None:
            return
        if not offsets:
            self._offsets.clear()
        for partition, offset in offsets.items():
            if offset is None:
                self._offsets.pop(TopicPartition(*partition), None)
            else:
                self._offsets[TopicPartition(*partition)] = offset
        if self._guarantee is ProcessingGuarantee.AT_LEAST_ONCE:
            self._write()

    def committed_offset(self, partition: tuple[str, int]) -> int | None:
        """The offset that the store stands at."""
        if self.store.manages_offsets:
            return self.store.committed_offset(partition)
        return self._offsets.get(TopicPartition(*partition))

    def close(self) -> None:
        """Closes the store; its offsets are on disk afterwards. What has not begun keeps the file
        that it has.
        """
        self.store.close()
        if self._has_begun:
            self._write()

    def _write(self) -> None:
        if self._file is not None:
            _checkpoint_file.write(self._file, self._offsets)


def is_user_store(store: Any) -> bool:
    """Whether an object is a store of the user's own."""
    return isinstance(store, UserStateStore)


def check_name(name: Any) -> None:
    """Refuse a name that is no folder's, or one of the database's own files."""
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise ValueError(
            f"a store's name is {name!r}; that of a store of your own names its folder, too: give "
            "ASCII letters, digits, "
            "'_', '-' and '.', and no '.' first"
        )
    if _TAKEN.fullmatch(name) is not None:
        raise ValueError(
            f"a store's name is {name!r}; that of a store of your own names its folder, too, and "
            "the database has a file of "
            "that name beside it; give another one"
        )
