"""Shared by the Spark benches: a session, files for micro-batches, rows a second.

A file arrives for each micro-batch; the rows a second are read from the query's progress.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from holdfast.spark.plan.input import OperatorInput

DAY = 86_400_000_000
LEFT = "k long, t timestamp, x long, note string"
RIGHT = "k long, since timestamp, v double"
ROCKSDB = {
    "spark__sql__streaming__stateStore__providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # The three settings that Spark's documentation recommends for speed.
    "spark__sql__streaming__stateStore__rocksdb__changelogCheckpointing__enabled": "true",
    "spark__sql__streaming__stateStore__rocksdb__trackTotalNumberOfRows": "false",
    "spark__sql__streaming__stateStore__rocksdb__blockCacheSizeMB": "128",
}
OURS = "Holdfast: log fsynced, host 512 MiB, LZ4"
SPARKS = (
    "Spark: state in RocksDB without WAL, changelog checkpoints without fsync, cache 128 MiB, LZ4"
)


def session(**settings: str) -> SparkSession:
    """A local Spark of two cores."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Functions of the benches run in Python workers, too.
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, (str(Path(__file__).parent), os.environ.get("PYTHONPATH")))
    )
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("holdfast-bench")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.streaming.numRecentProgressUpdates", "1000")
    )
    for name, value in settings.items():
        builder = builder.config(name.replace("__", "."), value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def cluster_session(home: Path, master: str) -> SparkSession:
    """A `local-cluster` with executors of 1 GiB. Their folders are in `home`, as SPARK_HOME."""
    import pyspark

    home.mkdir()
    for file in Path(pyspark.__file__).parent.iterdir():
        (home / file.name).symlink_to(file)
    os.environ["SPARK_HOME"] = str(home)
    spark = session(
        spark__master=master, spark__executor__memory="1g", spark__driver__host="127.0.0.1"
    )
    del os.environ["SPARK_HOME"]  # drivers that later benches start would look for Spark there
    return spark


def write(folder: Path, number: int, columns: dict[str, Any]) -> None:
    """One file, which is what one micro-batch reads of this side."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {name: pa.array(column) for name, column in columns.items()}
    for name in ("t", "since"):
        if name in arrays:
            arrays[name] = arrays[name].cast(pa.timestamp("us", "UTC"))
    file = folder / f"{number:06}.parquet"
    pq.write_table(pa.table(arrays), file)
    os.utime(file, (1_700_000_000 + number,) * 2)


def right_file(
    folder: Path, number: int, rows: int, keys: int, random: np.random.Generator
) -> None:
    """Rates of one day; the first file has one for each key."""
    chosen = np.arange(keys) if number == 0 else random.integers(0, keys, rows)
    since = number * DAY + random.integers(0, DAY, len(chosen))
    write(folder, number, {"k": chosen, "since": since, "v": random.random(len(chosen))})


def left_file(folder: Path, number: int, rows: int, keys: int, random: np.random.Generator) -> None:
    """Orders of one day, and one in ten of the day before."""
    t = number * DAY + random.integers(0, DAY, rows) - np.where(random.random(rows) < 0.1, DAY, 0)
    note = pa.array(np.char.add("order ", random.integers(0, 1_000_000, rows).astype(str)))
    write(
        folder,
        number,
        {"k": random.integers(0, keys, rows), "t": t, "x": np.arange(rows), "note": note},
    )


def source(spark: SparkSession, folder: Path, ddl: str) -> DataFrame:
    """The folder as a stream, a file a micro-batch."""
    return spark.readStream.schema(ddl).option("maxFilesPerTrigger", 1).parquet(str(folder))


def same(batches: Any) -> Any:
    """A task function that hands every batch back."""
    yield from batches


def same_plan(rows: OperatorInput, function: Any = same) -> DataFrame:
    """The plan of an operator over these rows, with a function that returns every batch."""
    from pyspark.sql import functions as F  # noqa: N812

    from holdfast.spark.state import State

    frame = rows.rows(State.scratch(partitions=2))
    pid = F.pmod(F.xxhash64("k0"), F.lit(2)).cast("int").alias("pid")
    observed = [F.expr(expression).alias(metric) for metric, expression in rows.metrics.items()]
    shuffled = (
        frame.select(pid, *frame.columns)
        .observe("identity", *observed)
        .repartitionById(2, F.col("pid"))
    )
    return shuffled.mapInArrow(function, shuffled.schema)


def same_join(spark: SparkSession, base: Path, function: Any = same) -> DataFrame:
    """`same_plan` of `join_asof` over the folder's two sides."""
    from holdfast.spark.plan.input import TwoInputs

    left, right = source(spark, base / "left", LEFT), source(spark, base / "right", RIGHT)
    return same_plan(TwoInputs.of(left, right, by="k", left_on="t", right_on="since"), function)


def join_asof(spark: SparkSession, base: Path, root: Path) -> DataFrame:
    """The as-of join of the folder's two sides, its state in `root`."""
    import holdfast.spark as hfs

    left, right = source(spark, base / "left", LEFT), source(spark, base / "right", RIGHT)
    state = hfs.State(str(root), partitions=2)
    return hfs.join_asof(
        left,
        right,
        by="k",
        left_on="t",
        right_on="since",
        history_retention="36500 days",
        state=state,
    )


def progress(
    frame: DataFrame, checkpoint: str | Path, *, skip: int = 0, mode: str = "append"
) -> list[Any]:
    """Run all micro-batches without a sink; return Spark's reports of those with rows.

    Reports of micro-batches before number `skip` are left out.
    """
    query = (
        frame.writeStream.format("noop")
        .outputMode(mode)
        .option("checkpointLocation", str(checkpoint))
        .start()
    )
    query.processAllAvailable()
    query.stop()
    return [p for p in query.recentProgress if p.numInputRows > 0 and p.batchId >= skip]


def rates(
    frame: DataFrame, checkpoint: str | Path, *, skip: int, mode: str = "append"
) -> list[float]:
    """Run all micro-batches without a sink; return the rows a second of those from `skip` on."""
    reports = progress(frame, checkpoint, skip=skip, mode=mode)
    return [p.numInputRows / (p.durationMs["addBatch"] / 1000) for p in reports]


def middle(values: list[float]) -> float:
    """The median; raises an error if no micro-batch was measured."""
    if not values:
        raise RuntimeError("no micro-batch was measured")
    return median(values)
