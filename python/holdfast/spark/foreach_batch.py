"""The epoch inside `foreachBatch`, also under Spark Connect."""

import logging
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast._core import check_evaluated
from holdfast._progress import read_progress
from holdfast.errors import HoldfastError
from holdfast.spark.batch_sessions import BatchSessions
from holdfast.spark.connect_batch import ConnectBatch, RunningQueries, query_of
from holdfast.spark.epoch import (
    BATCH_ID,
    DESCRIPTION,
    JOB_GROUP,
    QUERY_ID,
    RESET_ADVICE,
    SETTING,
    Epoch,
    run_id_in,
)
from holdfast.spark.spark_session import ADAPTIVE, is_adaptive, is_connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession


class _CalledOperators(NamedTuple):
    """The operators of one root that a function has called in a micro-batch."""

    epoch: int
    storage_options: "Mapping[str, str]"
    partitions: int
    names: list[str]

    def check_evaluated(self, root: str) -> None:
        """Raises `StateMismatchError` if a partition has not staged its result.

        Without this error, Spark would commit the epoch, and the state would lack the rows of that
        partition.
        """
        check_evaluated(root, self.storage_options, self.epoch, self.names, self.partitions)


@dataclass
class _Batch:
    """The micro-batch in which a wrapped function runs."""

    of: Epoch | ConnectBatch
    called: dict[str, _CalledOperators] = field(default_factory=dict)
    """The operators that the function has called, by root."""

    def epoch(self, checkpoint: str) -> Epoch:
        """Returns the epoch for an operator of the query that has this checkpoint."""
        return self.of.epoch(checkpoint) if isinstance(self.of, ConnectBatch) else self.of


_current: ContextVar[_Batch | None] = ContextVar("holdfast_batch", default=None)
_batches: Final[dict[Epoch, _Batch]] = {}
"""The running micro-batches. A thread that a function starts finds its micro-batch here."""
_log: Final = logging.getLogger(__name__)

_MOST_SKIPPED: Final = 100
"""The maximum number of skipped epochs that are read before an epoch."""


def note_operators(
    epoch: Epoch,
    root: str,
    *,
    storage_options: "Mapping[str, str]",
    partitions: int,
    names: "Sequence[str]",
) -> None:
    """Records that these operators were called in a micro-batch.

    When the function returns, the wrapper checks that adaptive execution is off and that their
    results were evaluated, and warns about unused rows.
    """
    batch = _current.get() or _batches.get(epoch)
    if batch is not None:
        empty = _CalledOperators(epoch.number, storage_options, partitions, [])
        batch.called.setdefault(root, empty).names.extend(names)


def current_epoch(spark: "SparkSession", checkpoint: str) -> Epoch | None:
    """Returns the epoch of the `hfs.foreach_batch` or `foreachBatch` function around this call.

    Returns None if there is no such function. `checkpoint` is the location of the query's
    checkpoint. It identifies the query among those of the session.
    """
    batch = _current.get()
    if batch is not None:
        return batch.epoch(checkpoint)
    # A thread that the function has started may have a job group of its own, so the setting is
    # read before the properties.
    epoch = _epoch_of_session(spark, checkpoint)
    if epoch is not None or is_connect(spark):
        return epoch
    epoch = Epoch.of_properties(spark.sparkContext.getLocalProperty)
    if epoch is None:
        return None
    run_id = _run_id(spark, epoch.query_id)
    if epoch.run_id != run_id:
        raise HoldfastError(
            f"the job group {epoch.run_id} is not the run id {run_id} of query "
            f"{epoch.query_id}: {RESET_ADVICE}"
        )
    return epoch._replace(planned_at=_planned_at(spark, epoch.query_id))


