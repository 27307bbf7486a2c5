"""The fixed cost of a micro-batch: `join_asof` on 1,000 rows, over an identity function."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import numpy as np
from _streams import OURS, join_asof, left_file, middle, progress, right_file, same_join, session
from figure import LEAST_TURNS, Figure

KEYS = 1_000
ROWS = 1_000
SKIP = 3


def figures(*, quick: bool) -> list[Figure]:
    """Milliseconds of a whole micro-batch beyond the identity plan's.

    Spark's own logs are included.
    """
    spark = session()
    turns, batches = (1, 8) if quick else (LEAST_TURNS, 20)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        base = Path(folder)
        random = np.random.default_rng(7)
        for number in range(SKIP + batches):
            right_file(base / "right", number, ROWS // 10, KEYS, random)
            left_file(base / "left", number, ROWS - ROWS // 10, KEYS, random)

        def times(plan: str, turn: int) -> list[float]:
            root = base / f"{plan}{turn}"
            frame = join_asof(spark, base, root) if plan == "join" else same_join(spark, base)
            return [
                p.durationMs["triggerExecution"] for p in progress(frame, root / "query", skip=SKIP)
            ]

        # The first query of a session warms Spark up.
        times("identity", -1)
        pairs = [(times("join", turn), times("identity", turn)) for turn in range(turns)]
    spark.stop()
    ours, theirs = ([time for times in side for time in times] for side in zip(*pairs, strict=True))
    beyond = [middle(a) - middle(b) for a, b in pairs]
    note = f"{middle(ours):.0f} ms against {middle(theirs):.0f}, medians of {len(ours)} batches"
    what = (
        f"a micro-batch of {ROWS:,} rows through join_asof on Spark, 2 partitions, local root: "
        "its fixed cost"
    )
    return [
        Figure(
            what,
            "beyond the same plan with an identity mapInArrow",
            beyond,
            "<= 60",
            "ms",
            note,
            OURS,
        )
    ]


if __name__ == "__main__":
    for found in figures(quick="--quick" in sys.argv):
        print(found)
