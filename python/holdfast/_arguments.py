"""Arguments of a wrong type, refused at the door: the error names the argument and says what is
wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import index
from typing import TYPE_CHECKING, Any

from holdfast._records import TopicPartition

if TYPE_CHECKING:
    from enum import Enum

_OFFSETS = "a mapping of (topic, partition) to offsets"


def check_choice(argument: str, given: object, choices: type[Enum]) -> None:
    """Raises `TypeError` for what is none of the choices."""
    if not isinstance(given, choices):
        wanted = ", ".join(f"{choices.__name__}.{name}" for name in choices.__members__)
        raise TypeError(f"{argument} is {given!r:.80}; wanted: one of {wanted}")


def check_kind(argument: str, given: object, kind: type) -> None:
    """Raises `TypeError` for what is not of a class."""
    if not isinstance(given, kind):
        raise TypeError(f"{argument} is a {type(given).__name__}; wanted: a {kind.__name__}")


def check_bits(argument: str, given: Any, bits: int) -> int:
    """An integer of so many bits, the sign among them. Raises `TypeError` for what is none,
    `ValueError` for a wider one.
    """
    try:
        number = index(given)
    except TypeError:
        raise TypeError(f"{argument} is {given!r:.80}; wanted: an integer") from None
    if number.bit_length() >= bits and number != -1 << (bits - 1):
        raise ValueError(f"{argument} is {number}, which does not fit {bits} bits")
    return number


def partition_of(given: Any) -> TopicPartition:
    """A (topic, partition)."""
    if not _is_partition(given):
        raise TypeError(f"partition is {given!r:.80}; wanted: (topic, partition)")
    topic, number = given
    return TopicPartition(topic, check_bits("partition", number, 32))


def offset_rows(
    offsets: Mapping[tuple[str, int], int | None] | None,
) -> list[tuple[str, int, int | None]] | None:
    """`changelog_offsets` as rows of topic, partition and offset; None stays None."""
    if offsets is None:
        return None
    if not isinstance(offsets, Mapping) or not all(
        _is_partition(partition) for partition in offsets
    ):
        raise TypeError(f"changelog_offsets is {offsets!r:.80}; wanted: {_OFFSETS}")
    rows: list[tuple[str, int, int | None]] = []
    for (topic, partition), offset in offsets.items():
        number = check_bits("a partition of changelog_offsets", partition, 32)
        rows.append(
            (
                topic,
                number,
                None
                if offset is None
                else check_bits("an offset of changelog_offsets", offset, 64),
            )
        )
    return rows


def option_rows(options: Mapping[str, str] | None) -> list[tuple[str, str]]:
    """`rocksdb_options` as rows of name and value."""
    if options is None:
        return []
    if not isinstance(options, Mapping) or not all(
        isinstance(text, str) for option in options.items() for text in option
    ):
        raise TypeError(
            f"rocksdb_options is {options!r:.80}; wanted: a mapping of names to values, both str"
        )
    return list(options.items())


def _is_partition(given: object) -> bool:
    return (
        isinstance(given, tuple)
        and len(given) == 2
        and isinstance(given[0], str)
        and isinstance(given[1], int)
    )
