"""Which micro-batch of which run a piece of work belongs to."""

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from holdfast.errors import HoldfastError, UnsupportedOperationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH_ID: Final = "streaming.sql.batchId"
QUERY_ID: Final = "sql.streaming.queryId"
JOB_GROUP: Final = "spark.jobGroup.id"
DESCRIPTION: Final = "spark.job.description"

_RESET = "take back setJobGroup, or wrap the function: writeStream.foreachBatch(hfs.foreach_batch(fn))"


class Epoch(NamedTuple):
    """One micro-batch of one start of a query."""

    query_id: str
    run_id: str
    number: int

    @staticmethod
    def of_properties(get: Callable[[str], str | None]) -> "Epoch | None":
        """The epoch that Spark's thread-local properties name, if they name one.

        The job group is the query's run id as long as nobody has set another: a group of the user's own would look like
        a new run, and a new run takes the state over.
        """
        batch, query, run = get(BATCH_ID), get(QUERY_ID), get(JOB_GROUP)
        if batch is None or query is None:
            return None
        if run is None or not _is_uuid(run):
            raise HoldfastError(f"the job group {run!r} is not the run id of streaming query {query}: {_RESET}")
        description = get(DESCRIPTION) or ""
        # Spark writes the run id into the description, too; setJobGroup replaces both, setJobDescription only this.
        if "runId = " in description and f"runId = {run}" not in description:
            raise HoldfastError(f"the job group {run} is not the run id of streaming query {query}: {_RESET}")
        return Epoch(query, run, int(batch))


_current: ContextVar[Epoch | None] = ContextVar("holdfast_epoch", default=None)


def current_epoch(spark: "SparkSession") -> Epoch | None:
    """The epoch that surrounds this call: of `hfs.foreach_batch`, or of Spark's own `foreachBatch`."""
    captured = _current.get()
    if captured is not None or is_connect(spark):
        return captured
    epoch = Epoch.of_properties(spark.sparkContext.getLocalProperty)
    if epoch is not None:
        _check_run(spark, epoch)
    return epoch


def foreach_batch(fn: "Callable[[DataFrame, int], Any]") -> "Callable[[DataFrame, int], Any]":
    """Wrap a function for `writeStream.foreachBatch`, so that operators inside it know their epoch.

    The batch id and the run id are taken before `fn` runs, so job groups and jobs from other threads do no harm.
    An operator is called in the thread that `fn` runs in, once an epoch for each name; its result may be evaluated
    anywhere, and more than once.
    """
    if not callable(fn):
        raise TypeError(f"foreach_batch takes a function of a DataFrame and a batch id, not {type(fn).__name__}")

    @functools.wraps(fn)
    def with_epoch(frame: "DataFrame", batch_id: int) -> Any:
        spark = frame.sparkSession
        if is_connect(spark):
            raise UnsupportedOperationError("hfs.foreach_batch under Spark Connect comes later: use a classic session")
        epoch = Epoch.of_properties(spark.sparkContext.getLocalProperty)
        if epoch is None or epoch.number != batch_id:
            raise HoldfastError(
                f"hfs.foreach_batch was called with batch {batch_id}, but no streaming query is running it: "
                "hand it to writeStream.foreachBatch"
            )
        _check_run(spark, epoch)
        token = _current.set(epoch)
        try:
            return fn(frame, batch_id)
        finally:
            _current.reset(token)

    return with_epoch


def is_connect(spark: "SparkSession") -> bool:
    """Whether this is a Spark Connect session, which has no SparkContext."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _check_run(spark: "SparkSession", epoch: Epoch) -> None:
    for query in spark.streams.active:
        if str(query.id) == epoch.query_id and str(query.runId) != epoch.run_id:
            raise HoldfastError(
                f"the job group {epoch.run_id} is not the run id {query.runId} of query {query.id}: {_RESET}"
            )


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False
