"""What stores return: plain named tuples. Times in them are epoch microseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from holdfast._time import timestamp_micros

if TYPE_CHECKING:
    from holdfast._time import Timestamp

K = TypeVar("K")
V = TypeVar("V")


class TopicPartition(NamedTuple):
    """A partition of a changelog or an input."""

    topic: str
    partition: int


class ValueAndTimestamp(NamedTuple, Generic[V]):
    """A value and its timestamp in epoch microseconds, -1 where it was written without one.

    `make` and `make_allow_nullable` raise `TypeError` or `ValueError` for a timestamp that is none.
    """

    value: V | None
    timestamp: int

    @staticmethod
    def make(value: V | None, timestamp: Timestamp) -> ValueAndTimestamp[V] | None:
        """The pair; None for no value."""
        return (
            None
            if value is None
            else ValueAndTimestamp(value, timestamp_micros(timestamp, "timestamp"))
        )

    @staticmethod
    def make_allow_nullable(value: V | None, timestamp: Timestamp) -> ValueAndTimestamp[V]:
        """The pair, also for no value."""
        return ValueAndTimestamp(value, timestamp_micros(timestamp, "timestamp"))


class WindowedKey(NamedTuple, Generic[K]):
    """A key and a time that it lasted, in epoch microseconds: a window up to `end` and without it,
    or a session with it.
    """

    key: K
    start: int
    end: int


class VersionedRecord(NamedTuple, Generic[V]):
    """A value that is in force in `[timestamp, valid_to)`, in epoch microseconds.

    `valid_to` is None for the newest version of a key.
    """

    value: V
    timestamp: int
    valid_to: int | None


class PutResult(NamedTuple):
    """What became of a put at a time.

    `accepted` is False for a time older than the history retention: nothing was written. `valid_to`
    is the next greater timestamp known of the key, in epoch microseconds; None if the new version
    is the newest.
    """

    accepted: bool
    valid_to: int | None
