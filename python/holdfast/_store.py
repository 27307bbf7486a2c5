"""What every store of a database can do."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from holdfast._arguments import check_kind
from holdfast._position import PositionBound
from holdfast._serdes import Serdes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast._database import Database
    from holdfast._options import IsolationLevel
    from holdfast.stores import StoreBuilder

__all__ = ["Serdes", "StateStore"]

_log = logging.getLogger("holdfast")


class StateStore(ABC):
    """A store of a database. Its own reads are the writer's: they see the open transaction.

    Batch methods take columns of one length: anything with the Arrow PyCapsule interface. Keys and
    values are of the serdes' types (`docs/serdes.md`), binary or strings with `BYTES` or a serde of
    your own; times are int64 (epoch microseconds) or timestamps of any unit. Times come out as
    int64, epoch microseconds.

    Methods and those of `read_only` views raise `TypeError` for an argument, a key, a value or a
    column of another type, `SerializationError` for one that a serde cannot convert, in or out, and
    `ValueError` for what cannot be: a key that is None, a null time, a datetime without a zone, a
    time beyond 64 bits, more than 1 GiB in a key or value or 2 GiB in a batch that is returned,
    columns of several lengths, `batch_rows` below 1. After a commit that failed, or a write that
    failed half-way, writes raise `HoldfastError` until `Database.rollback`, as do after such a
    commit all reads but those at READ_COMMITTED.
    """

    manages_offsets = True
    _flush_has_warned = False

    def __init__(self, db: Database, builder: StoreBuilder) -> None:
        """Made by the database."""
        self._database = db
        self._builder = builder

    @property
    def name(self) -> str:
        """The store's name in its database."""
        return self._builder.name

    @property
    def persistent(self) -> bool:
        """Whether it is kept in files; a store in memory is empty after each open."""
        return self._builder.persistent

    @property
    def transactional(self) -> bool:
        """Whether writes wait for the commit; else each goes straight through, and both isolation
        levels read the same.
        """
        return self._builder.transactional

    @property
    def is_open(self) -> bool:
        """Whether the database is open."""
        return self._database.is_open

    def flush(self) -> None:
        """Deprecated, does nothing: commits need no flush, and `close` flushes by itself."""
        if not StateStore._flush_has_warned:
            StateStore._flush_has_warned = True
            _log.warning("StateStore.flush is deprecated and does nothing; call commit")

    def commit(self, changelog_offsets: Mapping[tuple[str, int], int | None] | None = None) -> None:
        """Commits the whole database, as `Database.commit` does: all its stores go together."""
        self._database.commit(changelog_offsets)

    def committed_offset(self, partition: tuple[str, int]) -> int | None:
        """The changelog offset of (topic, partition) that this store stands at, None if there is
        none.

        A store that lost its data (in memory, or without transactions after an unclean stop) says
        None while its neighbours keep theirs. Raises as `Database.store_offset` does.
        """
        return self._database.store_offset(self.name, partition)

    @abstractmethod
    def read_only(
        self,
        isolation_level: IsolationLevel | None = None,
        *,
        position_bound: PositionBound | None = None,
    ) -> Any:
        """The store's reads at an isolation level, from any thread; None: the database's default
        level.

        With a `position_bound` each read raises `NotUpToBoundError` until the database's position
        at that level reaches it.
        """

    def _view(
        self, isolation_level: IsolationLevel | None, position_bound: PositionBound | None
    ) -> tuple[str, list[tuple[str, int, int]] | None]:
        if position_bound is not None:
            check_kind("position_bound", position_bound, PositionBound)
        return self._database.isolation(
            isolation_level
        ), None if position_bound is None else position_bound.rows()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} of {self._database!r}>"
