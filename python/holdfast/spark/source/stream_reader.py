"""Follows the changes of a table as a stream.

An offset has the last epoch that was read. It also has the run of the newest rewind that had taken
back an epoch of this number when the offset was made, or 0 if there was none.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from holdfast import _core
from holdfast._reader.pinned_epoch import PinnedEpoch
from holdfast.errors import StateMismatchError
from holdfast.spark.source.changes_reader import TableChanges
from holdfast.spark.source.changes_span import BEGIN, ChangesSpan, Offset

if TYPE_CHECKING:
    import pyarrow

_limits: Any
try:
    from pyspark.sql.streaming import datasource as _limits
except ImportError:
    # PySpark 4.0 and 4.1 have no limits for sources: they ask for the newest offset only.
    _limits = None
_AvailableNow: Any = object if _limits is None else _limits.SupportsTriggerAvailableNow

_NOTHING: Final = -1
"""The epoch before all epochs. If no epoch was final at the start, it is the target of a query with
the trigger `availableNow`, and the first offset of a stream that begins with `latest`."""


class ChangesStreamReader(DataSourceStreamReader, _AvailableNow):  # type: ignore[misc]
    """Reads final epochs, each once.

    The rows of a micro-batch depend on its two offsets only, so a repeated one has the same rows. A
    stream with a name (option `follower`) records in the root which epoch it needs next; hosts
    retain the log from there on.
    """

    def __init__(self, changes: TableChanges) -> None:
        self._changes: Final = changes
        self._start: Offset | None = None
        self._target: int | None = None
        self._recorded: int | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Returns the offset before all rows."""
        self._start = BEGIN
        return BEGIN

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """Returns the limit of epochs, as a number of files: Spark has no other name for it."""
        limit = self._changes.options.max_epochs
        return _limits.ReadAllAvailable() if limit is None else _limits.ReadMaxFiles(limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Records the newest epoch, with which the query ends."""
        newest = self._changes.reader.epoch
        self._target = _NOTHING if newest is None else newest

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """Returns the newest offset, for the query's progress."""
        newest = self._changes.reader.epoch
        return None if newest is None else {"epoch": newest}

    def latestOffset(self, start: Offset | None = None, limit: Any = None) -> Offset:  # noqa: N802
        """Returns the end of the next micro-batch; `start` if there is nothing new.

        Raises `StateMismatchError` if epochs that were read have been taken back, `HoldfastError`
        if the next epoch of a named stream cannot be recorded.
        """
        start = start or self._start
        newest = self._changes.reader.epoch
        if newest is None or self._target == _NOTHING:
            is_begin = start is None or start["epoch"] is None
            if is_begin and self._changes.options.starting_epoch == "latest":
                # The stream has read nothing up to here: all later epochs are new.
                return self._with_rewind(ChangesSpan(first=0, last=_NOTHING).end())
            return start or BEGIN
        self._check_taken_back(start, newest)
        if start is not None and start["epoch"] is not None:
            # Spark has committed the micro-batch that ends there.
            self._record(start["epoch"] + 1)
        if self._target is not None:
            newest = min(newest, self._target)
        most = self._changes.options.max_epochs
        if _limits is not None and isinstance(limit, _limits.ReadAllAvailable):
            most = None
        if start is None:
            # PySpark 4.0 and 4.1 pass no start. After a restart, this micro-batch may be the first
            # one or a later one: the offset fits both.
            return self._with_rewind(self._begin(newest, None))
        if start["epoch"] is None:
            return self._with_rewind(self._begin(newest, most))
        if newest <= start["epoch"]:
            return start
        return self._with_rewind(_limited(start["epoch"] + 1, newest, most))

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Returns a task for each partition of the state; none if there are no rows.

        Raises `ChangesLostError` if the log no longer has the first epoch, `StateMismatchError` if
        epochs that were read have been taken back, `HoldfastError` if the next epoch of a named
        stream cannot be recorded.
        """
        self._start = end
        if start == end:
            return []
        # PySpark 4.0 and 4.1 name the start only here.
        self._check_taken_back(start, end["epoch"])
        self._check_taken_back(end, end["epoch"])
        span = ChangesSpan.between(start, end)
        self._record(span.first)
        return self._changes.partitions(span, PinnedEpoch(end["epoch"], end["rewind"]))

    def _with_rewind(self, offset: Offset) -> Offset:
        """Returns an offset with the newest rewind that took its epoch back, 0 for none."""
        epoch = offset["epoch"]
        if epoch is None:
            return offset
        return {**offset, "rewind": self._changes.reader.newest_rewind_of(epoch)}

    def _check_taken_back(self, offset: Offset | None, newest: int | None) -> None:
        """Checks that the epoch of an offset is there, and was not taken back since."""
        epoch = None if offset is None else offset["epoch"]
        if offset is None or epoch is None:
            return
        if PinnedEpoch(epoch, offset["rewind"]).is_taken_back(self._changes.reader):
            wrong = "it was taken back since. Start with another checkpoint"
        elif newest is None or newest < epoch:
            # After a loss of power Spark may lack the commit of an epoch that was read. The query
            # computes the epoch again, with the same rows.
            wrong = (
                f"the newest final epoch is {newest}. After a loss of power, start the query of "
                "the state first: it computes the epoch again. If its root was restored from a "
                "backup, start this stream with another checkpoint"
            )
        else:
            return
        raise StateMismatchError(
            f"{self._changes.options.root}: epoch {epoch} is in the stream's checkpoint, and "
            f"{wrong}"
        )

    def _record(self, epoch: int) -> None:
        """Records the first epoch that the stream still needs, if it has a name."""
        options = self._changes.options
        if options.follower is None or epoch == self._recorded:
            return
        _core.put_follower(options.root, options.storage_options, options.follower, epoch)
        self._recorded = epoch

    def read(self, partition: InputPartition) -> "Iterator[pyarrow.RecordBatch]":
        """Reads the rows of a task."""
        return self._changes.read(partition)

    def _begin(self, newest: int, most: int | None) -> Offset:
        """Returns the end of the first micro-batch."""
        where = self._changes.options.starting_epoch or "snapshot"
        if where == "snapshot":
            return ChangesSpan(first=newest + 1, last=newest, table_epoch=newest).end()
        if where == "latest":
            return ChangesSpan(first=newest + 1, last=newest).end()
        first = self._changes.options.first_epoch
        if first is None:
            first = self._changes.table.oldest_changes()
        if first is None or first > newest:
            return BEGIN
        last = _limited(first, newest, most)["epoch"]
        return ChangesSpan(first=first, last=last).end()


def _limited(first: int, newest: int, most: int | None) -> Offset:
    """Returns the offset of the newest epoch, or of the last of `most` epochs from `first`."""
    return {"epoch": newest if most is None else min(newest, first + most - 1)}
