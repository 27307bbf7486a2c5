"""The text files of older layouts: `.checkpoint` of a task, `.checkpoint_<store>` and `<store>.position` of a store.

0                               the format's version
2                               how many lines follow
rates-changelog 0 41            topic, partition, offset
rates-changelog 1 7
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast._records import TopicPartition
from holdfast.errors import StoreCorruptedError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_VERSION = "0"


def read(path: Path) -> dict[TopicPartition, int]:
    """The offsets in a file; negative ones, which stand for "not known", are left out.

    Raises `StoreCorruptedError` with the number of the line that is malformed; the file stays where it is.
    """
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()

    def malformed(number: int, wanted: str) -> StoreCorruptedError:
        line = lines[number - 1] if number <= len(lines) else "<end of file>"
        return StoreCorruptedError(
            f"line {number} is {line!r:.100}; wanted: {wanted}; mend the line, or delete the file to restore "
            f"from the changelog [path: {path}]"
        )

    if lines[:1] != [_VERSION]:
        raise malformed(1, f"{_VERSION}, the version of the format")
    if len(lines) < 2 or not lines[1].isdecimal():
        raise malformed(2, "the number of lines that follow")
    if len(lines) - 2 != int(lines[1]):
        raise malformed(2, f"{len(lines) - 2}, the number of lines that follow")
    offsets = {}
    for number, line in enumerate(lines[2:], 3):
        match line.split(" "):
            case [topic, partition, offset] if topic and _is_number(partition) and _is_number(offset):
                offsets[TopicPartition(topic, int(partition))] = int(offset)
            case _:
                raise malformed(number, "topic, partition and offset with one space between them")
    return {partition: offset for partition, offset in offsets.items() if offset >= 0}


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def write(path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    """Writes the offsets, all or nothing, on disk when it returns; also none: the file says that a close was clean."""
    lines = [_VERSION, str(len(offsets))]
    lines += [f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())]
    new = path.with_name(path.name + ".tmp")
    with new.open("w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