def foreach_batch(fn: "Callable[[DataFrame, int], Any]") -> "Callable[[DataFrame, int], Any]":
    """Wraps a function for `writeStream.foreachBatch`, so that operators get their epoch.

    These are the operators that `fn` calls, and those that produced the frame that `fn` gets. The
    batch id and the run id are read before `fn` runs, so `fn` may set job groups and start jobs
    from other threads. These threads must end before `fn` returns. They must evaluate frames in the
    session of the frame that `fn` gets (`frame.join(other)`, not `other.join(frame)`). In an
    epoch, call at most one operator of each name. `fn` may evaluate an operator's result more than
    once.

    Under Spark Connect, `fn` is pickled when the query starts and runs in a process beside the
    server. Holdfast must be installed there. If `fn` changes a variable, the variable of the client
    does not change.

    Raises `TypeError` if `fn` cannot be called. The returned function raises `HoldfastError` if no
    streaming query calls it, or if `fn` has called an operator and adaptive execution is on when
    `fn` returns. It raises `StateMismatchError` if `fn` has called an operator and not evaluated
    its whole result.
    """
    if not callable(fn):
        raise TypeError(
            f"foreach_batch takes a function of a DataFrame and a batch id, not {type(fn).__name__}"
        )
    return _ForeachBatch(fn)


