"""The epoch that several reads have in common, and whether a rewind has taken it back meanwhile."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

from holdfast.errors import StateMismatchError

_T = TypeVar("_T")


class _Rewinds(Protocol):
    """A reader that knows the rewinds of its root."""

    def newest_rewind_of(self, epoch: int) -> int: ...


@dataclass(frozen=True)
class PinnedEpoch:
    """A final epoch, as it was when a plan chose it.

    After a rewind a query computes new epochs with the same numbers. Tasks or tables that are read
    before and after it would return rows of two states.
    """

    number: int
    rewind: int
    """The run of the newest rewind that took the epoch back, 0 for none."""

    @staticmethod
    def of(reader: _Rewinds, number: int) -> "PinnedEpoch":
        """Returns the final epoch of this number as it is now."""
        return PinnedEpoch(number, reader.newest_rewind_of(number))

    def is_taken_back(self, reader: _Rewinds) -> bool:
        """Whether a rewind has taken the epoch back since."""
        return reader.newest_rewind_of(self.number) != self.rewind

    def check(self, reader: _Rewinds) -> None:
        """Checks that what was read at this number until now is of this epoch.

        Raises `StateMismatchError` if a rewind has taken it back since.
        """
        if self.is_taken_back(reader):
            raise StateMismatchError(
                f"epoch {self.number} was taken back by a rewind while it was read: read again, "
                "with a new DataFrame, DuckDB connection or start of the streaming query"
            )


def checked(batches: Iterable[_T], check: Callable[[], None]) -> Iterator[_T]:
    """Returns the batches; calls `check` after the first one and at the end.

    With a limit, a read may end before the last batch.
    """
    for number, batch in enumerate(batches):
        if number == 0:
            check()
        yield batch
    check()
