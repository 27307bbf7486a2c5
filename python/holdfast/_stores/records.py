"""The named tuples that stores return. Times in them are epoch microseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from holdfast._time import timestamp_micros

if TYPE_CHECKING:
    from holdfast._time import Timestamp

K = TypeVar("K")
V = TypeVar("V")


class ValueAndTimestamp(NamedTuple, Generic[V]):
    """A value and its timestamp in epoch microseconds; -1 if it was written without one.

    `make` and `make_allow_nullable` raise `TypeError` or `ValueError` for an invalid timestamp.
    """

    value: V | None
    timestamp: int

    @staticmethod
    def make(value: V | None, timestamp: Timestamp) -> ValueAndTimestamp[V] | None:
        """Returns the pair; None if there is no value."""
        if value is None:
            return None
        return ValueAndTimestamp(value, timestamp_micros(timestamp, "timestamp"))

    @staticmethod
    def make_allow_nullable(value: V | None, timestamp: Timestamp) -> ValueAndTimestamp[V]:
        """Returns the pair, even if the value is None."""
        return ValueAndTimestamp(value, timestamp_micros(timestamp, "timestamp"))


class WindowedKey(NamedTuple, Generic[K]):
    """A key with the start and end of its window or session, in epoch microseconds.

    The end of a window is excluded, the end of a session is included.
    """

    key: K
    start: int
    end: int


class VersionedRecord(NamedTuple, Generic[V]):
    """A value that is valid in `[timestamp, valid_to)`, in epoch microseconds.

    `valid_to` is None for the newest version of a key.
    """

    value: V
    timestamp: int
    valid_to: int | None


class PutResult(NamedTuple):
    """The outcome of a put into a versioned store.

    `accepted` is False if the timestamp is older than the history retention: nothing was written.
    `valid_to` is the timestamp of the key's next version, in epoch microseconds; None if the new
    version is the newest, or if nothing was written.
    """

    accepted: bool
    valid_to: int | None
