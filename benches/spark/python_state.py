"""Count and latest value per key, against the three ways to keep state in PySpark itself."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import numpy as np
from _processors import RESULT, STATE, CountRows, CountTables, count_groups
from _streams import LEFT, OURS, ROCKSDB, SPARKS, left_file, middle, rates, session, source
from aggregate import KEYS, ROWS, ours_of
from figure import LEAST_TURNS, Figure, ratios

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SKIP = 1
REACH = {
    "transformWithState (Row)": 25,
    "transformWithStateInPandas": 80,
    "applyInPandasWithState": 50,
}


def figures(*, quick: bool) -> list[Figure]:
    """One figure for each way. Few micro-batches: each takes a minute there."""
    spark = session(**ROCKSDB)
    keys, rows = (KEYS // 50, ROWS // 50) if quick else (KEYS, ROWS)
    found: list[Figure] = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        base = Path(folder)
        random = np.random.default_rng(7)
        for number in range(SKIP + 1):
            left_file(base / "left", number, rows, keys, random)

        def ours(place: str) -> float:
            root = base / f"root{place}"
            return middle(rates(ours_of(spark, base, place), root / "query", skip=SKIP))

        def theirs(name: str, place: str) -> float:
            mode = "append" if name == "transformWithState (Row)" else "update"
            frame = _theirs(spark, base, name, mode)
            return middle(rates(frame, base / f"theirs{place}", skip=SKIP, mode=mode))

        for way, (name, reach) in enumerate(REACH.items()):
            places = [f"{way}.{turn}" for turn in range(1 if quick else LEAST_TURNS)]
            pairs = [(ours(place), theirs(name, place)) for place in places]
            what = (
                f"count and latest value per key on Spark, {rows:,} rows a micro-batch, "
                f"{keys:,} keys"
            )
            own, other = (middle(list(side)) for side in zip(*pairs, strict=True))
            note = f"{own:,.0f} rows/s against {other:,.0f}"
            found.append(
                Figure(
                    what,
                    f"PySpark's {name}",
                    ratios(pairs),
                    f">= {reach}",
                    "rows/s",
                    note,
                    f"{OURS}; {SPARKS}",
                )
            )
    spark.stop()
    return found


def _theirs(spark: SparkSession, base: Path, name: str, mode: str) -> DataFrame:
    grouped = source(spark, base / "left", LEFT).groupBy("k")
    if name == "transformWithState (Row)":
        return grouped.transformWithState(CountRows(), RESULT, mode, "none")
    if name == "transformWithStateInPandas":
        return grouped.transformWithStateInPandas(CountTables(), RESULT, mode, "none")
    return grouped.applyInPandasWithState(count_groups, RESULT, STATE, mode, "NoTimeout")


if __name__ == "__main__":
    for figure in figures(quick="--quick" in sys.argv):
        print(figure)
