"""Holdfast against a Python user's other stores: quixstreams' state, rocksdict, lmdb, sqlite.

All are measured in turns in one process, `python/measure.py`. It runs in a virtual environment of
its own, in which the peers are installed (`requirements.lock`).
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from statistics import median

from figure import LEAST_TURNS, Figure, ratios

HERE = Path(__file__).resolve().parent

WHOLE, QUICK = (1_000_000, LEAST_TURNS), (100_000, 1)
"""Records and turns."""

Round = dict[str, dict[str, dict[str, float]]]
"""By store and workload: operations, and seconds by the wall, of the thread, of the process."""

PEERS = {
    "quixstreams": ["quixstreams"],
    "rocksdict": ["rocksdict", "rocksdict, lists"],
    "lmdb": ["lmdb", "lmdb, multi"],
    "sqlite": ["sqlite"],
}
"""The forms of each peer. Our batch methods are compared with the fastest of them, our scalar
methods with the first, which also makes a call for each key.
"""

OURS = {"": "no WAL, cache 128 MiB, LZ4", ", fsync": "WAL, fsync a commit, cache 128 MiB, LZ4"}
SETTINGS = {
    "quixstreams": dict.fromkeys(("", ", fsync"), "WAL without fsync, cache 128 MiB, LZ4"),
    "rocksdict": {
        "": "no WAL, cache 128 MiB, LZ4",
        ", fsync": "WAL, fsync a commit, cache 128 MiB, LZ4",
    },
    "lmdb": {
        "": "no fsync, page cache, no compression",
        ", fsync": "fsync a commit, page cache, no compression",
    },
    "sqlite": {
        "": "WAL, synchronous=OFF, cache 128 MiB, no compression",
        ", fsync": "WAL, synchronous=FULL, cache 128 MiB, no compression",
    },
}
"""By peer and by the suffix of its form, as `python/stores.py` opens them."""

NOT_AHEAD = {("get", "lmdb")}
"""Workloads and peers for which our scalar methods are not expected to be ahead."""


def measured(size: int, rounds: int) -> list[Round]:
    """Runs all rounds and returns their results."""
    target = Path(os.environ["CARGO_TARGET_DIR"]) / "peers/python"
    subprocess.run([HERE / "environment", HERE / "requirements.lock", target], check=True)
    found: list[Round] = [{} for _ in range(rounds)]
    with tempfile.TemporaryDirectory() as folder:
        command = [
            target / "bin/python",
            HERE / "python/measure.py",
            folder,
            str(size),
            str(rounds),
        ]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    for line in output.splitlines():
        turn = json.loads(line)
        found[turn["round"]][turn["store"]] = turn["taken"]
    return found


def turns(rounds: list[Round], what: str, ours: str, theirs: list[str], clock: str) -> list[float]:
    """Our throughput divided by that of their fastest form, in each turn."""
    return ratios(
        (min(found[form][what][clock] for form in theirs), found[ours][what][clock])
        for found in rounds
    )


def rate(rounds: list[Round], what: str, store: str) -> float:
    """Thousands of operations a second, the median of the rounds."""
    return median(
        found[store][what]["operations"] / found[store][what]["wall"] / 1000 for found in rounds
    )


def rows(rounds: list[Round], what: str, words: str, suffix: str = "") -> list[Figure]:
    """A workload's figures."""
    figures = []
    for ours in ("holdfast, batches", "holdfast, scalars"):
        batches = ours.endswith("batches")
        for peer, forms in PEERS.items():
            # quixstreams has no fsync, so its usual commit stands in for one.
            theirs = [
                form + suffix if form + suffix in rounds[0] else form
                for form in (forms if batches else forms[:1])
            ]
            theirs = [form for form in theirs if what in rounds[0][form]]
            reach = ">= 10" if batches and peer == "quixstreams" else ">= 1"
            if not batches and (what, peer) in NOT_AHEAD:
                reach = ""
            best = max(theirs, key=lambda form: rate(rounds, what, form))
            note = (
                f"{rate(rounds, what, ours + suffix):,.0f} against "
                f"{rate(rounds, what, best):,.0f} thousand a second ({best}); "
            )
            note += (
                "of the thread's processor time "
                f"{median(turns(rounds, what, ours + suffix, theirs, 'thread')):.1f}"
            )
            found = turns(rounds, what, ours + suffix, theirs, "wall")
            settings = f"Holdfast: {OURS[suffix]}; {peer}: {SETTINGS[peer][suffix]}"
            figures.append(
                Figure(
                    f"{words}, {ours.rpartition(', ')[2]}",
                    peer,
                    found,
                    reach,
                    "throughput",
                    note,
                    settings,
                )
            )
    return figures


def figures(*, quick: bool) -> list[Figure]:
    """One row for each workload, peer and form of ours."""
    rounds = measured(*(QUICK if quick else WHOLE))
    return [
        *rows(rounds, "put", "put and commit, no fsync"),
        *rows(rounds, "put", "put and commit, fsync", ", fsync"),
        *rows(rounds, "get", "get"),
        *rows(rounds, "read-modify-write", "read-modify-write"),
        *rows(rounds, "scan", "scan"),
    ]
