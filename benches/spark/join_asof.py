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
    RIGHT,
    ROCKSDB,
    join_asof,
    left_file,
    middle,
    rates,
    right_file,
    same_join,
    session,
    source,
)
from figure import Figure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
        # In turns: the speed of the machine drifts.
        for turn in range(1 if quick else 3):
            root = base / f"root{turn}"
            ours.append(middle(rates(join_asof(spark, base, root), root / "query", skip=SKIP)))
            identity.append(
                middle(rates(same_join(spark, base), base / f"identity{turn}", skip=SKIP))
            )
        against = _transform_with_state(spark, base, rows, keys, quick=quick)
    spark.stop()
    shares = [a / b for a, b in zip(ours, identity, strict=True)]
    what = f"join_asof on Spark, {rows:,} rows a micro-batch, {keys:,} keys"
    spread = f"{len(shares)} turns: {min(shares):.2f} to {max(shares):.2f}"
    return [
        Figure(
            what,
            "the same plan with an identity mapInArrow",
            middle(shares),
            ">= 0.5",
            "rows/s",
            f"{middle(ours):,.0f} rows/s against {middle(identity):,.0f}; {spread}",
        ),
        Figure(
            what,
            "the same job on PySpark's transformWithState (Row)",
            middle(ours) / against,
            ">= 20",
            "rows/s",
            f"{middle(ours):,.0f} rows/s against {against:,.0f} (which keeps the newest rate only)",
        ),
    ]


def _transform_with_state(
    spark: SparkSession, base: Path, rows: int, keys: int, *, quick: bool
) -> float:
    """Rows a second of the same job on PySpark's own state.

    Few micro-batches, since each takes a quarter of a minute.
    """
    from pyspark.sql import functions as F  # noqa: N812

    random = np.random.default_rng(7)
    batches = 2 if quick else 3
    for number in range(batches):
        right_file(base / "tws_right", number, rows // RIGHT_SHARE, keys, random)
        left_file(base / "tws_left", number, rows - rows // RIGHT_SHARE, keys, random)
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

    joined = union.groupBy("k").transformWithState(
        AsofProcessor(),
        "k long, t timestamp, x long, note string, v double, since timestamp",
        "append",
        "none",
    )
    return middle(rates(joined, base / "tws", skip=1))


if __name__ == "__main__":
    for found in figures(quick="--quick" in sys.argv):
        print(found)
