"""The base classes of all stores and of their read-only views."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast._position import bound_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast._options import IsolationLevel
    from holdfast._position import PositionBound
    from holdfast._stores.owner import StoreOwner
    from holdfast._stores.serdes import Serdes
    from holdfast.stores import StoreBuilder

K = TypeVar("K")
V = TypeVar("V")
Core = TypeVar("Core")

_log = logging.getLogger("holdfast")


class StoreReads(Generic[K, V, Core]):
    """The reads of one store at one isolation level."""

    def __init__(self, core: Core, serdes: Serdes[K, V]) -> None:
        """Called by the store's `read_only`."""
        self._core = core
        self._serdes = serdes

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._serdes.store!r}>"


class StateStore(ABC):
    """A store of a database; its own reads see the open transaction.

    Batch methods take columns of one length: anything with the Arrow PyCapsule interface. Keys and
    values have the serdes' types (`docs/serdes.md`); with `BYTES` or a custom serde they are binary
    or strings. Times go in as int64 (epoch microseconds) or as timestamps of any unit, and come out
    as int64.

    Methods of a store and of its `read_only` views raise

    - `TypeError` for an argument, a key, a value or a column of another type,
    - `SerializationError` for a key or value that a serde cannot convert, in or out,
    - `ValueError` for a key that is None, a null time, a datetime without a zone, a time beyond 64
      bits, a key or value above 1 GiB, a returned batch of 2 GiB or more, columns of different
      lengths, `batch_rows` below 1.

    A batch is one unit: if one of its rows is invalid, nothing is written. After a commit that
    failed, or a write that failed half-way (on a full disk, for example), all writes and reads
    except reads at READ_COMMITTED raise `HoldfastError` until `Database.rollback`. If the commit of
    a user store failed, only further commits raise this error until the rollback.
    """

    manages_offsets = True
    _flush_has_warned = False

    def __init__(self, owner: StoreOwner, builder: StoreBuilder) -> None:
        """Called by the owner."""
        self._owner = owner
        self._builder = builder

    @property
    def name(self) -> str:
        """The store's name in its database."""
        return self._builder.name

    @property
    def persistent(self) -> bool:
        """Whether the store is in files; a store in memory is empty after each open."""
        return self._builder.persistent

    @property
    def transactional(self) -> bool:
        """Whether writes wait for the commit.

        If not, each write is visible at once, and both isolation levels read the same.
        """
        return self._builder.transactional

    @property
    def is_open(self) -> bool:
        """Whether the database is open."""
        return self._owner.is_open

    def flush(self) -> None:
        """Deprecated, does nothing: commits need no flush, and `close` flushes."""
        if not StateStore._flush_has_warned:
            StateStore._flush_has_warned = True
            _log.warning("StateStore.flush is deprecated and does nothing: a commit needs no flush")

    def commit(self, changelog_offsets: Mapping[tuple[str, int], int | None] | None = None) -> None:
        """Commits all stores of the database together, as `Database.commit` does."""
        self._owner.commit(changelog_offsets)

    def committed_offset(self, partition: tuple[str, int]) -> int | None:
        """Returns this store's committed changelog offset of (topic, partition), None without one.

        A store that lost its data (in memory, or without transactions after an unclean stop)
        returns None while the other stores keep their offsets. Raises as `Database.store_offset`
        does. In a processor on Spark the changelog is ("log", `ctx.partition`), and its offsets are
        epochs.
        """
        return self._owner.store_offset(self.name, partition)

    @property
    def approximate_num_uncommitted_bytes(self) -> int:
        """The bytes of memory that a commit would free for this store, without spilled data.

        0 for a store without transactions.
        """
        return self._owner.store_uncommitted_bytes(self.name)

    @abstractmethod
    def read_only(
        self,
        isolation_level: IsolationLevel | None = None,
        *,
        position_bound: PositionBound | None = None,
    ) -> Any:
        """Returns the store's reads at an isolation level, for use from any thread.

        Without a level, the database's default is used. With a `position_bound` each read raises
        `NotUpToBoundError` while the store's position at that level is below the bound.
        """

    def _view(
        self, isolation_level: IsolationLevel | None, position_bound: PositionBound | None
    ) -> tuple[str, list[tuple[str, int, int]] | None]:
        """Returns the arguments of the extension's `read_only`."""
        rows = bound_rows(position_bound)
        return self._owner.isolation(isolation_level), rows

    def __repr__(self) -> str:
        state = "open" if self.is_open else "closed"
        return f"<{type(self).__name__} {self.name!r} of {self._owner}, {state}>"
