"""A driver that stores the rows of `readable.py`, a file or two an epoch, until it is killed.

python tests/spark/support/readable_job.py FOLDER MASTER [NAME=VALUE ...]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def main() -> int:
    """Runs until it is killed."""
    folder, master = Path(sys.argv[1]), sys.argv[2]
    from job import SETTINGS
    from pyspark.sql import SparkSession
    from readable import DDL
    from streams import Root

    import holdfast.spark as hfs

    builder = SparkSession.builder.master(master).appName("holdfast-readable")
    given = dict(argument.split("=", 1) for argument in sys.argv[3:])
    for name, value in {**SETTINGS, **given}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    state = Root(folder / "state").state(
        partitions=4, snapshot_interval="5 seconds", retain_epochs=30
    )
    rows = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))

    def store(frame: DataFrame, _: int) -> None:
        newest = hfs.materialize(frame, by="k", name="newest", state=state)
        history = hfs.materialize(
            frame, by="k", on="t", history_retention="1000 days", name="history", state=state
        )
        for table in (newest, history):
            table.write.format("noop").mode("overwrite").save()

    query = (
        rows.writeStream.foreachBatch(hfs.foreach_batch(store))
        .option("checkpointLocation", state.checkpoint_location)
        .trigger(processingTime="0 seconds")
        .start()
    )
    query.awaitTermination()
    return 0


if __name__ == "__main__":
    sys.exit(main())
