"""Peers of a Python user, in one process in turns: quixstreams' state, rocksdict, lmdb, sqlite.

The peers live in a virtual environment of their own (`requirements.lock`), where
`python/measure.py` runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from statistics import median

from figure import Figure

HERE = Path(__file__).resolve().parent

WHOLE, QUICK = (1_000_000, 5), (100_000, 1)
"""Records and rounds."""

Round = dict[str, dict[str, dict[str, float]]]
"""By store and workload: operations, and seconds by the wall, of the thread, of the process."""

PEERS = {
    "quixstreams": ["quixstreams"],
    "rocksdict": ["rocksdict", "rocksdict, lists"],
    "lmdb": ["lmdb", "lmdb, multi"],
    "sqlite": ["sqlite"],
}
"""Our batches meet the fastest of a peer's forms, our scalars the first, which is one call a key as
well.
"""

NOT_AHEAD = {("get", "lmdb")}
"""Where our scalars are not expected to be ahead."""


def measured(size: int, rounds: int) -> list[Round]:
    """All rounds."""
    target = Path(os.environ["CARGO_TARGET_DIR"]) / "peers/python"
    subprocess.run([HERE / "python/setup", target], check=True)
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


def ratio(rounds: list[Round], what: str, ours: str, theirs: list[str], clock: str) -> float:
    """Our throughput by theirs, the best of their forms: the median of the rounds."""
    return median(
        min(found[form][what][clock] for form in theirs) / found[ours][what][clock]
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
                f"{ratio(rounds, what, ours + suffix, theirs, 'thread'):.1f}"
            )
            found = ratio(rounds, what, ours + suffix, theirs, "wall")
            figures.append(
                Figure(
                    f"{words}, {ours.rpartition(', ')[2]}", peer, found, reach, "throughput", note
                )
            )
    return figures


def figures(*, quick: bool) -> list[Figure]:
    """A row a workload, form of ours and peer."""
    rounds = measured(*(QUICK if quick else WHOLE))
    return [
        *rows(rounds, "put", "put and commit, no fsync"),
        *rows(rounds, "put", "put and commit, fsync", ", fsync"),
        *rows(rounds, "get", "get"),
        *rows(rounds, "read-modify-write", "read-modify-write"),
        *rows(rounds, "scan", "scan"),
    ]
