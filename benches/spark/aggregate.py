"""Aggregations of a stream, in four comparisons.

Count and latest value per key, and sessions, are compared with Spark's own state. Count and latest
value are also compared with the same plan with an identity function. An Aggregator in the worker is
compared with the built-in function.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import numpy as np
from _mean import Mean
from _streams import (
    LEFT,
    OURS,
    ROCKSDB,
    SPARKS,
    left_file,
    middle,
    rates,
    same_plan,
    session,
    source,
)
from figure import LEAST_TURNS, Figure, ratios

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEYS = 100_000
ROWS = 200_000
SKIP = 2


def figures(*, quick: bool) -> list[Figure]:
    """The four ratios."""
    spark = session(**ROCKSDB)
    keys, rows = (KEYS // 10, ROWS // 10) if quick else (KEYS, ROWS)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        base = Path(folder)
        random = np.random.default_rng(7)
        for number in range(SKIP + (3 if quick else 8)):
            left_file(base / "left", number, rows, keys, random)
        ours: list[float] = []
        identity: list[float] = []
        own: list[float] = []
        sessions: list[float] = []
        own_sessions: list[float] = []
        aggregator: list[float] = []
        built_in: list[float] = []
        # In turns: the speed of the machine drifts.
        for turn in range(1 if quick else LEAST_TURNS):
            ours.append(
                middle(rates(ours_of(spark, base, turn), base / f"root{turn}" / "query", skip=SKIP))
            )
            identity.append(
                middle(rates(_identity(spark, base), base / f"identity{turn}", skip=SKIP))
            )
            own.append(
                middle(rates(_spark(spark, base), base / f"spark{turn}", skip=SKIP, mode="update"))
            )
            sessions.append(
                middle(rates(_sessions(spark, base, turn), base / f"s{turn}" / "query", skip=SKIP))
            )
            own_sessions.append(
                middle(rates(_own_sessions(spark, base), base / f"sessions{turn}", skip=SKIP))
            )
            aggregator.append(
                middle(
                    rates(
                        _mean(spark, base, f"a{turn}", Mean()),
                        base / f"a{turn}" / "query",
                        skip=SKIP,
                    )
                )
            )
            built_in.append(
                middle(
                    rates(
                        _mean(spark, base, f"b{turn}", ("avg", "x")),
                        base / f"b{turn}" / "query",
                        skip=SKIP,
                    )
                )
            )
    spark.stop()
    size = f"{rows:,} rows a micro-batch, {keys:,} keys"
    what = f"count and latest value per key on Spark, {size}"
    return [
        _figure(what, "the same plan with an identity mapInArrow", ours, identity, ">= 0.6"),
        _figure(what, "Spark's own aggregation in the JVM, state in RocksDB", ours, own, ">= 1"),
        _figure(
            f"sessions of 2 hours on Spark, {size}",
            "Spark's own session_window, state in RocksDB",
            sessions,
            own_sessions,
            "",
        ),
        _figure(
            f"a mean per key by an Aggregator on Spark, {size}",
            "the built-in avg",
            aggregator,
            built_in,
            "",
        ),
    ]


def _figure(what: str, against: str, ours: list[float], theirs: list[float], reach: str) -> Figure:
    note = f"{middle(ours):,.0f} rows/s against {middle(theirs):,.0f}"
    turns = ratios(zip(ours, theirs, strict=True))
    settings = f"{OURS}; {SPARKS}" if "RocksDB" in against else OURS
    return Figure(what, against, turns, reach, "rows/s", note, settings)


def ours_of(spark: SparkSession, base: Path, turn: int | str) -> DataFrame:
    """Count and latest value per key."""
    import holdfast.spark as hfs

    state = hfs.State(str(base / f"root{turn}"), partitions=2)
    aggs = {"rows": "count", "newest": ("last", "x")}
    return hfs.aggregate(source(spark, base / "left", LEFT), by="k", on="t", aggs=aggs, state=state)


def _sessions(spark: SparkSession, base: Path, turn: int) -> DataFrame:
    import holdfast.spark as hfs

    frame, state = (
        source(spark, base / "left", LEFT),
        hfs.State(str(base / f"s{turn}"), partitions=2),
    )
    window = hfs.session_window("2 hours")
    return hfs.aggregate(
        frame,
        by="k",
        on="t",
        aggs={"n": "count"},
        window=window,
        emit="close",
        grace="1 day",
        state=state,
    )


def _own_sessions(spark: SparkSession, base: Path) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    frame = source(spark, base / "left", LEFT).withWatermark("t", "1 day")
    return frame.groupBy("k", F.session_window("t", "2 hours")).agg(F.count(F.lit(1)).alias("n"))


def _mean(spark: SparkSession, base: Path, root: str, how: Any) -> DataFrame:
    import holdfast.spark as hfs

    frame = source(spark, base / "left", LEFT).select("k", "t", "x")
    return hfs.aggregate(
        frame, by="k", on="t", aggs={"mean": how}, state=hfs.State(str(base / root), partitions=2)
    )


def _identity(spark: SparkSession, base: Path) -> DataFrame:
    """The plan of `aggregate`, with a function that returns every batch."""
    from holdfast.spark.plan.input import OneInput
    from holdfast.spark.plan.input_frame import InputFrame

    frame = InputFrame("input", source(spark, base / "left", LEFT))
    keys, time, payload = (
        frame.find_keys("k"),
        frame.find_time("t", "on"),
        [frame.find("x", "aggs")],
    )
    return same_plan(OneInput(frame.using(keys=keys, time=time, payload=payload)))


def _spark(spark: SparkSession, base: Path) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    frame = source(spark, base / "left", LEFT)
    return frame.groupBy("k").agg(
        F.count(F.lit(1)).alias("rows"), F.max_by("x", "t").alias("newest")
    )


if __name__ == "__main__":
    for found in figures(quick="--quick" in sys.argv):
        print(found)
