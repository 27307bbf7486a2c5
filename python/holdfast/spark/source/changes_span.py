"""The changes of one micro-batch: which epochs, and whether the table comes first."""

from dataclasses import dataclass
from typing import Any, Final

Offset = dict[str, Any]
"""The position of a stream, as Spark stores it.

It has `epoch`, the last epoch that was read: None before the first micro-batch, -1 if no epoch was
final when the stream began with `latest`. If there is an
epoch, the stream reader adds `rewind`, the run of the newest rewind that took the epoch back (0 for
none). The end of the first micro-batch also has `first` and `table`, the
fields `first` and `table_epoch` of `ChangesSpan`.
"""

BEGIN: Final[Offset] = {"epoch": None}
"""The offset before the first micro-batch.

It does not depend on the state: Spark asks for it again if it computes the first micro-batch again.
"""


@dataclass(frozen=True, kw_only=True)
class ChangesSpan:
    """The rows between two offsets."""

    first: int
    """The first epoch of the changes."""
    last: int
    """The last epoch of the changes; if it is before `first`, there are none."""
    table_epoch: int | None = None
    """The epoch of the table's rows that come before the changes; None if no such rows come."""

    @staticmethod
    def between(start: Offset, end: Offset) -> "ChangesSpan":
        """Returns the rows after one offset up to another.

        The end of a stream's first micro-batch has the epochs with which the stream began.
        """
        if start["epoch"] is not None:
            return ChangesSpan(first=start["epoch"] + 1, last=end["epoch"])
        return ChangesSpan(first=end["first"], last=end["epoch"], table_epoch=end["table"])

    @property
    def is_empty(self) -> bool:
        """Whether there are no rows."""
        return self.table_epoch is None and not self.has_changes

    @property
    def has_changes(self) -> bool:
        """Whether there are changes."""
        return self.first <= self.last

    def end(self) -> Offset:
        """Returns the offset after these rows, for a stream that begins with them."""
        return {"epoch": self.last, "first": self.first, "table": self.table_epoch}
