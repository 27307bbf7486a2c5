"""The text files of older layouts that hold offsets: here `.checkpoint_<store>` of a store of the
user's own.

0                               the format's version
2                               how many lines follow
rates-changelog 0 41            topic, partition, offset
rates-changelog 1 7
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast import _core
from holdfast._records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def read(path: Path) -> dict[TopicPartition, int] | None:
    """The offsets in a file, None if there is no file; negative ones, which stand for "not known",
    are left out.

    Raises `StoreCorruptedError` with the number of the line that is malformed; the file stays where
    it is.
    """
    offsets = _core.read_offsets(path)
    return (
        None
        if offsets is None
        else {TopicPartition(topic, number): offset for topic, number, offset in offsets}
    )


def remove(path: Path) -> None:
    """Removes the file, for good when it returns: after a power loss it must not be there again,
    with offsets of before.
    """
    _core.remove_offsets(path)


def write(path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    """Writes the offsets, all or nothing, on disk when it returns; also none: the file says that a
    close was clean.
    """
    _core.write_offsets(
        path, [(topic, number, offset) for (topic, number), offset in offsets.items()]
    )
