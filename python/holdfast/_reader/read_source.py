"""The options of a read: which epoch it reads, and whether hosts or copies answer it."""

from typing import Literal, TypedDict

from holdfast._options import IsolationLevel

Offline = Literal["auto", "never", "only"]
"""When a reader makes copies of partitions: if no state host answers, never, or always."""


class ReadSource(TypedDict, total=False):
    """Options of every read.

    By default a read returns the newest final epoch in all its partitions. This is the epoch of the
    newest micro-batch that Spark has committed. The metadata of a result's Arrow schema has the
    epoch (`holdfast.epoch`), the level (`holdfast.isolation_level`), and `holdfast.behind`: after a
    read with `stale_ok`, the number of newer final epochs, otherwise 0.
    """

    epoch: int | None
    """Read exactly this epoch. The root must still hold its state."""
    at_least: int | None
    """Wait until this epoch is final, then read the newest one."""
    timeout: float
    """How many seconds to wait, by default 30."""
    offline: Offline | None
    """`"auto"`: state hosts answer; if none does, the reader makes copies of the partitions from
    snapshots and log. `"never"` makes no copies, and waits for a host. `"only"` does not ask hosts.
    By default the value that `connect` was given."""
    isolation_level: IsolationLevel | None
    """`READ_COMMITTED`: rows of the final epoch only. `READ_UNCOMMITTED`: also the next epoch's
    changes in each partition where the newest run has staged them; a later attempt may compute
    other rows. `READ_UNCOMMITTED` cannot be given with `epoch`. By default `READ_COMMITTED` with
    `epoch`, else the `default_isolation_level` of the query's `State`."""
    stale_ok: bool
    """If no host answers, read the copies that the reader already has, at the newest of their
    epochs. That epoch may be older than the newest final one."""
