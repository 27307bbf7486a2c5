"""Input positions: how far the input had been read when a state was written, and bounds that
queries ask for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from holdfast._arguments import check_bits, check_kind

if TYPE_CHECKING:
    from collections.abc import Iterable


class Position:
    """For each input topic and partition the greatest offset whose writes a state holds.

    Raises `TypeError` for offsets that are no mapping of mappings of integers, `ValueError` for a
    partition beyond 32 bits or an offset beyond 64.

    >>> seen = Position({"orders": {0: 41}})
    >>> seen.merge(Position({"orders": {0: 40, 1: 7}}))
    Position({'orders': {0: 41, 1: 7}})
    """

    def __init__(self, offsets: Mapping[str, Mapping[int, int]] | None = None) -> None:
        """Offsets by topic and partition; nothing is the position of an empty state."""
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
        """The position of (topic, partition, offset) rows."""
        position = cls()
        for topic, partition, offset in rows:
            position._offsets.setdefault(topic, {})[partition] = offset
        return position

    def rows(self) -> list[tuple[str, int, int]]:
        """The same as (topic, partition, offset) rows."""
        return [
            (topic, number, offset)
            for topic, numbers in self._offsets.items()
            for number, offset in numbers.items()
        ]

    def offsets(self) -> dict[str, dict[int, int]]:
        """The offsets by topic and partition."""
        return {topic: dict(partitions) for topic, partitions in self._offsets.items()}

    def merge(self, other: Position) -> Position:
        """The position that has seen what both have seen: of each partition the greater offset.

        Raises `TypeError` for what is no `Position`.
        """
        check_kind("other", other, Position)
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
    """What a query's state must have read at least; else the query raises `NotUpToBoundError`.

    A store that began empty beside what the database had read (it is in memory, was discarded after
    an unclean stop, or was added later), or that was left out of an open in which the database read
    on, meets no bound until `Database.restore_batch` has restored it.
    """

    def __init__(self, position: Position | None) -> None:
        """Use `unbounded` or `at`."""
        self._position = position

    @staticmethod
    def unbounded() -> PositionBound:
        """Any state will do."""
        return PositionBound(None)

    @staticmethod
    def at(position: Position) -> PositionBound:
        """The state has read at least as far, in every partition that `position` names.

        Raises `TypeError` for what is no `Position`.
        """
        check_kind("position", position, Position)
        return PositionBound(position)

    def rows(self) -> list[tuple[str, int, int]] | None:
        """(topic, partition, offset) rows, None for no bound."""
        return None if self._position is None else self._position.rows()

    def __repr__(self) -> str:
        return (
            "PositionBound.unbounded()"
            if self._position is None
            else f"PositionBound.at({self._position!r})"
        )
