"""A stream of clock times, which closes windows where no rows arrive."""

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the usual name

from holdfast._time import Duration, duration_micros

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HEARTBEAT: Final = "holdfast_heartbeat"
"""The column that marks a heartbeat, and holds its time."""

_SECOND: Final = 1_000_000


def heartbeat(spark: "SparkSession", every: Duration) -> "DataFrame":
    """Returns a stream of clock times, one row per `every`, for a union with an input.

    ```python
    events.unionByName(hfs.heartbeat(spark, "10 seconds"), allowMissingColumns=True)
    ```

    A heartbeat goes to every partition of the operator. After the micro-batch's rows are processed,
    it advances the stream time to its own time. For state that waits for newer rows (open windows,
    `grace`, timers), a heartbeat has the effect of a row with that time. The result has no row for
    a heartbeat and no column `holdfast_heartbeat`. From then on, rows older than the clock by more
    than the operator's `grace` are late, so choose a `grace` as long as rows take to arrive.

    The times are those of Spark's rate source. They are in the checkpoint, so a replay has the same
    ones. `every` is a whole number of seconds. The source has a new row each second: without a
    trigger the query runs a micro-batch each second.

    Use it in a union with a stream only: Spark refuses to start a query over the union of a stream
    and a static frame.

    Raises `ValueError` if `every` is not a whole number of seconds above zero, `TypeError` if it is
    no duration.
    """
    interval = duration_micros(every, "every")
    if interval == 0 or interval % _SECOND:
        raise ValueError(f"every={every!r}: give a whole number of seconds, 1 or more")
    beats = (
        spark.readStream.format("rate").option("rowsPerSecond", 1).option("numPartitions", 1).load()
    )
    return beats.where(F.col("value") % (interval // _SECOND) == 0).select(
        F.col("timestamp").alias(HEARTBEAT)
    )
