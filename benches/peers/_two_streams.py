"""Two streams of files, orders and rates, that Holdfast and another engine read in turns.

A day of the streams is a file for each, and a micro-batch of Spark. What is measured is the wall
time of a whole run over many days minus that of a run over the first days: the start of a run and
the compilation of its code do not count.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

BENCHES = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(BENCHES), str(BENCHES / "spark")]

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _streams import LEFT, RIGHT, left_file, right_file, source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

    import holdfast.spark as hfs

SIDES = ("orders", "rates")


@dataclass(frozen=True)
class Streams:
    """The files of two runs, `few` days and `many` days, in a folder."""

    base: Path
    rows: int
    """The rows of a side a day."""
    keys: int
    few: int
    many: int

    @property
    def days(self) -> tuple[int, int]:
        """The numbers of days of the two runs."""
        return self.few, self.many

    def folder(self, days: int, side: str) -> Path:
        """A file a day."""
        return self.base / f"{days}-days" / side

    def halves(self, days: int, side: str) -> Path:
        """The same rows in two files, day after day in each."""
        return self.base / f"{days}-days" / f"{side}-halves"

    def make(self) -> None:
        """Writes the files of each day."""
        for days in self.days:
            random = np.random.default_rng(7)
            for day in range(days):
                left_file(self.folder(days, "orders"), day, self.rows, self.keys, random)
                right_file(self.folder(days, "rates"), day, self.rows, self.keys, random)

    def make_halves(self) -> None:
        """Writes the halves, after `make`."""
        for days in self.days:
            for side in SIDES:
                _write_halves(self.folder(days, side), self.halves(days, side))

    def sum_of_rows(self, sides: int) -> int:
        """The rows that the longer run has more."""
        return self.rows * sides * (self.many - self.few)

    def seconds(self, run: Callable[[int], float]) -> float:
        """The seconds of the longer run beyond those of the shorter one."""
        return run(self.many) - run(self.few)


def join(orders: DataFrame, rates: DataFrame, state: hfs.State) -> DataFrame:
    """The rows of the same key within an hour."""
    import holdfast.spark as hfs

    return hfs.join_window(
        orders, rates, by="k", left_on="t", right_on="since", before="1 hour", after="1 hour",
        grace="2 days", state=state,
    )  # fmt: skip


def best_match(orders: DataFrame, rates: DataFrame, state: hfs.State) -> DataFrame:
    """The greatest `v` of each key among the rows of `join`."""
    import holdfast.spark as hfs

    joined = join(orders, rates, state)
    return hfs.aggregate(joined, by="k", on="t", aggs={"best": ("max", "v")}, state=state)


StreamQuery = Callable[["DataFrame", "DataFrame", "hfs.State"], "DataFrame"]


def run_of_spark(
    spark: SparkSession, streams: Streams, days: int, query: StreamQuery, root: Path
) -> float:
    """The seconds of a whole run of Holdfast on Spark, without a sink."""
    writer = _frame(spark, streams, days, query, root).writeStream.format("noop")
    start = time.perf_counter()
    _run(writer, root)
    return time.perf_counter() - start


def results_of_spark(
    spark: SparkSession, streams: Streams, days: int, query: StreamQuery, root: Path
) -> pa.Table:
    """All rows that a whole run emits, in the order of the micro-batches."""
    found: list[pa.Table] = []
    frame = _frame(spark, streams, days, query, root)
    _run(frame.writeStream.foreachBatch(lambda batch, _: found.append(batch.toArrow())), root)
    return pa.concat_tables(found)


def _frame(
    spark: SparkSession, streams: Streams, days: int, query: StreamQuery, root: Path
) -> DataFrame:
    import holdfast.spark as hfs

    orders = source(spark, streams.folder(days, "orders"), LEFT)
    rates = source(spark, streams.folder(days, "rates"), RIGHT)
    return query(orders, rates, hfs.State(str(root), partitions=2))


def _run(writer: DataStreamWriter, root: Path) -> None:
    running = writer.option("checkpointLocation", str(root / "query")).start()
    running.processAllAvailable()
    running.stop()


def _write_halves(folder: Path, halves: Path) -> None:
    """Every second row of each day, in milliseconds, which are the finest event times of Flink."""
    halves.mkdir(parents=True)
    writers: list[pq.ParquetWriter] = []
    for file in sorted(folder.glob("*.parquet")):
        table = pq.read_table(file)
        for number, field in enumerate(table.schema):
            if pa.types.is_timestamp(field.type):
                times = table.column(number).cast(pa.timestamp("ms", "UTC"), safe=False)
                table = table.set_column(number, field.name, times)
        writers = writers or [
            pq.ParquetWriter(halves / f"{half}.parquet", table.schema) for half in range(2)
        ]
        for half, writer in enumerate(writers):
            writer.write_table(table.take(np.arange(half, table.num_rows, 2)))
    for writer in writers:
        writer.close()
