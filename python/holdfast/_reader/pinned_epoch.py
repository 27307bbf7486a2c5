"""The epoch that several tasks read, and whether a rewind has taken it back meanwhile."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.errors import StateMismatchError

if TYPE_CHECKING:
    from holdfast._reader.state_reader import StateReader


@dataclass(frozen=True)
class PinnedEpoch:
    """A final epoch, as it was when a plan chose it.

    After a rewind a query computes new epochs with the same numbers. Tasks that read before and
    after it would return rows of two states.
    """

    number: int
    rewind: int
    """The run of the newest rewind that took the epoch back, 0 for none."""

    @staticmethod
    def of(reader: "StateReader", number: int) -> "PinnedEpoch":
        """Returns the final epoch of this number as it is now."""
        return PinnedEpoch(number, reader.newest_rewind_of(number))

    def is_taken_back(self, reader: "StateReader") -> bool:
        """Whether a rewind has taken the epoch back since."""
        return reader.newest_rewind_of(self.number) != self.rewind

    def check(self, reader: "StateReader") -> None:
        """Checks that what was read at this number until now is of this epoch.

        Raises `StateMismatchError` if a rewind has taken it back since.
        """
        if self.is_taken_back(reader):
            raise StateMismatchError(
                f"epoch {self.number} was taken back by a rewind while it was read: create the "
                "DataFrame again, or start the streaming query again"
            )
