"""A driver that follows the changes of a table, and that other processes kill.

    python tests/spark/support/follower.py FOLDER MASTER root=ROOT [NAME=VALUE ...]

It writes the rows into FOLDER/out by Spark's file sink. NAME=VALUE are options of the source. It
ends when FOLDER/last exists and all changes are written.
"""

from __future__ import annotations

import sys
from pathlib import Path

from job import SETTINGS


def main() -> int:
    """Runs until all changes are written."""
    folder, master = Path(sys.argv[1]), sys.argv[2]
    options = dict(argument.partition("=")[::2] for argument in sys.argv[3:])
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master)
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse")).getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    root = options.pop("root")
    changes = spark.readStream.format("holdfast").option("changes", "true").options(**options)
    writer = changes.load(root).writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(processingTime="0 seconds").start(str(folder / "out"))
    while not (folder / "last").exists():
        if query.awaitTermination(0.1):
            return 1
    query.processAllAvailable()
    query.stop()
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
