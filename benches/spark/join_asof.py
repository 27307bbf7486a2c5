"""`join_asof` in a stream, against an identity function and `transformWithState` (Row)."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import numpy as np
from _streams import (
    LEFT,
    OURS,
    RIGHT,
    ROCKSDB,
    SPARKS,
    join_asof,
    left_file,
    middle,
    rates,
    right_file,
    same_join,
    session,
    source,
)
from figure import LEAST_TURNS, Figure, ratios

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEYS = 100_000
ROWS = 100_000
RIGHT_SHARE = 10
SKIP = 2


def figures(*, quick: bool) -> list[Figure]:
    """The two ratios."""
    spark = session(**ROCKSDB)
    keys, rows = (KEYS // 10, ROWS // 10) if quick else (KEYS, ROWS)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        base = Path(folder)
        batches = SKIP + (3 if quick else 10)
        random = np.random.default_rng(7)
        for number in range(batches):
            right_file(base / "right", number, rows // RIGHT_SHARE, keys, random)
            left_file(base / "left", number, rows - rows // RIGHT_SHARE, keys, random)
        ours: list[float] = []
        identity: list[float] = []
        theirs: list[float] = []
        _write_few(base, rows, keys, quick=quick)
        # In turns: the speed of the machine drifts.
        for turn in range(1 if quick else LEAST_TURNS):
            root = base / f"root{turn}"
            ours.append(middle(rates(join_asof(spark, base, root), root / "query", skip=SKIP)))
            identity.append(
                middle(rates(same_join(spark, base), base / f"identity{turn}", skip=SKIP))
            )
            theirs.append(
                middle(rates(_transform_with_state(spark, base), base / f"tws{turn}", skip=1))
            )
    spark.stop()
    what = f"join_asof on Spark, {rows:,} rows a micro-batch, {keys:,} keys"
    return [
        Figure(
            what,
            "the same plan with an identity mapInArrow",
            ratios(zip(ours, identity, strict=True)),
            ">= 0.5",
            "rows/s",
            f"{middle(ours):,.0f} rows/s against {middle(identity):,.0f}",
            OURS,
        ),
        Figure(
            what,
            "the same job on PySpark's transformWithState (Row)",
            ratios(zip(ours, theirs, strict=True)),
            ">= 20",
            "rows/s",
            f"{middle(ours):,.0f} rows/s against {middle(theirs):,.0f} (keeps the newest rate)",
            f"{OURS}; {SPARKS}",
        ),
    ]


def _write_few(base: Path, rows: int, keys: int, *, quick: bool) -> None:
    """The files of PySpark's own state: few, since each micro-batch takes a quarter of a minute."""
    random = np.random.default_rng(7)
    batches = 2 if quick else 3
    for number in range(batches):
        right_file(base / "tws_right", number, rows // RIGHT_SHARE, keys, random)
        left_file(base / "tws_left", number, rows - rows // RIGHT_SHARE, keys, random)


def _transform_with_state(spark: SparkSession, base: Path) -> DataFrame:
    """The same job on PySpark's own state."""
    from pyspark.sql import functions as F  # noqa: N812

    left, right = source(spark, base / "tws_left", LEFT), source(spark, base / "tws_right", RIGHT)
    union = left.select("k", "t", "x", "note", F.lit(None).cast("double").alias("v")).union(
        right.select(
            "k",
            F.col("since").alias("t"),
            F.lit(None).cast("long"),
            F.lit(None).cast("string"),
            "v",
        )
    )
    from _asof_processor import AsofProcessor

    return union.groupBy("k").transformWithState(
        AsofProcessor(),
        "k long, t timestamp, x long, note string, v double, since timestamp",
        "append",
        "none",
    )


if __name__ == "__main__":
    for found in figures(quick="--quick" in sys.argv):
        print(found)
