"""Finds the query of a micro-batch under Spark Connect, which does not report it."""

import json
import re
from contextlib import redirect_stdout
from io import StringIO
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.errors import HoldfastError
from holdfast.spark.epoch import Epoch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMN_ID: Final = re.compile(r"#(\d+)")


class ConnectBatch(NamedTuple):
    """A micro-batch of one of the queries that a session runs."""

    session: "SparkSession"
    running: dict[str, str]
    """The run ids of the session's queries, by query id."""
    query_id: str | None
    """The query's id; None if only an operator's checkpoint identifies the query."""
    number: int

    def epoch(self, checkpoint: str) -> Epoch:
        """Returns the epoch of the micro-batch's query.

        Without `query_id` it is the query that has this checkpoint. Raises `HoldfastError` if the
        session does not run that query.
        """
        query = self.query_id or query_of(self.session, checkpoint)
        if query not in self.running:
            raise HoldfastError(
                f"{checkpoint} is the checkpoint of query {query}, which this session does not "
                'run: start the query with .option("checkpointLocation", state.checkpoint_location)'
            )
        return Epoch(query, self.running[query], self.number)

    @property
    def known(self) -> Epoch | None:
        """The epoch; None if only an operator's checkpoint identifies the query."""
        if self.query_id is None:
            return None
        return Epoch(self.query_id, self.running[self.query_id], self.number)


class RunningQueries:
    """The queries of the session that started this process, and which of them the process serves.

    The process lists them only once: a process that outlives its query must not use the id of the
    next run.
    """

    def __init__(self) -> None:
        self._running: dict[str, str] = {}
        self._query_id: str | None = None

    def batch(self, session: "SparkSession", frame: "DataFrame", batch_id: int) -> ConnectBatch:
        """Returns the micro-batch of this frame.

        Raises `HoldfastError` if the session runs no query.
        """
        if not self._running:
            queries = session.streams.active
            self._running = {str(query.id): str(query.runId) for query in queries}
            # The server knows the frame only while its micro-batch runs, so this fails if the list
            # is of a later run.
            _ = frame.schema
            self._query_id = _query_that_computes(frame, queries)
        if not self._running:
            raise HoldfastError(
                f"hfs.foreach_batch was called with batch {batch_id}, but the session runs no "
                "streaming query: pass the wrapped function to writeStream.foreachBatch"
            )
        return ConnectBatch(session, self._running, self._query_id, batch_id)


def query_of(session: "SparkSession", checkpoint: str) -> str:
    """Returns the id of the query that has this checkpoint."""
    # Spark can read the file in any file system, and never rewrites it.
    lines = session.read.text(f"{checkpoint}/metadata").collect()
    return str(json.loads("".join(line[0] for line in lines))["id"])


def _query_that_computes(frame: "DataFrame", queries: list[Any]) -> str | None:
    """Returns the id of the only query whose plan has all columns of the frame, else None.

    Spark numbers the columns of all plans. Several plans have these columns only if their queries
    were started over one source.
    """
    if len(queries) == 1:
        return str(queries[0].id)
    unchecked: Any = frame
    columns = set(_COLUMN_ID.findall(unchecked._explain_string(extended=True)))
    found = [query for query in queries if columns <= set(_COLUMN_ID.findall(_plan_of(query)))]
    return str(found[0].id) if len(found) == 1 else None


def _plan_of(query: Any) -> str:
    with redirect_stdout(StringIO()) as plan:
        query.explain(extended=True)
    return plan.getvalue()
