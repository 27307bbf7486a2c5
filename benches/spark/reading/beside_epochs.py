"""The epochs of `join_asof` beside readers, against those without any."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

sys.path[:0] = [str(folder) for folder in (Path(__file__).parent, *Path(__file__).parents[1:3])]

import numpy as np
from _client import Client
from _streams import OURS, join_asof, left_file, middle, right_file, session
from figure import Figure, ratios

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

KEYS = 1_000_000
ROWS = 100_000
RIGHT_SHARE = 10
SKIP = 3
SETTLE = 0.3
"""Seconds between the start of the clients and the next files."""


class _Blocks:
    """A running join that gets its micro-batches in blocks."""

    def __init__(self, base: Path, query: StreamingQuery, rows: int, keys: int) -> None:
        self._base, self._query = base, query
        self._rows, self._keys = rows, keys
        self._random = np.random.default_rng(7)
        self._written = 0
        self._seen = -1

    def run(self, batches: int) -> list[float]:
        """Milliseconds of each whole micro-batch of a block."""
        written = self._base / "written"
        rights = self._rows // RIGHT_SHARE
        for _ in range(batches):
            number, rows = self._written, self._rows - rights
            right_file(written / "right", number, rights, self._keys, self._random)
            left_file(written / "left", number, rows, self._keys, self._random)
            self._written += 1
        # Spark must not see half a file.
        for file in sorted(written.glob("*/*")):
            file.rename(self._base / file.relative_to(written))
        # The first call may return after a listing that was made before these files were there.
        for _ in range(2):
            self._query.processAllAvailable()
        found = [
            progress
            for progress in self._query.recentProgress
            if progress.batchId > self._seen and progress.numInputRows > 0
        ]
        self._seen = found[-1].batchId
        # Spark may see a file of one side before that of the other.
        whole = max(progress.numInputRows for progress in found)
        return [p.durationMs["triggerExecution"] for p in found if p.numInputRows == whole]


def figures(*, quick: bool) -> list[Figure]:
    """Blocks of micro-batches with and without the clients, in turns in one query."""
    spark = session()
    keys, rows, turns, batches = (KEYS // 10, ROWS // 10, 2, 4) if quick else (KEYS, ROWS, 12, 6)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        base = Path(folder)
        for side in ("left", "right"):
            (base / side).mkdir()
        writer = join_asof(spark, base, base / "state").writeStream.format("noop")
        query = writer.option("checkpointLocation", str(base / "state" / "query")).start()
        blocks = _Blocks(base, query, rows, keys)
        blocks.run(SKIP)
        clients = [Client(what, base / "state") for what in ("reads", "scan")]
        pairs, speeds = [], []
        for _ in range(turns):
            alone = blocks.run(batches)
            for client in clients:
                client.go()
            time.sleep(SETTLE)
            beside = blocks.run(batches)
            speeds.append([client.pause() for client in clients])
            pairs.append((middle(beside), middle(alone)))
        for client in clients:
            client.end()
        query.stop()
    spark.stop()
    reads, scanned = (middle(list(side)) for side in zip(*speeds, strict=True))
    note = (
        f"{middle([beside for beside, _ in pairs]):.0f} ms against "
        f"{middle([alone for _, alone in pairs]):.0f}; turns of {batches} micro-batches; "
        f"the clients read {reads:,.0f} keys and "
        f"{scanned / 1e6:.1f} MB a second"
    )
    return [
        Figure(
            f"epochs of join_asof, {rows:,} rows, {keys:,} keys, beside 1,000 reads of a key a "
            "second and a scan of 10 MB/s, both at nice 19",
            "the same without readers",
            ratios(pairs),
            "<= 1.05",
            "time",
            note,
            OURS,
        )
    ]


if __name__ == "__main__":
    for found in figures(quick="--quick" in sys.argv):
        print(found)
