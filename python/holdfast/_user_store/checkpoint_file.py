"""The file `.checkpoint_<store>` with the offsets of a user store.

Its format is that of Kafka Streams' checkpoint files:

0                               format version
2                               number of lines below
rates-changelog 0 41            topic, partition, offset
rates-changelog 1 7
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast import _core
from holdfast._offsets import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def read(path: Path) -> dict[TopicPartition, int] | None:
    """Returns the offsets in a file, None if there is no file.

    Negative offsets, which stand for "not known", are left out. A malformed line raises
    `StoreCorruptedError` with its number; the file stays as it is.
    """
    offsets = _core.read_offsets(path)
    return (
        None
        if offsets is None
        else {TopicPartition(topic, number): offset for topic, number, offset in offsets}
    )


def remove(path: Path) -> None:
    """Removes the file durably: a power loss does not bring it back with older offsets."""
    _core.remove_offsets(path)


def write(path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    """Writes the offsets atomically and durably.

    The file is written even without offsets, since its presence means that the stop was clean.
    """
    _core.write_offsets(
        path, [(topic, number, offset) for (topic, number), offset in offsets.items()]
    )
