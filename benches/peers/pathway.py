"""Holdfast on Spark against Pathway: the join of two streams, and the best match of each key.

Both read the same rows with two threads and write no result. Pathway reads CSV, because its reader
of Parquet (Delta Lake) needs a licence key. Its persistence of inputs and offsets needs none; that
of operators' state does. The answers must be the same, else the bench fails. Windows are not
compared: the two close them at other moments, so their answers differ at the end of a stream.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(folder) for folder in (HERE, HERE.parent, HERE.parent / "spark")]

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from _streams import session
from _two_streams import (
    SIDES,
    StreamQuery,
    Streams,
    best_match,
    join,
    results_of_spark,
    run_of_spark,
)
from figure import LEAST_TURNS, Figure

if TYPE_CHECKING:
    from collections.abc import Callable


THREADS = 2
INTERVAL = 1000
"""Milliseconds between two snapshots of Pathway."""
WORDS = (
    "Holdfast: a commit with fsync each micro-batch, default memory, Parquet; Pathway: state in "
    "memory, inputs and offsets persisted in local files every 1 s (state would need a licence "
    "key), at least once, CSV"
)


@dataclass(frozen=True)
class Answer:
    """What both must find: the number of rows of the result, and the sum of a column."""

    rows: int
    total: float

    def check(self, other: Answer, what: str) -> None:
        """Raises an error if the other one differs."""
        if self.rows != other.rows or not math.isclose(self.total, other.total, rel_tol=1e-9):
            raise RuntimeError(f"{what}: Holdfast finds {self}, Pathway finds {other}")


@dataclass(frozen=True)
class Query:
    """A query by the name that `pathway-live/measure.py` has for it."""

    name: str
    what: str
    reach: str
    ours: StreamQuery
    answer: Callable[[pa.Table], Answer]
    """From all rows that our run has emitted."""


def _of_join(emitted: pa.Table) -> Answer:
    return Answer(emitted.num_rows, sum(emitted.column("x").to_pylist()))


def _of_best_match(emitted: pa.Table) -> Answer:
    """A key's last row is its newest; those before were updates."""
    keys, best = (emitted.column(name).to_pylist() for name in ("k", "best"))
    newest = dict(zip(keys, best, strict=True))
    return Answer(len(newest), sum(newest.values()))


QUERIES = [
    Query("join", "two streams joined by key within an hour", ">= 0.9", join, _of_join),
    Query(
        "best match",
        "two streams joined by key within an hour, the best match of each key",
        ">= 0.9",
        best_match,
        _of_best_match,
    ),
]


def _csv(streams: Streams, days: int, side: str) -> Path:
    return streams.base / f"{days}-days" / f"{side}-csv"


def _write_csv(streams: Streams) -> None:
    """The same rows as the Parquet files, times in microseconds."""
    for days in streams.days:
        for side in SIDES:
            folder = _csv(streams, days, side)
            folder.mkdir()
            for file in sorted(streams.folder(days, side).glob("*.parquet")):
                table = pq.read_table(file)
                for number, field in enumerate(table.schema):
                    if pa.types.is_timestamp(field.type):
                        times = table.column(number).cast(pa.int64())
                        table = table.set_column(number, field.name, times)
                target = folder / f"{file.stem}.csv"
                pyarrow.csv.write_csv(table, target)
                # Pathway reads the oldest file first.
                os.utime(target, (file.stat().st_mtime,) * 2)


class Pathway:
    """Pathway's environment. Each run is a process of its own."""

    def __init__(self) -> None:
        target = Path(os.environ["CARGO_TARGET_DIR"]) / "peers/pathway"
        lock = HERE / "pathway-live/requirements.lock"
        subprocess.run([HERE / "environment", lock, target], check=True)
        self._python = target / "bin/python"

    def run(self, streams: Streams, days: int, query: Query) -> tuple[float, Answer]:
        """The seconds of a whole run and its answer."""
        folders = {side: str(_csv(streams, days, side)) for side in SIDES}
        rows = {
            side: sum(
                pq.read_metadata(file).num_rows
                for file in streams.folder(days, side).glob("*.parquet")
            )
            for side in SIDES
        }
        with tempfile.TemporaryDirectory(dir=streams.base) as store:
            job = {
                **folders,
                "rows": rows,
                "query": query.name,
                "store": store,
                "interval": INTERVAL,
            }
            output = subprocess.run(
                [self._python, HERE / "pathway-live/measure.py", json.dumps(job)],
                check=True,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PATHWAY_THREADS": str(THREADS)},
            ).stdout
        found = json.loads(output.splitlines()[-1])
        return found["seconds"], Answer(found["rows"], found["total"])


def figures(*, quick: bool) -> list[Figure]:
    """Both queries in turns."""
    turns = 1 if quick else LEAST_TURNS
    rows, few, many = (10_000, 1, 3) if quick else (100_000, 2, 7)
    pathway = Pathway()
    spark = session()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        streams = Streams(Path(folder), rows, rows, few, many)
        streams.make()
        _write_csv(streams)
        found = []
        for query in QUERIES:
            print(f"  {query.what}, {rows:,} rows a micro-batch", flush=True)
            found.append(_figure(spark, pathway, streams, query, turns))
    spark.stop()
    return found


def _figure(spark: Any, pathway: Pathway, streams: Streams, query: Query, turns: int) -> Figure:
    def scratch() -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory(dir=streams.base, ignore_cleanup_errors=True)

    def answer(days: int) -> Answer:
        with scratch() as root:
            emitted = results_of_spark(spark, streams, days, query.ours, Path(root))
        return query.answer(emitted)

    def ours(days: int) -> float:
        with scratch() as root:
            return run_of_spark(spark, streams, days, query.ours, Path(root))

    # Spark compiles its code here, too.
    answers = {days: answer(days) for days in streams.days}

    def theirs(days: int) -> float:
        seconds, found = pathway.run(streams, days, query)
        answers[days].check(found, query.what)
        return seconds

    taken = [(streams.seconds(ours), streams.seconds(theirs)) for _ in range(turns)]
    our, their = (
        streams.sum_of_rows(len(SIDES)) / median(seconds) for seconds in zip(*taken, strict=True)
    )
    return Figure(
        f"{query.what}, {streams.rows:,} rows a micro-batch, {streams.keys:,} keys",
        f"Pathway 0.33, snapshots every {INTERVAL // 1000} s",
        [other / one for one, other in taken],
        query.reach,
        "throughput",
        f"{our:,.0f} rows/s against {their:,.0f} rows/s; the same {answers[streams.many].rows:,} "
        "rows of the result",
        WORDS,
    )


if __name__ == "__main__":
    for figure in figures(quick="--quick" in sys.argv):
        print(figure, flush=True)
