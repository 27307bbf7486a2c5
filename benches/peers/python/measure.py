"""Measures all stores in one process, in turns.

`measure.py FOLDER SIZE ROUNDS` prints a line of JSON for each store and round.

A turn is one store from an empty folder: puts, then gets, a scan and read-modify-writes once its
background work is done.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import _records as records
import numpy as np
import pyarrow as pa
from _clock import Clock, settle

import stores

BATCH = 10_000

MEASURED: dict[str, tuple[Any, bool]] = {
    "holdfast, batches": (stores.HoldfastBatch, False),
    "holdfast, scalars": (stores.HoldfastScalar, False),
    "quixstreams": (stores.Quixstreams, False),
    "rocksdict": (stores.Rocksdict, False),
    "rocksdict, lists": (stores.RocksdictList, False),
    "lmdb": (stores.Lmdb, False),
    "lmdb, multi": (stores.LmdbMulti, False),
    "sqlite": (stores.Sqlite, False),
    "holdfast, batches, fsync": (stores.HoldfastBatch, True),
    "holdfast, scalars, fsync": (stores.HoldfastScalar, True),
    "rocksdict, fsync": (stores.Rocksdict, True),
    "lmdb, fsync": (stores.Lmdb, True),
    "lmdb, multi, fsync": (stores.LmdbMulti, True),
    "sqlite, fsync": (stores.Sqlite, True),
}
"""Each store with whether its commits wait for the disk. If they do, only puts are measured,
because reads do not wait for the disk, and read-modify-writes commit in the same way as puts.
"""


def turn(
    made: Any, folder: Path, size: int, seed: int, *, sync: bool
) -> dict[str, dict[str, float]]:
    """One store's times by workload."""
    store: stores.Store = made(folder, sync=sync)
    taken: dict[str, dict[str, float]] = {}

    def batches(column: pa.Array) -> list[stores.Batch]:
        slices = [column[first : first + BATCH] for first in range(0, len(column), BATCH)]
        return slices if store.arrow else [some.to_pylist() for some in slices]

    def timed(what: str, work: Any, *inputs: list[stores.Batch]) -> list[Any]:
        clock, found = Clock(), []
        for batch in zip(*inputs, strict=True):
            with clock:
                found.append(work(*batch))
        taken[what] = {**clock.taken, "operations": sum(len(batch) for batch in inputs[0])}
        return found

    numbers = np.arange(size, dtype=np.uint64)
    values = records.values(numbers)
    timed("put", store.put, batches(records.keys(numbers)), batches(values))
    if not sync:
        settle(os.getpid())
        for which in (seed + 1, seed):  # once for the caches
            drawn = records.draw(which, size // 5, size)
            found = timed("get", store.get, batches(records.keys(drawn)))
            check(found, records.first_words(records.values(drawn)))
        clock = Clock()
        for _ in range(2):
            clock = Clock()
            with clock:
                rows = store.scan()
        if rows != size:
            raise RuntimeError(f"the scan saw {rows} rows of {size}")
        taken["scan"] = {**clock.taken, "operations": size}
        few = size // 10
        drawn = records.draw(seed + 2, size // 5, few)
        timed("read-modify-write", store.increment, batches(records.keys(drawn)))
        counts = np.bincount(drawn.astype(np.int64), minlength=few)
        found = [store.get(batch) for batch in batches(records.keys(numbers[:few]))]
        check(found, records.first_words(records.values(numbers[:few])) + counts)
    store.close()
    return taken


def check(found: list[Any], expected: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
    """Fails unless the values begin with those numbers."""
    words = [records.first_words(pa.array(batch, pa.binary())) for batch in found]
    if not np.array_equal(np.concatenate(words), expected):
        raise RuntimeError("a store returned other values than were put into it")


def main() -> None:
    """Runs all rounds and prints their results."""
    folder, size, rounds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    names = list(MEASURED)
    for number in range(-1, rounds):  # the first warms up
        first = number % len(names)
        for name in names[first:] + names[:first]:
            made, sync = MEASURED[name]
            with tempfile.TemporaryDirectory(dir=folder) as own:
                taken = turn(
                    made,
                    Path(own),
                    size if number >= 0 else size // 10,
                    10 * (number + 2),
                    sync=sync,
                )
            if number >= 0:
                print(json.dumps({"round": number, "store": name, "taken": taken}), flush=True)


if __name__ == "__main__":
    main()
