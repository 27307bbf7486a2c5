"""A stream of clock times, which closes windows where no rows arrive."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from holdfast._time import Duration, duration_micros

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HEARTBEAT: Final = "holdfast_heartbeat"
"""The name of three things: the column that marks a heartbeat, the source, and an offset's beat."""


def heartbeat(
    spark: "SparkSession", every: Duration, idle_after: Duration = "1 minute"
) -> "DataFrame":
    """Returns a stream of heartbeats, at most one row per `every`, for a union with an input.

    ```python
    events.unionByName(hfs.heartbeat(spark, "10 seconds"), allowMissingColumns=True)
    ```

    A heartbeat is sent to every partition of the operator, and can advance the partition's stream
    time:

    - A partition with rows in the micro-batch follows only these rows.
    - A partition that has had no rows for `idle_after` follows the slowest of the partitions that
      have had rows since it became idle.
    - If no other source of the query has had new offsets for `idle_after`, the stream time of a
      partition without rows follows the micro-batch's time minus `idle_after`.

    In `join_asof`, only left rows count in these rules. For state that waits for newer rows (open
    windows, `grace`, timers), the advance has the effect of a row with the new stream time. An
    operator's result has no row for a heartbeat and no column `holdfast_heartbeat`.

    Because of these rules, heartbeats do not overtake a backlog: a query that restarts after an
    outage loses no rows, unless a key's rows are missing for longer than `idle_after` while other
    partitions advance.

    The times are in the checkpoint, so a replay has the same ones. After a pause there is one
    heartbeat, not one for each `every` of the pause. Without a trigger the query runs a micro-batch
    each `every`.

    Use it in a union with a stream only: Spark refuses to start a query over the union of a stream
    and a static frame.

    Raises `ValueError` if `every` is not longer than zero or `idle_after` is negative, `TypeError`
    if one of them is not a duration.
    """
    interval, delay = duration_micros(every, "every"), duration_micros(idle_after, "idle_after")
    if interval <= 0:
        raise ValueError(f"every={every!r}: give a duration longer than zero")
    spark.dataSource.register(HeartbeatSource)
    beats = spark.readStream.format(HEARTBEAT).option("every", interval).option("idle_after", delay)
    return beats.load().select(F.timestamp_micros("micros").alias(HEARTBEAT))


class HeartbeatSource(DataSource):
    """The clock as a data source.

    Spark pickles the class by its name, so a Spark Connect server runs the code of its own
    installed Holdfast.
    """

    @classmethod
    def name(cls) -> str:
        """Returns the name of the format."""
        return HEARTBEAT

    def schema(self) -> str:
        """Returns the schema: one column, the heartbeat's time."""
        return "micros bigint"

    def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:  # noqa: ARG002, N802
        """Returns the reader.

        Spark runs one for each run of a query, in a process beside the driver.
        """
        return _Clock(int(self.options["every"]), int(self.options["idle_after"]))


class _Clock(SimpleDataSourceStreamReader):
    """Sends a heartbeat at each multiple of `every`.

    An offset has the last beat, `idle_after`, and the time at which the run began, all in
    microseconds. Spark writes it to its offset log, as the line of this source. The state host
    reads the start of the run there: the time during which no query ran does not count as idle.
    """

    def __init__(self, every: int, idle_after: int) -> None:
        self._every: Final = every
        self._idle_after: Final = idle_after
        self._started: Final = _now()

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        # Spark does not log this offset. A replay of the first micro-batch asks for it again, in
        # another process. If the offset were not the same, the replay could have other rows.
        return {HEARTBEAT: 0, "idle_after": 0, "started": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int]], dict[str, int]]:
        beat = _now() // self._every * self._every
        # After the clock was set back, there is no new beat until it is past the last one.
        end = self._offset(beat) if beat > start[HEARTBEAT] else start
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(  # noqa: N802
        self, start: dict[str, int], end: dict[str, int]
    ) -> Iterator[tuple[int]]:
        beats = [(end[HEARTBEAT] - end["idle_after"],)] if end != start else []
        return iter(beats)

    def commit(self, end: dict[str, int]) -> None:
        """Does nothing: only Spark's offset log stores offsets."""

    def _offset(self, beat: int) -> dict[str, int]:
        return {HEARTBEAT: beat, "idle_after": self._idle_after, "started": self._started}


def _now() -> int:
    return time.time_ns() // 1_000
