"""The micro-batch and the run that a piece of work belongs to."""

import re
from collections.abc import Callable
from typing import Final, NamedTuple
from uuid import UUID

from holdfast.errors import HoldfastError

SETTING: Final = "spark.holdfast.epoch."
"""The prefix of the session settings of `hfs.foreach_batch`; a query's id follows.

Spark passes a session's settings to the tasks of its jobs as local properties, even if another
thread starts the jobs.
"""

BATCH_ID: Final = "streaming.sql.batchId"
QUERY_ID: Final = "sql.streaming.queryId"
JOB_GROUP: Final = "spark.jobGroup.id"
DESCRIPTION: Final = "spark.job.description"

RESET_ADVICE: Final = (
    "do not call setJobGroup, or wrap the function: writeStream.foreachBatch(hfs.foreach_batch(fn))"
)

_RUN_ID: Final = re.compile(r"runId = ([0-9a-f-]{36})")


class Epoch(NamedTuple):
    """One micro-batch of one run of a query."""

    query_id: str
    run_id: str
    number: int
    planned_at: int | None = None
    """The batch timestamp in milliseconds, from the driver's memory; None if it is not known."""

    @property
    def setting(self) -> str:
        """The name of the setting that holds this epoch in the session of its micro-batch."""
        return f"{SETTING}{self.query_id}"

    @property
    def setting_value(self) -> str:
        """The value of the setting: the run, the batch, and the batch timestamp if it is known."""
        return " ".join(str(part) for part in self[1:] if part is not None)

    @staticmethod
    def of_settings(get: Callable[[str], str | None], query_id: str) -> "Epoch | None":
        """Returns the epoch in a query's setting, None if it is not set."""
        value = get(f"{SETTING}{query_id}")
        if value is None:
            return None
        run_id, number, *planned_at = value.split(" ")
        return Epoch(query_id, run_id, int(number), *map(int, planned_at))

    @staticmethod
    def of_properties(get: Callable[[str], str | None]) -> "Epoch | None":
        """Returns the epoch that Spark's thread-local properties name, None if they name none.

        The job group is the run id unless user code has set another one. A job group that is not a
        UUID, or is not the run id in the job's description, raises `HoldfastError`: the host would
        treat it as a new run that takes over the state.
        """
        batch, query, run = get(BATCH_ID), get(QUERY_ID), get(JOB_GROUP)
        if batch is None or query is None:
            return None
        if run is None or not _is_uuid(run):
            raise HoldfastError(
                f"the job group {run!r} is not the run id of streaming query {query}: "
                f"{RESET_ADVICE}"
            )
        # Spark writes the run id into the description, too. setJobGroup replaces both,
        # setJobDescription only the description.
        described = run_id_in(get(DESCRIPTION))
        if described is not None and described != run:
            raise HoldfastError(
                f"the job group {run} is not the run id of streaming query {query}: {RESET_ADVICE}"
            )
        return Epoch(query, run, int(batch))


def run_id_in(description: str | None) -> str | None:
    """Returns the run id that Spark wrote into a job's description, None if there is none."""
    found = _RUN_ID.search(description or "")
    return None if found is None else found[1]


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False
