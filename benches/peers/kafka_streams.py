"""Kafka Streams' RocksDB stores (Java, from Maven Central) against Holdfast's batch methods.

Both sides process the same records on one thread each, in turns: all workloads here, then all
there. Both have 128 MiB of block cache and of write buffers. Neither has a write-ahead
log, because in both a changelog takes its place. The JVM is warmed up first.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Self

import _records as records
import numpy as np
import pyarrow as pa
from _clock import Clock, settle
from figure import LEAST_TURNS, Figure, ratios

import holdfast as hf

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
BATCH = 10_000
RESTORE_BATCH = 1_000
"""The most records that Kafka Streams' restore consumer passes on at once. A restore of Holdfast
takes as many as its log holds, so it is measured with both sizes.
"""
RETENTION_MS = 3_600_000
HISTORY_MS = 3_000_000
"""The time that all versions cover: less than the retention, so none is dropped."""
WHOLE, QUICK = (1_000_000, LEAST_TURNS), (200_000, 1)
"""Records and turns."""
SETTINGS = (
    "no WAL (a changelog takes its place), no fsync; cache 128 MiB, write buffers 128 MiB; "
    "Holdfast LZ4, Kafka Streams no compression, its default"
)
CHANGELOG = ("bench-store-changelog", 0)

REACH = {
    "put": ("puts, commits of {batch:,}", 1.8),
    "get": ("gets in batches of {batch:,}", 3.0),
    "versioned put": ("versioned puts, ascending, 10 versions a key", 5.0),
    "get as of": ("gets as of a random time in batches of {batch:,}", 8.0),
    "restore": ("restore, batches of {batch:,} against {restore:,}", 3.0),
    "versioned restore": ("versioned restore, batches of {batch:,} against {restore:,}", 8.0),
    "restore, small": ("restore, batches of {restore:,} against {restore:,}", None),
    "versioned restore, small": (
        "versioned restore, batches of {restore:,} against {restore:,}",
        None,
    ),
}

Taken = dict[str, dict[str, float]]
"""By workload: wall, thread and process seconds, and the sum of what was read."""


class Java:
    """The JVM of the other side: it reads and answers a line for each workload."""

    def __init__(self, build: Path) -> None:
        classpath = f"{build}/classes:{build}/lib/*"
        java = Path(os.environ["JAVA_HOME"]) / "bin/java" if "JAVA_HOME" in os.environ else "java"
        command = [
            str(java),
            "-Xms2g",
            "-Xmx2g",
            "-cp",
            classpath,
            "org.apache.kafka.streams.state.internals.Turns",
        ]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.communicate()

    def ask(self, *words: object) -> dict[str, float]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the JVM ended at {words}")
        return json.loads(line)

    def settle(self) -> None:
        settle(self._process.pid)


def whole(reads: int) -> int:
    """The reads, rounded down to whole batches: the other side makes only those."""
    return max(reads // BATCH, 1) * BATCH


def theirs(java: Java, folder: Path, size: int, seed: int) -> Taken:
    """One round of Kafka Streams."""
    keys, step, reads = size // 10, HISTORY_MS // size, whole(size // 4)
    taken: Taken = {}

    def opened(kind: str, work: Callable[[], None]) -> None:
        directory = Path(tempfile.mkdtemp(dir=folder))
        java.ask("open", kind, directory)
        work()
        java.ask("close")
        shutil.rmtree(directory)

    def plain() -> None:
        taken["put"] = java.ask("put", size, size, 0)
        java.settle()
        java.ask("get", seed + 100, reads, size)
        taken["get"] = java.ask("get", seed, reads, size)

    def versioned() -> None:
        taken["versioned put"] = java.ask("put", size, keys, step)
        java.settle()
        java.ask("get-as-of", seed + 100, reads // 4, keys, keys * step, size * step)
        taken["get as of"] = java.ask("get-as-of", seed, reads, keys, keys * step, size * step)

    opened("plain", plain)
    opened("versioned", versioned)
    opened("plain", lambda: taken.update({"restore": java.ask("restore", size, size, 0)}))
    opened(
        "versioned",
        lambda: taken.update({"versioned restore": java.ask("restore", size, keys, step)}),
    )
    return {
        **taken,
        "restore, small": taken["restore"],
        "versioned restore, small": taken["versioned restore"],
    }


class Ours:
    """One round of Holdfast; its times are in `taken`."""

    def __init__(self, folder: Path, size: int, seed: int) -> None:
        self.folder, self.size, self.seed = folder, size, seed
        self.keys, self.step, self.reads = size // 10, HISTORY_MS // size, whole(size // 4)
        numbers = np.arange(size, dtype=np.uint64)
        self.values = records.values(numbers)
        self.plain_keys, self.versioned_keys = (
            records.keys(numbers),
            records.keys(numbers % np.uint64(self.keys)),
        )
        self.times = pa.array(numbers.astype(np.int64) * self.step * 1000)
        self.taken: Taken = {}

    def round(self) -> Taken:
        plain = hf.stores.key_value("store")
        versioned = hf.stores.versioned("store", history_retention=RETENTION_MS * 1000)
        self.with_database(plain, self.plain)
        self.with_database(versioned, self.versioned)
        for rows, small in ((BATCH, ""), (RESTORE_BATCH, ", small")):
            plain_restore = partial(self.restore, "restore" + small, rows, self.plain_keys, None)
            self.with_database(plain, plain_restore)
            versioned_restore = partial(
                self.restore, "versioned restore" + small, rows, self.versioned_keys, self.times
            )
            self.with_database(versioned, versioned_restore)
        return self.taken

    def with_database(
        self, builder: hf.stores.StoreBuilder, work: Callable[[hf.Database], None]
    ) -> None:
        with (
            tempfile.TemporaryDirectory(dir=self.folder) as directory,
            hf.open(Path(directory) / "db", [builder], durability=hf.Durability.CHANGELOG) as db,
        ):
            work(db)

    def timed(self, what: str, count: int, rows: int, work: Callable[[slice], Any]) -> list[Any]:
        clock, found = Clock(), []
        for first in range(0, count, rows):
            with clock:
                found.append(work(slice(first, first + rows)))
        self.taken[what] = {**clock.taken, "sum": 0}
        return found

    def add_up(self, what: str, columns: list[pa.Array]) -> None:
        with np.errstate(over="ignore"):
            self.taken[what]["sum"] = int(
                sum((records.first_words(column).sum() for column in columns), np.int64(0))
            )

    def plain(self, db: hf.Database) -> None:
        store = db["store"]

        def put(some: slice) -> None:
            store.put_batch(self.plain_keys[some], self.values[some])
            db.commit({CHANGELOG: some.stop - 1})

        self.timed("put", self.size, BATCH, put)
        settle(os.getpid())
        for seed in (self.seed + 100, self.seed):  # the first time for the caches
            wanted = records.keys(records.draw(seed, self.reads, self.size))
            found = self.timed(
                "get", self.reads, BATCH, lambda some, wanted=wanted: store.get_batch(wanted[some])
            )
        self.add_up("get", found)

    def versioned(self, db: hf.Database) -> None:
        store = db["store"]

        def put(some: slice) -> None:
            store.put_batch(self.versioned_keys[some], self.values[some], self.times[some])
            db.commit({CHANGELOG: some.stop - 1})

        self.timed("versioned put", self.size, BATCH, put)
        settle(os.getpid())
        low, high = self.keys * self.step, self.size * self.step
        for seed, count in ((self.seed + 100, self.reads // 4), (self.seed, self.reads)):
            wanted = records.keys(records.draw(seed, count, self.keys))
            times = low + records.draw(seed + 1, count, high - low).astype(np.int64)
            at = pa.array(times * 1000)
            found = self.timed(
                "get as of",
                count,
                BATCH,
                lambda some, wanted=wanted, at=at: store.get_batch(wanted[some], at[some]),
            )
        self.add_up("get as of", [pa.record_batch(batch).column("value") for batch in found])

    def restore(
        self, what: str, rows: int, keys: pa.Array, times: pa.Array | None, db: hf.Database
    ) -> None:
        def batch(some: slice) -> None:
            at = None if times is None else times[some]
            db.restore_batch("store", keys[some], self.values[some], at, {CHANGELOG: some.stop - 1})

        self.timed(what, self.size, rows, batch)


def built() -> Path:
    """Compiles the Java program; returns its folder."""
    build = Path(os.environ["CARGO_TARGET_DIR"]) / "peers/kafka-streams"
    subprocess.run(
        ["mvn", "--quiet", "--batch-mode", "package", f"-Dbuild.folder={build}"],
        cwd=HERE / "kafka-streams",
        check=True,
    )
    return build


def figures(*, quick: bool) -> list[Figure]:
    """One row for each workload."""
    size, turns = QUICK if quick else WHOLE
    with tempfile.TemporaryDirectory() as folder, Java(built()) as java:
        theirs(java, Path(folder), 40_000 if quick else 200_000, 1)  # warm
        pairs = [
            (Ours(Path(folder), size, 2 * n).round(), theirs(java, Path(folder), size, 2 * n))
            for n in range(1, turns + 1)
        ]
    found = []
    for what, (words, reach) in REACH.items():
        for mine, other in pairs:
            if mine[what]["sum"] != other[what]["sum"]:
                raise RuntimeError(f"{what}: the two sides read different values")
        ratio = {
            clock: ratios((other[what][clock], mine[what][clock]) for mine, other in pairs)
            for clock in ("wall", "thread", "process")
        }
        seconds = " against ".join(
            f"{median(pair[side][what]['wall'] for pair in pairs):.2f} s" for side in (0, 1)
        )
        note = (
            f"{seconds}; of the thread's processor time {median(ratio['thread']):.1f}, of the "
            f"process's {median(ratio['process']):.1f}"
        )
        measured = words.format(batch=BATCH, restore=RESTORE_BATCH) + ", batch methods from Python"
        aim = "" if reach is None else f">= {reach}"
        found.append(
            Figure(
                measured,
                "Kafka Streams 4.3.1, its own RocksDB store",
                ratio["wall"],
                aim,
                "throughput",
                note,
                SETTINGS,
            )
        )
    return found