class _ForeachBatch:
    """A function of `foreachBatch` that runs with its epoch set.

    It is a class, so that Spark Connect can pickle it by name.
    """

    def __init__(
        self, fn: "Callable[[DataFrame, int], Any]", starter: "SparkSession | None" = None
    ) -> None:
        self._fn: Final = fn
        self._starter: Final = starter
        self._queries: Final = RunningQueries()
        self._sessions: Final = BatchSessions()
        self._evaluated: Final[dict[str, int]] = {}
        """The last epoch in which the function has called operators of a root."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self._fn,)

    def __call__(self, frame: "DataFrame", batch_id: int) -> Any:
        spark = frame.sparkSession
        if is_connect(spark):
            batch = self._queries.batch(self._starter or spark, frame, batch_id)
            return self._call(batch, batch.known, frame)
        context = spark.sparkContext
        query_id, number = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        if query_id is None or number != str(batch_id):
            raise HoldfastError(
                f"hfs.foreach_batch was called with batch {batch_id}, but no streaming query is "
                "running it: pass the wrapped function to writeStream.foreachBatch"
            )
        # The job group is not read: user code that calls this wrapper may have set another one.
        run_id = _run_id(spark, query_id)
        epoch = Epoch(query_id, run_id, batch_id, _planned_at(spark, query_id))
        try:
            return self._call(epoch, epoch, self._sessions.frame(frame, query_id, run_id))
        finally:
            # Spark stops a query by its job group, and sets the group only once per run.
            context.setLocalProperty(JOB_GROUP, run_id)

    def _call(self, of: Epoch | ConnectBatch, epoch: Epoch | None, frame: "DataFrame") -> Any:
        batch, spark = _Batch(of), frame.sparkSession
        token = _current.set(batch)
        if epoch is not None:
            _batches[epoch] = batch
        try:
            with _epoch_set(spark, epoch):
                result = self._fn(frame, of.number)
                if batch.called and is_adaptive(spark):
                    # Without this error, Spark would commit the epoch. If adaptive execution had
                    # dropped the operator's tasks, the next epoch could not open.
                    raise HoldfastError(
                        f"{ADAPTIVE} was switched on after an operator was called in epoch "
                        f"{of.number}, and could have dropped the operator's tasks: set it to "
                        '"false" before the function returns'
                    )
                for root, called in batch.called.items():
                    called.check_evaluated(root)
                    last = self._evaluated.get(root)
                    self._evaluated[root] = of.number
                    _warn_of_skipped_epochs(root, called.storage_options, of.number, last)
                    _warn_of_unused_rows(root, called.storage_options, of.number)
                return result
        finally:
            if epoch is not None:
                _batches.pop(epoch, None)
            _current.reset(token)


def _warn_of_skipped_epochs(
    root: str, storage_options: "Mapping[str, str]", epoch: int, last: int | None
) -> None:
    """Logs a warning for each epoch just before `epoch` in which no operator ran.

    They are decided when the operators' tasks of `epoch` run, so no later epoch warns of them
    again. `last` is the last epoch in which operators were called, if it is known. At most
    `_MOST_SKIPPED` epochs are read: a function may return early in most micro-batches.
    """
    known = -1 if last is None or last >= epoch else last
    first = max(known + 1, epoch - _MOST_SKIPPED)
    skipped: list[int] = []
    for before in range(epoch - 1, first - 1, -1):
        try:
            found = read_progress(root, storage_options, epoch=before)
        except HoldfastError as error:
            _log.warning("epoch %d of %s: its status cannot be read: %s", before, root, error)
            break
        if not found or found[0].status != "skipped":
            break
        skipped.append(before)
    else:
        if first > known + 1:
            _log.warning(
                "%s: no operator ran in the %d epochs before epoch %d; there may be more such "
                "epochs before epoch %d, which are not read (State.progress reads one)",
                root,
                _MOST_SKIPPED,
                epoch,
                first,
            )
    for before in reversed(skipped):
        _log.warning(
            "%s: no operator ran in epoch %d, so the state does not have its rows (did the "
            "function return early?)",
            root,
            before,
        )


def _warn_of_unused_rows(root: str, storage_options: "Mapping[str, str]", epoch: int) -> None:
    """Logs a warning for each operator that did not use some rows, or found no history for them.

    Spark reports observed metrics of the streaming plan only, not of jobs inside `foreachBatch`.
    """
    try:
        found = read_progress(root, storage_options, epoch=epoch)
    except HoldfastError as error:
        _log.warning("epoch %d of %s: the row counts cannot be read: %s", epoch, root, error)
        return
    for progress in found:
        for name, operator in progress.operators.items():
            if operator.lost_rows or operator.expired:
                _log.warning(
                    "operator %s, epoch %d: %d rows came too late, %d had no key or no time, %d "
                    "are far-future rows, %d were before the history",
                    name,
                    epoch,
                    operator.late,
                    operator.dropped,
                    operator.ahead,
                    operator.expired,
                )


def _unpickled(fn: "Callable[[DataFrame, int], Any]") -> _ForeachBatch:
    """Returns the wrapper in Spark Connect's process for `foreachBatch`.

    While Spark Connect unpickles the function, the active session is the one that started the
    query. Since Spark 4.3 the frames have a clone of it, which lists no queries.
    """
    from pyspark.sql import SparkSession

    return _ForeachBatch(fn, SparkSession.getActiveSession())


@contextmanager
def _epoch_set(spark: "SparkSession", epoch: Epoch | None) -> "Iterator[None]":
    """Sets the epoch in a session, for the tasks of all jobs that are started there."""
    if epoch is None:
        yield
        return
    spark.conf.set(epoch.setting, epoch.setting_value)
    try:
        yield
    finally:
        spark.conf.unset(epoch.setting)


def _epoch_of_session(spark: "SparkSession", checkpoint: str) -> Epoch | None:
    """Returns the epoch that is set in a session, for the query that has this checkpoint.

    The setting is ignored unless its micro-batch runs in this process: a process that is killed
    does not remove its setting.
    """
    settings: dict[str, str] = spark.conf.getAll
    if not any(name.startswith(SETTING) for name in settings):
        return None
    epoch = Epoch.of_settings(settings.get, query_of(spark, checkpoint))
    return epoch if epoch in _batches else None


def _run_id(spark: "SparkSession", query_id: str) -> str:
    """Returns the run id of the query whose micro-batch runs in this thread.

    It does not read the job group. Spark writes the run id into the job description at the start of
    each micro-batch. If user code has set another description, the run id is found in the list of
    all sessions' running queries. `spark.streams.active` lists only the queries of one session, and
    a micro-batch has a session of its own.
    """
    described = run_id_in(spark.sparkContext.getLocalProperty(DESCRIPTION))
    if described is not None:
        return described
    return str(_running_query(spark, query_id).runId().toString())


def _planned_at(spark: "SparkSession", query_id: str) -> int:
    """Returns the timestamp of the query's last planned micro-batch, in milliseconds."""
    execution = _running_query(spark, query_id).lastExecution()
    return int(execution.offsetSeqMetadata().batchTimestampMs())


def _running_query(spark: "SparkSession", query_id: str) -> Any:
    running: Any = spark._jsparkSession.sharedState().activeStreamingQueries()
    for query in running.values():  # py4j shows the Java map as a dict
        if query.id().toString() == query_id:
            return query
    raise HoldfastError(f"streaming query {query_id} is not running any more")
