"""The look-up join of a stream with another query's state, against an identity function."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(folder) for folder in (Path(__file__).parent, *Path(__file__).parents[1:3])]

from _live_table import live_table
from _lookups import KEYS, ORDERS, ROWS, by_function, in_words, looked_up, rate, write_orders
from _streams import OURS, same, session
from figure import LEAST_TURNS, Figure, ratios


def figures(*, quick: bool) -> list[Figure]:
    """Both streams read the same files, in turns."""
    keys, rows, turns = (KEYS // 10, ROWS // 10, 1) if quick else (KEYS, ROWS, LEAST_TURNS)
    spark = session()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        base = Path(folder)
        write_orders(base / "orders", rows, keys, 3 if quick else 10)
        with live_table(spark, base, keys) as root:

            def ours(turn: int) -> float:
                return rate(looked_up(spark, base / "orders", root), base / f"lookup{turn}")

            def identity(turn: int) -> float:
                frame = by_function(spark, base / "orders", same, ORDERS)
                return rate(frame, base / f"identity{turn}")

            identity(-1)
            pairs = [(ours(turn), identity(turn)) for turn in range(turns)]
    spark.stop()
    return [
        Figure(
            f"lookup of a stream in another query's state of {keys:,} keys, {rows:,} rows a "
            "micro-batch",
            "the same stream through an identity mapInArrow",
            ratios(pairs),
            ">= 0.5",
            "rows/s",
            in_words(pairs),
            OURS,
        )
    ]


if __name__ == "__main__":
    for found in figures(quick="--quick" in sys.argv):
        print(found)
