"""What happened in the epochs of a query, read from its root."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from holdfast import _core

COUNTED: Final = ("late", "dropped", "expired", "ahead")
"""The counts that a query's `observedMetrics` also has: rows that are not used or match nothing."""


@dataclass(frozen=True)
class OperatorProgress:
    """What an operator did in an epoch, over all its partitions."""

    partitions: int
    """Partitions that have staged their result."""
    input_rows: int
    output_rows: int
    matched: int
    """Rows of the result with both sides."""
    late: int
    """Rows that came too late: older than the retention or the grace allows. They are not used."""
    dropped: int
    """Rows without a key or a time. They are not used."""
    expired: int
    """Left rows of `join_asof` before the table's history: they match nothing, although an older
    version may have been valid."""
    ahead: int
    """Far-future rows, more than `max_ahead` past the micro-batch's time. They are in `ahead/`."""
    stream_times: Mapping[str, int]
    """The earliest stream time of each store over the partitions, in epoch microseconds."""

    @property
    def lost_rows(self) -> int:
        """Input rows that had no effect."""
        return self.late + self.dropped + self.ahead


@dataclass(frozen=True)
class EpochProgress:
    """What happened in an epoch."""

    epoch: int
    status: Literal["staged", "decided", "skipped"]
    """`staged`: no state host has read Spark's commit yet. `decided`: final. `skipped`: no operator
    ran, so the state does not have the epoch's rows."""
    run: int | None
    """The run that decided the epoch, or the newest one that has staged it; None if skipped."""
    operators: Mapping[str, OperatorProgress]


def read_progress(
    root: str, storage_options: Mapping[str, str], *, epoch: int | None = None, last: int = 1
) -> list[EpochProgress]:
    """Returns what happened in the newest `last` epochs, oldest first, or only in `epoch`.

    Raises as `_core.read_epochs`: `StateMismatchError` if the root does not exist,
    `FormatVersionError` or `RestoreError` for an object that cannot be read, `HoldfastError` for an
    error of the object store.
    """
    found = json.loads(_core.read_epochs(root, storage_options, epoch, last))
    return [_epoch_progress(one) for one in found]


def _epoch_progress(found: dict[str, Any]) -> EpochProgress:
    operators = {
        name: OperatorProgress(**operator) for name, operator in found.pop("operators").items()
    }
    return EpochProgress(**found, operators=operators)
