"""What stores return: plain named tuples."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

V = TypeVar("V")


class TopicPartition(NamedTuple):
    """A partition of a changelog or an input."""

    topic: str
    partition: int


class VersionedRecord(NamedTuple, Generic[V]):
    """A value that is in force in `[timestamp, valid_to)`; `valid_to` is None for the newest version of a key."""

    value: V
    timestamp: int
    valid_to: int | None


class PutResult(NamedTuple):
    """What became of a put at a time.

    `accepted` is False for a time older than the history retention: nothing was written. `valid_to` is the next
    greater timestamp known of the key, None if the new version is the newest.
    """

    accepted: bool
    valid_to: int | None
