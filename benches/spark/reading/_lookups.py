"""Shared by the benches of look-up joins: a stream whose rows have keys of a live table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from _live_table import NAME, drawn_keys
from _streams import middle, rates, source, write

import holdfast.spark as hfs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

KEYS = 1_000_000
ROWS = 100_000
"""Rows of a micro-batch."""
SKIP = 2
ORDERS = "k string, x long"


def write_orders(folder: Path, rows: int, keys: int, batches: int) -> None:
    """Files of the stream, each a micro-batch."""
    for number in range(SKIP + batches):
        columns: dict[str, Any] = {"k": drawn_keys(keys, rows, number), "x": np.arange(rows)}
        write(folder, number, columns)


def looked_up(spark: SparkSession, folder: Path, root: Path) -> DataFrame:
    """Each row with the table's value of its key."""
    return hfs.lookup(source(spark, folder, ORDERS), root, NAME, on="k", columns=["v"])


def by_function(
    spark: SparkSession,
    folder: Path,
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: str,
) -> DataFrame:
    """Each batch of rows by a function of Python."""
    return source(spark, folder, ORDERS).mapInArrow(function, schema)


def rate(frame: DataFrame, checkpoint: Path) -> float:
    """The rows a second of a micro-batch, as the median."""
    return middle(rates(frame, checkpoint, skip=SKIP))


def in_words(pairs: list[tuple[float, float]]) -> str:
    """Rows a second of both sides, taken in turns."""
    return (
        f"{middle([ours for ours, _ in pairs]):,.0f} rows/s against "
        f"{middle([theirs for _, theirs in pairs]):,.0f}"
    )
