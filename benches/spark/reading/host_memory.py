"""Resident memory of a host with many connections and open scans, over its setting."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

sys.path[:0] = [str(folder) for folder in (Path(__file__).parent, *Path(__file__).parents[1:3])]

from _live_table import NAME, drawn_keys, live_table
from _streams import middle, session
from figure import LEAST_TURNS, Figure

import holdfast as hf

ROWS = 5_000_000
CONNECTIONS = 1_000
SCANS = 50
MEMORY = "256m"


def figures(*, quick: bool) -> list[Figure]:
    """Each reader has a connection of its own. An open scan has read one batch."""
    sizes = (200_000, 100, 10) if quick else (ROWS, CONNECTIONS, SCANS)
    count, connections, scans = sizes
    limit = int(MEMORY.removesuffix("m"))
    turns = [_measured(*sizes) for _ in range(1 if quick else LEAST_TURNS)]
    before, connected, resident = (middle(list(step)) for step in zip(*turns, strict=True))
    return [
        Figure(
            f"resident memory of a host of {count:,} rows with {connections:,} connections and "
            f"{scans} open scans",
            f"State(memory={MEMORY!r})",
            [resident / limit for _, _, resident in turns],
            "<= 1",
            "memory",
            f"{resident:.0f} MiB; {connected:.0f} MiB without the scans, {before:.0f} MiB without "
            f"the connections; {connections:,} connections",
            f"host {MEMORY}",
        )
    ]


def _measured(*sizes: int) -> list[float]:
    """MiB of a host with its rows alone, with the connections, and with the scans.

    The driver is a process of its own, so that each turn has a new host.
    """
    command = [sys.executable, __file__, *map(str, sizes)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: list[float] = json.loads(output.splitlines()[-1])
    return found


def _child(count: int, connections: int, scans: int) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    spark = session()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, ExitStack() as opened:
        root = opened.enter_context(live_table(spark, Path(folder), count, memory=MEMORY))
        readers = [
            opened.enter_context(hf.connect(root, offline="never")) for _ in range(connections)
        ]
        (host,) = readers[0].metrics()
        process = int(host["host"].partition("-")[0])
        before = _resident(process)
        tables = [reader[NAME] for reader in readers]
        keys = drawn_keys(count, connections).to_pylist()
        for table, key in zip(tables, keys, strict=True):
            table.get(key)
        connected = _resident(process)
        streams = [table.scan() for table in tables[:scans]]
        for stream in streams:
            stream.read_next_batch()
        # The scans hold connections, so these readers open others.
        for table, key in zip(tables, keys, strict=True):
            table.get(key)
        (host,) = readers[-1].metrics()
        if host["connections"] < connections:
            raise AssertionError(f"the host has {host['connections']} connections")
        resident = _resident(process)
        for stream in streams:
            stream.close()
    spark.stop()
    print(json.dumps([before, connected, resident]))


def _resident(process: int) -> float:
    """MiB of a process."""
    status = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmRSS")).split()[1]) / 1024


if __name__ == "__main__":
    _child(*map(int, sys.argv[1:]))
