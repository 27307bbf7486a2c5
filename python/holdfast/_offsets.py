"""Topics, partitions and offsets, and the checks of those that callers pass in."""

from __future__ import annotations

from collections.abc import Mapping
from operator import index
from typing import Any, NamedTuple


class TopicPartition(NamedTuple):
    """A partition of a changelog or of an input topic."""

    topic: str
    partition: int


def check_bits(argument: str, given: Any, bits: int) -> int:
    """Returns the integer if it fits a signed integer of `bits` bits.

    Raises `TypeError` for what is not an integer, `ValueError` for one that does not fit.
    """
    try:
        number = index(given)
    except TypeError:
        raise TypeError(f"{argument} is {given!r:.80}; wanted: an integer") from None
    if number.bit_length() >= bits and number != -1 << (bits - 1):
        raise ValueError(f"{argument} is {number}, which does not fit {bits} bits")
    return number


def topic_partition(given: Any) -> TopicPartition:
    """Returns a checked (topic, partition). Raises as `check_bits` does."""
    if not _is_topic_partition(given):
        raise TypeError(f"partition is {given!r:.80}; wanted: (topic, partition)")
    topic, number = given
    return TopicPartition(topic, check_bits("partition", number, 32))


def offset_rows(
    offsets: Mapping[tuple[str, int], int | None] | None,
) -> list[tuple[str, int, int | None]] | None:
    """Returns `changelog_offsets` as (topic, partition, offset) rows; None stays None.

    Raises as `check_bits` does.
    """
    if offsets is None:
        return None
    if not isinstance(offsets, Mapping) or not all(map(_is_topic_partition, offsets)):
        raise TypeError(
            f"changelog_offsets is {offsets!r:.80}; wanted: a mapping of (topic, partition) to "
            "offsets"
        )
    rows: list[tuple[str, int, int | None]] = []
    for (topic, partition), offset in offsets.items():
        number = check_bits("a partition of changelog_offsets", partition, 32)
        if offset is not None:
            offset = check_bits("an offset of changelog_offsets", offset, 64)  # noqa: PLW2901
        rows.append((topic, number, offset))
    return rows


def _is_topic_partition(given: object) -> bool:
    return (
        isinstance(given, tuple)
        and len(given) == 2
        and isinstance(given[0], str)
        and isinstance(given[1], int)
    )
