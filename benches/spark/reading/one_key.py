"""A read of one key, against an echo of 100 bytes by the same client and the same host."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path[:0] = [str(folder) for folder in (Path(__file__).parent, *Path(__file__).parents[1:3])]

import numpy as np
from _live_table import NAME, drawn_keys, live_table
from _streams import OURS, cluster_session, middle
from figure import Figure, ratios

import holdfast as hf

if TYPE_CHECKING:
    from collections.abc import Callable

KEYS = 100_000
PAYLOAD = bytes(range(100))
REACH = {50: "<= 2.5", 99: "<= 5"}
"""By percentile."""


def figures(*, quick: bool) -> list[Figure]:
    """Both percentiles over the Unix socket; the same over TLS."""
    count, turns, calls = (KEYS // 10, 3, 300) if quick else (KEYS, 9, 2_000)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        base = Path(folder)
        # Only the hosts of a cluster listen for other machines.
        spark = cluster_session(base / "spark", "local-cluster[1,2,1024]")
        with live_table(spark, base, count) as root:
            found = _compare(root, count, turns, calls, "by Unix socket")
            _hide_sockets(root)
            found += _compare(root, count, turns, calls, "by TLS")
        spark.stop()
    return found


def _compare(root: Path, count: int, turns: int, calls: int, how: str) -> list[Figure]:
    with hf.connect(root, offline="never") as reader:
        table, core = reader[NAME], reader._connection.core
        keys = drawn_keys(count, calls).to_pylist()
        partitions = table.partitions_of(keys)
        if partitions is None:
            raise AssertionError("the keys of a table choose its partition")

        def read(call: int) -> Any:
            return table.get(keys[call])

        def echo(call: int) -> Any:
            return core.echo(NAME, partitions[call], PAYLOAD)

        if read(0)["v"] != float(keys[0]) or echo(0) != PAYLOAD:
            raise AssertionError("a host answers something else")
        for warm_up in (read, echo):
            _latencies(warm_up, calls)
        pairs = [(_latencies(read, calls), _latencies(echo, calls)) for _ in range(turns)]
    figures = []
    for percentile, reach in REACH.items():
        both = [[float(np.percentile(side, percentile)) for side in pair] for pair in pairs]
        note = (
            f"{middle([ours for ours, _ in both]) * 1e6:.0f} µs against "
            f"{middle([theirs for _, theirs in both]) * 1e6:.0f}; "
            f"turns of {calls:,} calls"
        )
        figures.append(
            Figure(
                f"one key of {count:,} by get of hf.connect, {how}: p{percentile}",
                "an echo of 100 bytes by the same client from the same host",
                ratios((ours, theirs) for ours, theirs in both),
                reach if how == "by Unix socket" else "",
                "time",
                note,
                OURS,
            )
        )
    return figures


def _latencies(call: Callable[[int], Any], calls: int) -> list[float]:
    found = []
    for number in range(calls):
        started = time.perf_counter()
        call(number)
        found.append(time.perf_counter() - started)
    return found


def _hide_sockets(root: Path) -> None:
    """Makes readers of this machine connect as those of others do."""
    for file in (root / "readers").glob("*/*/*"):
        address = json.loads(file.read_text())
        if address["endpoint"] is None:
            raise AssertionError("the host does not listen for other machines")
        file.write_text(json.dumps({**address, "machine": "another"}))


if __name__ == "__main__":
    for figure in figures(quick="--quick" in sys.argv):
        print(figure)
