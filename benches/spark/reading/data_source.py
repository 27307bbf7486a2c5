"""A table as a DataFrame, against Spark's `statestore` reader of as much state of its own."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

sys.path[:0] = [str(folder) for folder in (Path(__file__).parent, *Path(__file__).parents[1:3])]

from _live_table import NAME, PARTITIONS, drawn_keys, live_table, timed
from _streams import OURS, ROCKSDB, SPARKS, session
from figure import LEAST_TURNS, Figure, alternate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 10_000_000
ASKED = 1_000


def figures(*, quick: bool) -> list[Figure]:
    """All rows, and those of some keys: while the query runs, and all rows once it has stopped."""
    count, turns = (100_000, 1) if quick else (ROWS, LEAST_TURNS)
    spark = session(spark__sql__shuffle__partitions=str(PARTITIONS), **ROCKSDB)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        base = Path(folder)
        keys = sorted(set(drawn_keys(count, ASKED).to_pylist()))
        with live_table(spark, base, count) as root:
            own = _stored_by_spark(spark, base)
            ours = spark.read.format("holdfast").option("table", NAME).load(str(root))
            theirs = spark.read.format("statestore").load(str(own))
            some = spark.read.format("holdfast").option("table", NAME)
            some_ours = some.option("key", json.dumps(keys)).load(str(root))
            some_theirs = theirs.where(theirs.key.k.isin(keys))
            for frame, rows in (
                (ours, count),
                (theirs, count),
                (some_ours, len(keys)),
                (some_theirs, len(keys)),
            ):
                if frame.count() != rows:
                    raise AssertionError("a frame has other rows than were written")
            whole = alternate(_read(theirs), _read(ours), turns)
            asked = alternate(_read(some_theirs), _read(some_ours), turns)
        stopped = spark.read.format("holdfast").option("table", NAME).option("offline", "only")
        copied = alternate(_read(theirs), _read(stopped.load(str(root))), turns)
    spark.stop()

    def at_least(
        goal: int, taken: tuple[list[float], str]
    ) -> tuple[list[float], str, str, str, str]:
        return taken[0], f">= {goal}", "throughput", taken[1], f"{OURS}; {SPARKS}"

    what = 'spark.read.format("holdfast")'
    against = "Spark's statestore reader of as many groups of its own, RocksDB"
    return [
        Figure(f"{what} of {count:,} rows", against, *at_least(1, whole)),
        Figure(
            f"{what} of {count:,} rows, from copies: no host is asked",
            against,
            *at_least(1, copied),
        ),
        Figure(
            f"{what} of {len(keys):,} keys of {count:,} by the option key",
            f"{against}, and a filter",
            *at_least(10, asked),
        ),
    ]


def _read(frame: DataFrame) -> object:
    return timed(lambda: frame.write.format("noop").mode("overwrite").save())


def _stored_by_spark(spark: SparkSession, base: Path) -> Path:
    """The checkpoint of Spark's own query that keeps the greatest time and value of each key."""
    rows = spark.read.parquet(str(base / "source"))
    files = spark.readStream.schema(rows.schema).option("maxFilesPerTrigger", 1)
    newest = files.parquet(str(base / "source")).groupBy("k").agg({"t": "max", "v": "max"})
    writer = newest.writeStream.format("noop").outputMode("update")
    checkpoint = base / "statestore"
    writer = writer.option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()
    return checkpoint


if __name__ == "__main__":
    for found in figures(quick="--quick" in sys.argv):
        print(found)
