"""Which micro-batch of which run a piece of work belongs to."""

import json
import re
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from holdfast.spark.state import State

BATCH_ID: Final = "streaming.sql.batchId"
QUERY_ID: Final = "sql.streaming.queryId"
JOB_GROUP: Final = "spark.jobGroup.id"
DESCRIPTION: Final = "spark.job.description"

_RUN_ID: Final = re.compile(r"runId = ([0-9a-f-]{36})")
_RESET: Final = (
    "take back setJobGroup, or wrap the function: writeStream.foreachBatch(hfs.foreach_batch(fn))"
)


class Epoch(NamedTuple):
    """One micro-batch of one start of a query."""

    query_id: str
    run_id: str
    number: int

    @staticmethod
    def of_properties(get: Callable[[str], str | None]) -> "Epoch | None":
        """The epoch that Spark's thread-local properties name, if they name one.

        The job group is the query's run id as long as nobody has set another: a group of the user's
        own would look like a new run, and a new run takes the state over: `HoldfastError`.
        """
        batch, query, run = get(BATCH_ID), get(QUERY_ID), get(JOB_GROUP)
        if batch is None or query is None:
            return None
        if run is None or not _is_uuid(run):
            raise HoldfastError(
                f"the job group {run!r} is not the run id of streaming query {query}: {_RESET}"
            )
        # Spark writes the run id into the description, too; setJobGroup replaces both,
        # setJobDescription only this.
        described = _RUN_ID.search(get(DESCRIPTION) or "")
        if described is not None and described[1] != run:
            raise HoldfastError(
                f"the job group {run} is not the run id of streaming query {query}: {_RESET}"
            )
        return Epoch(query, run, int(batch))


class _ConnectBatch(NamedTuple):
    """A micro-batch under Spark Connect, where nothing says which of the session's queries it is
    of.
    """

    session: "SparkSession"
    running: dict[str, str]
    """The run ids of the session's queries, by query id."""
    number: int

    def epoch(self, state: "State") -> Epoch:
        """The epoch for a state: of several queries that of the one whose checkpoint lies beside
        the state.

        Raises `HoldfastError` if the session does not run that query.
        """
        query = (
            next(iter(self.running))
            if len(self.running) == 1
            else self._query_of(state.checkpoint_location)
        )
        if query not in self.running:
            raise HoldfastError(
                f"{state!r} has the checkpoint of query {query}, which this session does not run: "
                "start the query with "
                '.option("checkpointLocation", state.checkpoint_location)'
            )
        return Epoch(query, self.running[query], self.number)

    def _query_of(self, checkpoint: str) -> str:
        # Spark reads it, wherever it is; it is never written again.
        lines = self.session.read.text(f"{checkpoint}/metadata").collect()
        return str(json.loads("".join(line[0] for line in lines))["id"])


_current: ContextVar[Epoch | _ConnectBatch | None] = ContextVar("holdfast_epoch", default=None)


def current_epoch(spark: "SparkSession", state: "State") -> Epoch | None:
    """The epoch around this call: of `hfs.foreach_batch`, or of Spark's own `foreachBatch`."""
    captured = _current.get()
    if isinstance(captured, _ConnectBatch):
        return captured.epoch(state)
    if captured is not None or is_connect(spark):
        return captured
    epoch = Epoch.of_properties(spark.sparkContext.getLocalProperty)
    if epoch is not None and epoch.run_id != (run_id := _run_id(spark, epoch.query_id)):
        raise HoldfastError(
            f"the job group {epoch.run_id} is not the run id {run_id} of query {epoch.query_id}: "
            f"{_RESET}"
        )
    return epoch


def foreach_batch(fn: "Callable[[DataFrame, int], Any]") -> "Callable[[DataFrame, int], Any]":
    """Wrap a function for `writeStream.foreachBatch`, so that operators inside it know their epoch.

    The batch id and the run id are taken before `fn` runs, so job groups and jobs from other
    threads do no harm. An operator is called in the thread that `fn` runs in, once an epoch for
    each name; its result may be evaluated anywhere, and more than once.

    Under Spark Connect, `fn` is pickled when the query starts and runs in a process beside the
    server: what it changes there is not seen here, and holdfast must be installed there.

    Raises `TypeError` for what cannot be called. What it returns raises `HoldfastError` where no
    streaming query calls it.
    """
    if not callable(fn):
        raise TypeError(
            f"foreach_batch takes a function of a DataFrame and a batch id, not {type(fn).__name__}"
        )
    return _ForeachBatch(fn)


class _ForeachBatch:
    """A function of `foreachBatch` with its epoch around it; a class, so that Spark Connect can
    pickle it by name.
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
                "running it: "
                "hand it to writeStream.foreachBatch"
            )
        # Not from the job group: an earlier micro-batch of `fn` may have set one of its own.
        run_id = _run_id(spark, query_id)
        try:
            return self._call(Epoch(query_id, run_id, batch_id), frame)
        finally:
            # Spark stops a query by its job group, and sets it once a run.
            context.setLocalProperty(JOB_GROUP, run_id)

    def _call(self, epoch: Epoch | _ConnectBatch, frame: "DataFrame") -> Any:
        token = _current.set(epoch)
        try:
            return self._fn(frame, epoch.number)
        finally:
            _current.reset(token)

    def _connect_batch(self, frame: "DataFrame", batch_id: int) -> _ConnectBatch:
        session = self._starter or frame.sparkSession
        # Once a process, and so once a run: a process that outlives its query must not take the
        # next run's id for its own.
        if not self._running:
            self._running = {str(query.id): str(query.runId) for query in session.streams.active}
            # The server knows the frame for as long as its micro-batch runs, and until then no
            # other run of its query.
            _ = frame.schema
        if not self._running:
            raise HoldfastError(
                f"hfs.foreach_batch was called with batch {batch_id}, but the session runs no "
                "streaming query: "
                "hand it to writeStream.foreachBatch"
            )
        return _ConnectBatch(session, self._running, batch_id)


def _unpickled(fn: "Callable[[DataFrame, int], Any]") -> _ForeachBatch:
    """The wrapper in Spark Connect's process for `foreachBatch`.

    Its active session is the one that started the query, as long as functions are unpickled; since
    4.3 the frames have a clone of it, which lists no queries.
    """
    from pyspark.sql import SparkSession

    return _ForeachBatch(fn, SparkSession.getActiveSession())


def is_connect(spark: "SparkSession") -> bool:
    """Whether this is a Spark Connect session, which has no SparkContext."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _run_id(spark: "SparkSession", query_id: str) -> str:
    """The run id of the query that is running this thread's micro-batch, whatever job group the
    thread has now.

    Spark writes it into the job description at the start of each micro-batch. Where user code has
    set another one, the list of all running queries has it; `spark.streams.active` has not, since a
    micro-batch has a session of its own.
    """
    found = _RUN_ID.search(spark.sparkContext.getLocalProperty(DESCRIPTION) or "")
    if found is not None:
        return found[1]
    running: Any = spark._jsparkSession.sharedState().activeStreamingQueries()
    for query in running.values():  # py4j shows the Java map as a dict
        if query.id().toString() == query_id:
            return str(query.runId().toString())
    raise HoldfastError(f"streaming query {query_id} is not running any more")


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False
