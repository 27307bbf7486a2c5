"""Which state a read is of, and who answers it."""

from typing import Literal, TypedDict

from holdfast._options import IsolationLevel

Offline = Literal["auto", "never", "only"]
"""Whether a reader makes copies of partitions: if no state host answers, never, or always."""


class ReadSource(TypedDict, total=False):
    """Options of every read.

    By default a read is of the newest final epoch, that of the newest micro-batch that Spark has
    committed, in all partitions that it touches. The metadata of a result's Arrow schema says what
    it is of: `holdfast.epoch`, `holdfast.isolation_level`, and `holdfast.behind`, the number of
    newer final epochs.
    """

    epoch: int | None
    """Read exactly this epoch: the root must still hold what its state is made of."""
    at_least: int | None
    """Wait until this epoch is final, then read the newest one."""
    timeout: float
    """How many seconds to wait, by default 30."""
    offline: Offline | None
    """`"auto"`: state hosts answer; if none does, the reader makes copies of the partitions from
    snapshots and log. `"never"` makes no copies, and waits for a host. `"only"` does not ask hosts.
    By default what `connect` was given."""
    isolation_level: IsolationLevel | None
    """`READ_COMMITTED`: rows of the final epoch only. `READ_UNCOMMITTED`: also what the newest run
    has staged of the next epoch, in those partitions where it has; a later attempt may compute
    other rows. By default what the query's `State` was given, which is `READ_COMMITTED` if it was
    given none."""
    stale_ok: bool
    """If no host answers, the copies that the reader has already are read at the newest of their
    epochs, which may be an older one than the newest final epoch."""
