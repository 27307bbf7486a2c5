"""The interface through which a store calls its database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast._options import IsolationLevel


class StoreOwner(Protocol):
    """The owner of a store: a `Database`, or the session of a Spark processor."""

    @property
    def is_open(self) -> bool:
        """Whether the stores can be used."""
        ...

    def commit(
        self, changelog_offsets: Mapping[tuple[str, int], int | None] | None = None, /
    ) -> None:
        """Commits all stores together."""
        ...

    def store_offset(self, store: str, partition: tuple[str, int], /) -> int | None:
        """Returns the committed changelog offset of one store."""
        ...

    def store_uncommitted_bytes(self, store: str, /) -> int:
        """Returns the memory of one store's uncommitted writes."""
        ...

    def isolation(self, level: IsolationLevel | None, /) -> str:
        """Returns the extension's name of an isolation level; None is the default level."""
        ...
