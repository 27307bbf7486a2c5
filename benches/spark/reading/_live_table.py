"""Shared by the benches of reading: a table of a running query, and a database with its rows.

The table is versioned, with one version of each key: `k` string, `v` double, and the time.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import holdfast as hf
import holdfast.spark as hfs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

NAME = "rates"
PARTITIONS = 4
HISTORY = 10_000 * 86_400_000_000
FILE = 1_000_000
"""Rows of a file, which is a micro-batch."""
IDLE = "5 seconds"
"""How often the query looks for new files. Between the looks it is idle."""


def written(spark: SparkSession, folder: Path, count: int) -> DataFrame:
    """The rows as a stream of files."""
    rows = spark.range(0, count, 1, max(1, count // FILE)).selectExpr(
        "cast(id as string) AS k", "timestamp_micros(id) AS t", "cast(id as double) AS v"
    )
    rows.write.parquet(str(folder))
    files = spark.readStream.schema(rows.schema).option("maxFilesPerTrigger", 1)
    return files.parquet(str(folder))


@contextmanager
def live_table(
    spark: SparkSession, base: Path, count: int, *, memory: str = "512m"
) -> Iterator[Path]:
    """The root of a query that has stored all rows, and goes on."""
    state = hfs.State(str(base / "state"), partitions=PARTITIONS, memory=memory)
    table = hfs.materialize(
        written(spark, base / "source", count),
        by="k",
        on="t",
        history_retention="10000 days",
        state=state,
        name=NAME,
    )
    writer = table.writeStream.format("noop")
    writer = writer.option("checkpointLocation", state.checkpoint_location)
    query = writer.trigger(processingTime=IDLE).start()
    query.processAllAvailable()
    try:
        yield base / "state"
    finally:
        query.stop()


@contextmanager
def local_table(folder: Path, count: int) -> Iterator[Any]:
    """A store of this process with the same rows."""
    value = hf.serde.struct(pa.schema([("v", pa.float64())]))
    store = hf.stores.versioned(NAME, history_retention=HISTORY, key=hf.serde.STRING, value=value)
    with hf.open(folder, [store], durability=hf.Durability.CHANGELOG) as db:
        for start in range(0, count, FILE):
            numbers = np.arange(start, min(start + FILE, count))
            values = pa.StructArray.from_arrays([pa.array(numbers.astype(float))], names=["v"])
            db[NAME].put_batch(pa.array(numbers.astype(str)), values, pa.array(numbers))
            db.commit({})
        yield db[NAME]


def drawn_keys(count: int, asked: int, seed: int = 7) -> pa.Array:
    """Keys of the table, in random order."""
    numbers = np.random.default_rng(seed).integers(0, count, asked)
    return pa.array(numbers.astype(str))


def timed(work: Callable[[], object]) -> Callable[[], float]:
    """The work, as a function that returns its seconds."""

    def seconds() -> float:
        started = time.perf_counter()
        work()
        return time.perf_counter() - started

    return seconds
