"""The clock as a stream: what closes windows where no rows come."""

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from holdfast.spark.span import Span, micros

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HEARTBEAT: Final = "holdfast_heartbeat"
"""The column that marks a heartbeat, and is its time."""

_SECOND: Final = 1_000_000


def heartbeat(spark: "SparkSession", every: Span) -> "DataFrame":
    """A stream with the time of the clock, one row each `every`, to be united with a streaming
    input of an operator.

    ```python
    events.unionByName(hfs.heartbeat(spark, "10 seconds"), allowMissingColumns=True)
    ```

    A heartbeat reaches every partition of the operator and says that the stream time is at least
    its own, once the micro-batch's rows are worked on: what waits for newer rows need not wait any
    longer. It is no row: nothing goes out for it, and its column `holdfast_heartbeat` neither. Rows
    that come later than the clock by more than the operator's `grace` are late from then on, so let
    `grace` be as long as rows take to come.

    The times are those of Spark's rate source, which are in the checkpoint: a replay has the same.
    `every` is a whole number of seconds; the source has news each second, so give the query a
    trigger, or it runs a micro-batch each second.

    Unite it with a stream only. A static frame beside it makes a stream in the eyes of the
    operator, and it is Spark that refuses the two together, when the query starts.

    Raises `ValueError` for an `every` that is not a whole number of seconds above zero, `TypeError`
    for what is no duration.
    """
    span = micros(every, "every")
    if span == 0 or span % _SECOND:
        raise ValueError(f"every={every!r}: give a whole number of seconds, 1 or more")
    beats = (
        spark.readStream.format("rate").option("rowsPerSecond", 1).option("numPartitions", 1).load()
    )
    return beats.where(F.col("value") % (span // _SECOND) == 0).select(
        F.col("timestamp").alias(HEARTBEAT)
    )
