"""The sessions of micro-batches inside `foreachBatch`, without Spark Connect."""

import gc
import weakref
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class BatchSessions:
    """Gives each micro-batch a session that no frame of an earlier micro-batch has.

    The epoch is a setting of the session. A thread that outlives its micro-batch still has the
    frame of that micro-batch. The jobs of the frame must not read the setting of a later
    micro-batch.

    Usually all frames of a micro-batch are gone when the next micro-batch begins. The next one then
    uses the same session. If a frame is still referenced, the next one gets another session: one
    that no frame references any more, or else a new clone.
    """

    def __init__(self) -> None:
        self._of_query: dict[str, tuple[str, list[_BatchSession]]] = {}

    def frame(self, frame: "DataFrame", query_id: str, run_id: str) -> "DataFrame":
        """Returns the micro-batch's frame in a session that no earlier frame has."""
        run, sessions = self._of_query.get(query_id, (run_id, []))
        if run != run_id:
            sessions = []
        self._of_query[query_id] = (run_id, sessions)
        if not sessions:
            sessions.append(_BatchSession(frame.sparkSession))
            return frame
        if all(session.is_used for session in sessions):
            gc.collect()
        for session in sessions:
            if not session.is_used:
                return session.frame(frame)
        unchecked: Any = frame.sparkSession
        sessions.append(_BatchSession(frame.sparkSession, unchecked._jsparkSession.cloneSession()))
        return sessions[-1].frame(frame)


class _BatchSession:
    """A session in the JVM, and the last Python object for it."""

    def __init__(self, session: "SparkSession", clone: Any = None) -> None:
        """`clone`: the session in the JVM, if it is not the one of `session`."""
        unchecked: Any = session
        self._java: Final[Any] = unchecked._jsparkSession if clone is None else clone
        # Every DataFrame refers to the session object that it was made with.
        self._python = weakref.ref(session)

    @property
    def is_used(self) -> bool:
        return self._python() is not None

    def frame(self, frame: "DataFrame") -> "DataFrame":
        """Returns the frame in this session, for a new micro-batch."""
        from pyspark.sql import DataFrame, SparkSession

        given: Any = frame.sparkSession
        unchecked: Any = frame
        if given._jsparkSession.equals(self._java):
            self._python = weakref.ref(given)
            return frame
        session: Any = SparkSession(given.sparkContext, self._java)
        self._python = weakref.ref(session)
        datasets = given._jvm.org.apache.spark.sql.classic.Dataset
        return DataFrame(datasets.ofRows(self._java, unchecked._jdf.logicalPlan()), session)
