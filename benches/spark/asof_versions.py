"""`join_asof` with few and with millions of versions, against Spark 4.3's ASOF JOIN.

The join of Spark is stream-static SQL.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import numpy as np
from _streams import LEFT, OURS, join_asof, left_file, middle, progress, right_file, session, source
from figure import LEAST_TURNS, Figure, ratios

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEYS = 100_000
ROWS = 100_000
FILE_ROWS = 500_000
SKIP = 1


def figures(*, quick: bool) -> list[Figure]:
    """With the most versions, `join_asof` against Spark's join and against itself with few."""
    # Spark runs this join with its sort-merge operator; both settings are off by default.
    spark = session(
        spark__sql__join__asofJoin__enabled="true",
        spark__sql__join__sortMergeAsOfJoin__enabled="true",
    )
    shrink = 10 if quick else 1
    sizes = [versions // shrink for versions in (100_000, 4_000_000)]
    batches = 3 if quick else 6
    ours: dict[int, list[float]] = {versions: [] for versions in sizes}
    theirs: dict[int, list[float]] = {versions: [] for versions in sizes}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        places = {versions: Path(folder) / str(versions) for versions in sizes}
        next_file = {
            versions: _load(spark, place, versions, shrink) for versions, place in places.items()
        }
        for turn in range(1 if quick else LEAST_TURNS):
            for versions, place in places.items():
                random = np.random.default_rng(turn)
                first = next_file[versions]
                for number in range(first, first + SKIP + batches):
                    left_file(place / "left", number, ROWS // shrink, KEYS // shrink, random)
                next_file[versions] += SKIP + batches
                reports = progress(join_asof(spark, place, place / "root"), place / "root/query")[
                    SKIP:
                ]
                ours[versions].append(middle([p.durationMs["addBatch"] for p in reports]))
                fresh = place / f"left{turn}"
                for number in range(SKIP + batches):
                    left_file(fresh, number, ROWS // shrink, KEYS // shrink, random)
                reports = progress(_spark(spark, place, fresh), place / f"spark{turn}", skip=SKIP)
                theirs[versions].append(middle([p.durationMs["addBatch"] for p in reports]))
    spark.stop()
    few, many = sizes
    what = f"join_asof on Spark, {ROWS // shrink:,} rows a micro-batch, {KEYS // shrink:,} keys"

    def described(versions: int) -> str:
        return (
            f"{versions:,} versions: {middle(ours[versions]):.0f} ms against "
            f"{middle(theirs[versions]):.0f}"
        )

    return [
        Figure(
            f"{what}, {many:,} versions",
            "Spark 4.3's stream-static ASOF JOIN",
            ratios(zip(theirs[many], ours[many], strict=True)),
            ">= 10",
            "throughput",
            f"{described(many)}; {described(few)}",
            f"{OURS}; Spark: sort-merge join of a static table, without state",
        ),
        Figure(
            f"{what}, {many:,} versions",
            f"with {few:,} versions",
            ratios(zip(ours[many], ours[few], strict=True)),
            "<= 1.2",
            "time",
            settings=OURS,
        ),
    ]


def _load(spark: SparkSession, place: Path, versions: int, shrink: int) -> int:
    """Loads all versions in separate micro-batches; returns the number of the next file."""
    random = np.random.default_rng(5)
    keys, rows = KEYS // shrink, FILE_ROWS // shrink
    files = max(1, versions // rows)
    for number in range(files):
        right_file(place / "right", number, min(rows, versions), keys, random)
        left_file(place / "left", number, 1, keys, random)
    progress(join_asof(spark, place, place / "root"), place / "root/query")
    return files


def _spark(spark: SparkSession, place: Path, left: Path) -> DataFrame:
    rates = f"rates_{place.name}"
    spark.read.parquet(str(place / "right")).createOrReplaceTempView(rates)
    source(spark, left, LEFT).createOrReplaceTempView("orders")
    return spark.sql(
        f"SELECT o.k, o.t, o.x, o.note, r.v, r.since FROM orders o LEFT ASOF JOIN {rates} r "
        "MATCH_CONDITION (o.t >= r.since) ON o.k = r.k"
    )


if __name__ == "__main__":
    for found in figures(quick="--quick" in sys.argv):
        print(found)
