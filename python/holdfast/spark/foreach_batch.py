"""The epoch inside `foreachBatch`, also under Spark Connect."""

import json
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.errors import HoldfastError
from holdfast.spark.epoch import (
    BATCH_ID,
    DESCRIPTION,
    JOB_GROUP,
    QUERY_ID,
    RESET_ADVICE,
    Epoch,
    run_id_in,
)
from holdfast.spark.spark_session import is_connect

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession


class _ConnectBatch(NamedTuple):
    """A micro-batch under Spark Connect, where the query of a micro-batch is not known."""

    session: "SparkSession"
    running: dict[str, str]
    """The run ids of the session's queries, by query id."""
    number: int

    def epoch(self, checkpoint: str) -> Epoch:
        """Returns the epoch of the query that has this checkpoint.

        Raises `HoldfastError` if the session does not run that query.
        """
        query = next(iter(self.running)) if len(self.running) == 1 else self._query_of(checkpoint)
        if query not in self.running:
            raise HoldfastError(
                f"{checkpoint} is the checkpoint of query {query}, which this session does not "
                'run: start the query with .option("checkpointLocation", state.checkpoint_location)'
            )
        return Epoch(query, self.running[query], self.number)

    def _query_of(self, checkpoint: str) -> str:
        # Spark can read the file in any file system, and never rewrites it.
        lines = self.session.read.text(f"{checkpoint}/metadata").collect()
        return str(json.loads("".join(line[0] for line in lines))["id"])


_current: ContextVar[Epoch | _ConnectBatch | None] = ContextVar("holdfast_epoch", default=None)


def current_epoch(spark: "SparkSession", checkpoint: str) -> Epoch | None:
    """Returns the epoch around this call: of `hfs.foreach_batch`, or of Spark's `foreachBatch`.

    `checkpoint` is the location of the query's checkpoint: under Spark Connect it
    identifies the query among those of the session.
    """
    captured = _current.get()
    if isinstance(captured, _ConnectBatch):
        return captured.epoch(checkpoint)
    if captured is not None or is_connect(spark):
        return captured
    epoch = Epoch.of_properties(spark.sparkContext.getLocalProperty)
    if epoch is not None and epoch.run_id != (run_id := _run_id(spark, epoch.query_id)):
        raise HoldfastError(
            f"the job group {epoch.run_id} is not the run id {run_id} of query {epoch.query_id}: "
            f"{RESET_ADVICE}"
        )
    return epoch


def foreach_batch(fn: "Callable[[DataFrame, int], Any]") -> "Callable[[DataFrame, int], Any]":
    """Wraps a function for `writeStream.foreachBatch`, so that operators inside know their epoch.

    The batch id and the run id are read before `fn` runs, so `fn` may set job groups and start jobs
    from other threads. Call an operator in the thread that `fn` runs in, once per epoch for each
    name. Its result may be evaluated anywhere, and more than once.

    Under Spark Connect, `fn` is pickled when the query starts and runs in a process beside the
    server: what it changes there is not visible here, and holdfast must be installed there.

    Raises `TypeError` if `fn` cannot be called. The returned function raises `HoldfastError` if it
    is not called by a streaming query.
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
        self._running: dict[str, str] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self._fn,)

    def __call__(self, frame: "DataFrame", batch_id: int) -> Any:
        spark = frame.sparkSession
        if is_connect(spark):
            return self._call(self._connect_batch(frame, batch_id), frame)
        context = spark.sparkContext
        query_id, number = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        if query_id is None or number != str(batch_id):
            raise HoldfastError(
                f"hfs.foreach_batch was called with batch {batch_id}, but no streaming query is "
                "running it: hand it to writeStream.foreachBatch"
            )
        # The job group is not read: `fn` may have set another one in an earlier micro-batch.
        run_id = _run_id(spark, query_id)
        try:
            return self._call(Epoch(query_id, run_id, batch_id), frame)
        finally:
            # Spark stops a query by its job group, and sets it once per run.
            context.setLocalProperty(JOB_GROUP, run_id)

    def _call(self, epoch: Epoch | _ConnectBatch, frame: "DataFrame") -> Any:
        token = _current.set(epoch)
        try:
            return self._fn(frame, epoch.number)
        finally:
            _current.reset(token)

    def _connect_batch(self, frame: "DataFrame", batch_id: int) -> _ConnectBatch:
        session = self._starter or frame.sparkSession
        # Listed once per process, and so once per run: a process that outlives its query must not
        # use the next run's id.
        if not self._running:
            self._running = {str(query.id): str(query.runId) for query in session.streams.active}
            # The server knows the frame only while its micro-batch runs, so this fails if the list
            # is of a later run.
            _ = frame.schema
        if not self._running:
            raise HoldfastError(
                f"hfs.foreach_batch was called with batch {batch_id}, but the session runs no "
                "streaming query: hand it to writeStream.foreachBatch"
            )
        return _ConnectBatch(session, self._running, batch_id)


def _unpickled(fn: "Callable[[DataFrame, int], Any]") -> _ForeachBatch:
    """Returns the wrapper in Spark Connect's process for `foreachBatch`.

    While functions are unpickled there, the active session is the one that started the query. Since
    Spark 4.3 the frames have a clone of it, which lists no queries.
    """
    from pyspark.sql import SparkSession

    return _ForeachBatch(fn, SparkSession.getActiveSession())


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
    running: Any = spark._jsparkSession.sharedState().activeStreamingQueries()
    for query in running.values():  # py4j shows the Java map as a dict
        if query.id().toString() == query_id:
            return str(query.runId().toString())
    raise HoldfastError(f"streaming query {query_id} is not running any more")
