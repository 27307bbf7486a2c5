"""A driver that other processes kill.

    python tests/spark/support/job.py FOLDER MASTER [NAME=VALUE ...]

It joins and sums the rows that `sequence.py` writes into FOLDER/in. It writes FOLDER/joined/N-...
and FOLDER/totals/N-... for micro-batch N. It ends when FOLDER/last exists and all rows are
processed. If FOLDER/raise exists, a task raises. If FOLDER/wait exists, a task renames it to
FOLDER/waiting and waits in mid-batch, with its session open, until that file is removed. If
FOLDER/other exists, other code computes the next micro-batch: its number is in that file. That code
writes nothing, renames the file to FOLDER/computed, and never ends.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.pollingDelay": "5ms",
    # Spark's logs name the files that each micro-batch read: retain them all.
    "spark.sql.streaming.minBatchesToRetain": "10000",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
}


PARTITIONS = 4


def number_of(batch: Path) -> int:
    """The number of the micro-batch whose rows are in a folder of a sink."""
    return int(batch.name.partition("-")[0])


class Results:
    """The rows of each micro-batch in a sink, which has a replayed micro-batch more than once."""

    def __init__(self, folder: Path, first: int = 0) -> None:
        self.rows: dict[int, list[Any]] = {}
        self.unequal: set[int] = set()
        for batch in folder.glob("[0-9]*"):
            number = number_of(batch)
            if number < first or not (batch / "_SUCCESS").exists():
                continue
            table = pq.read_table(batch)
            rows = sorted(
                zip(*(column.to_pylist() for column in table.columns), strict=True), key=str
            )
            if self.rows.setdefault(number, rows) != rows:
                self.unequal.add(number)


class Marked:
    """Passes rows on; a task does what a file in the folder requests, and removes the file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            with suppress(FileNotFoundError):
                (self.folder / "raise").unlink()
                raise RuntimeError("as asked for")
            with suppress(FileNotFoundError):
                waiting = (self.folder / "wait").rename(self.folder / "waiting")
                while waiting.exists():
                    time.sleep(0.05)


def main() -> int:
    """Runs until all rows are processed."""
    folder, master = Path(sys.argv[1]), sys.argv[2]
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F
    from sequence import DDL
    from streams import Root, joined_by_sign

    import holdfast.spark as hfs

    builder = SparkSession.builder.master(master).appName("holdfast-survive")
    given = dict(argument.split("=", 1) for argument in sys.argv[3:])
    for name, value in {
        **SETTINGS,
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **given,
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")

    def state(snapshot_interval: str) -> hfs.State:
        return Root(folder / "state").state(
            partitions=PARTITIONS, snapshot_interval=snapshot_interval, retain_epochs=5
        )

    # The log is short, and the second operator needs more of it than the first.
    often, rarely = state("3 seconds"), state("20 seconds")

    def results(frame: DataFrame) -> tuple[DataFrame, DataFrame]:
        joined = joined_by_sign(frame, often)
        joined = joined.mapInArrow(Marked(folder), joined.schema)
        aggs = {"n": "count", "total": ("sum", "v")}
        return joined, hfs.aggregate(joined, by="k", aggs=aggs, state=rarely, name="totals")

    def compute_otherwise(frame: DataFrame, batch_id: int) -> None:
        """Stages other rates; never returns, so that Spark does not commit the micro-batch."""
        (folder / "other").write_text(str(batch_id))
        rate = F.when(F.col("x") < 0, F.col("x") - 1_000_000).otherwise(F.col("x"))
        for frame_of in results(frame.withColumn("x", rate)):
            frame_of.write.format("noop").mode("overwrite").save()
        (folder / "other").rename(folder / "computed")
        while True:
            time.sleep(1)

    def write(frame: DataFrame, batch_id: int) -> None:
        if (folder / "other").exists():
            compute_otherwise(frame, batch_id)
        joined, totals = results(frame)
        # The join is evaluated twice. No attempt removes the files of another one.
        attempt = f"{batch_id}-{uuid.uuid4().hex}"
        joined.select("x", "v").write.parquet(str(folder / "joined" / attempt))
        totals.write.parquet(str(folder / "totals" / attempt))

    rows = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    query = (
        rows.writeStream.foreachBatch(hfs.foreach_batch(write))
        .option("checkpointLocation", often.checkpoint_location)
        .trigger(processingTime="0 seconds")
        .start()
    )
    while not (folder / "last").exists():
        query.awaitTermination(1)  # raises the error that ended it
    query.processAllAvailable()
    query.stop()
    spark.stop()
    return 0


if __name__ == "__main__":
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, (str(Path(__file__).parent), os.environ.get("PYTHONPATH")))
    )
    sys.exit(main())
