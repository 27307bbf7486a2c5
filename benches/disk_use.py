"""The bytes that a state takes on disk: the figures of docs/spark/disk.md.

A row has a key of 12 characters and a value of 100 random bytes, which no compression makes
smaller. `report.py` does not run this, because the bytes do not depend on the machine.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path[:0] = [str(Path(__file__).parent / "spark")]

import numpy as np
import pyarrow as pa
from _streams import DAY, session, source, write

import holdfast.spark as hfs

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

ROWS, EPOCHS, PARTITIONS = 200_000, 10, 2
DDL = "k string, t timestamp, value binary"


def files(folder: Path, rows: int, epochs: int) -> None:
    """Each epoch has a row of each key, one day later than the epoch before."""
    random = np.random.default_rng(7)
    keys = np.char.add("key ", np.char.zfill(np.arange(rows).astype(str), 8))
    for number in range(epochs):
        values = pa.array([random.bytes(100) for _ in range(rows)], pa.binary())
        write(folder, number, {"k": keys, "t": np.full(rows, number * DAY), "value": values})


def materialized(frame: DataFrame, state: hfs.State) -> DataFrame:
    return hfs.materialize(frame, by="k", on="t", name="table", state=state)


def versioned(frame: DataFrame, state: hfs.State) -> DataFrame:
    options: dict[str, Any] = {"history_retention": "3650 days"}
    return hfs.materialize(frame, by="k", on="t", name="table", state=state, **options)


def counted(frame: DataFrame, state: hfs.State) -> DataFrame:
    return hfs.aggregate(frame, by="k", aggs={"n": "count"}, name="table", state=state)


def hourly(frame: DataFrame, state: hfs.State) -> DataFrame:
    asked: dict[str, Any] = {"window": hfs.window("1 hour"), "retention": "3650 days"}
    return hfs.aggregate(
        frame, by="k", on="t", aggs={"n": "count"}, name="table", state=state, **asked
    )


def deduplicated(frame: DataFrame, state: hfs.State) -> DataFrame:
    return hfs.drop_duplicates(frame, by="k", on="t", within="12 hours", name="table", state=state)


PLANS: dict[str, Callable[[DataFrame, hfs.State], DataFrame]] = {
    "materialize": materialized,
    "materialize, history": versioned,
    "aggregate, a count": counted,
    "aggregate, a count by hour": hourly,
    "drop_duplicates": deduplicated,
}


def size(folder: Path, pattern: str = "*") -> int:
    return sum(file.stat().st_size for file in folder.rglob(pattern) if file.is_file())


def run(spark: SparkSession, input_: Path, root: Path, plan: str) -> None:
    """Runs the query over all files, and takes a snapshot after each epoch."""
    state = hfs.State(str(root), partitions=PARTITIONS, snapshot_interval="0 seconds")
    frame = PLANS[plan](source(spark, input_, DDL), state)
    writer = frame.writeStream.format("noop").trigger(availableNow=True)
    writer.option("checkpointLocation", state.checkpoint_location).start().awaitTermination()


def newest_snapshot(root: Path) -> int:
    """The bytes of the files that the newest manifests of all partitions name."""
    total = 0
    for partition in (root / "snapshots/table").iterdir():
        newest = max(file for file in partition.iterdir() if file.is_file())
        total += sum(file["bytes"] for file in json.loads(newest.read_text())["files"])
    return total


def measured(spark: SparkSession, base: Path, plan: str, epochs: int) -> tuple[int, int, int]:
    """Bytes of the log for a changed row, of the log for a partition, of the state for a key."""
    input_, root = base / f"input{epochs}", base / f"{plan} {epochs}"
    run(spark, input_, root, plan)
    log = [size(epoch) for epoch in sorted((root / "log").iterdir())]
    return log[epochs - 1] // ROWS, log[-1] // PARTITIONS, newest_snapshot(root) // ROWS


def main() -> None:
    """Prints a row of the page's table for each operator."""
    spark = session()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        base = Path(folder)
        for epochs in (1, EPOCHS):
            files(base / f"input{epochs}", ROWS, epochs)
            # Epochs of one row follow, so that the snapshot has the last epoch of all rows.
            for number in range(epochs, epochs + 2):
                row = {"k": np.array(["a"]), "t": [0], "value": [b""]}
                write(base / f"input{epochs}", number, row)
        for plan in PLANS:
            row, partition, once = measured(spark, base, plan, 1)
            *_, often = measured(spark, base, plan, EPOCHS)
            print(f"| {plan} | {row} | {partition:,} | {once} | {often:,} |")
    spark.stop()


if __name__ == "__main__":
    main()
