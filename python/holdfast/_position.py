"""Positions in the input: how much of it a state contains, and how much a query requires."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from holdfast._offsets import check_bits

if TYPE_CHECKING:
    from collections.abc import Iterable


class Position:
    """The greatest offset that a state contains, for each topic and partition of the input.

    Raises `TypeError` if the offsets are not a mapping of mappings of integers, `ValueError` for a
    partition beyond 32 bits or an offset beyond 64.

    >>> seen = Position({"orders": {0: 41}})
    >>> seen.merge(Position({"orders": {0: 40, 1: 7}}))
    Position({'orders': {0: 41, 1: 7}})
    """

    def __init__(self, offsets: Mapping[str, Mapping[int, int]] | None = None) -> None:
        """Offsets by topic, then partition; without them, the position of an empty state."""
        if offsets is not None and not (
            isinstance(offsets, Mapping) and all(isinstance(of, Mapping) for of in offsets.values())
        ):
            raise TypeError(
                f"offsets is {offsets!r:.80}; wanted: a mapping of topics to mappings of "
                "partitions to offsets"
            )
        self._offsets = {
            topic: {
                check_bits("a partition", number, 32): check_bits("an offset", offset, 64)
                for number, offset in of.items()
            }
            for topic, of in (offsets or {}).items()
        }

    @classmethod
    def of_rows(cls, rows: Iterable[tuple[str, int, int]]) -> Position:
        """Returns the position of (topic, partition, offset) rows."""
        position = cls()
        for topic, partition, offset in rows:
            position._offsets.setdefault(topic, {})[partition] = offset
        return position

    def rows(self) -> list[tuple[str, int, int]]:
        """Returns the position as (topic, partition, offset) rows."""
        return [
            (topic, number, offset)
            for topic, numbers in self._offsets.items()
            for number, offset in numbers.items()
        ]

    def offsets(self) -> dict[str, dict[int, int]]:
        """Returns the offsets by topic, then partition."""
        return {topic: dict(partitions) for topic, partitions in self._offsets.items()}

    def merge(self, other: Position) -> Position:
        """Returns the position with the greater offset of each partition.

        Raises `TypeError` if `other` is not a `Position`.
        """
        _check_kind("other", other, Position)
        merged = self.offsets()
        for topic, number, offset in other.rows():
            partitions = merged.setdefault(topic, {})
            partitions[number] = max(offset, partitions.get(number, offset))
        return Position(merged)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Position) and self._offsets == other._offsets

    def __hash__(self) -> int:
        return hash(frozenset(self.rows()))

    def __repr__(self) -> str:
        return f"Position({self._offsets})"


class PositionBound:
    """The least position that a query accepts; below it the query raises `NotUpToBoundError`.

    A store can lack input that its database has read: a store in memory after an open, one that was
    discarded after an unclean stop, one that was added later, or one that was not opened while the
    database read more input. Such a store meets no bound that has an offset until
    `Database.restore_batch` has restored it.

    >>> PositionBound.at(Position({"orders": {0: 41}}))
    PositionBound.at(Position({'orders': {0: 41}}))
    """

    def __init__(self, position: Position | None) -> None:
        """Use `unbounded` or `at`."""
        self._position = position

    @staticmethod
    def unbounded() -> PositionBound:
        """Returns the bound that every state meets."""
        return PositionBound(None)

    @staticmethod
    def at(position: Position) -> PositionBound:
        """Returns the bound that a state meets if it has read all partitions up to `position`.

        Raises `TypeError` if `position` is not a `Position`.
        """
        _check_kind("position", position, Position)
        return PositionBound(position)

    def rows(self) -> list[tuple[str, int, int]] | None:
        """Returns (topic, partition, offset) rows; None if unbounded."""
        return None if self._position is None else self._position.rows()

    def __repr__(self) -> str:
        return (
            "PositionBound.unbounded()"
            if self._position is None
            else f"PositionBound.at({self._position!r})"
        )


def bound_rows(position_bound: PositionBound | None) -> list[tuple[str, int, int]] | None:
    """Returns the rows of a query's bound; None without one.

    Raises `TypeError` if it is not a `PositionBound`.
    """
    if position_bound is None:
        return None
    _check_kind("position_bound", position_bound, PositionBound)
    return position_bound.rows()


def _check_kind(argument: str, given: object, kind: type) -> None:
    if not isinstance(given, kind):
        raise TypeError(f"{argument} is a {type(given).__name__}; wanted: a {kind.__name__}")
