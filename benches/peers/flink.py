"""Holdfast on Spark against Flink SQL: windows, the newest rows of a key, joins, sessions.

Both read the same rows with two threads and write no result. Flink has its state in RocksDB and
takes exactly-once checkpoints; each micro-batch of Holdfast is a commit. Flink's file source hands
out files in any order, so it reads each stream from two files that have the days in order.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Self

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(folder) for folder in (HERE, HERE.parent, HERE.parent / "spark")]

from _streams import session
from _two_streams import StreamQuery, Streams, best_match, join, run_of_spark
from figure import LEAST_TURNS, Figure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame

    import holdfast.spark as hfs

JAVA = "-Xmx4g"
INTERVALS = ("1 s", "10 s")
"""Between two checkpoints of Flink. `make bench` has the first one only, `make bench-full` both."""
SETTINGS = {
    "parallelism.default": "2",
    "pipeline.object-reuse": "true",
    "restart-strategy.type": "none",
    "state.backend.type": "rocksdb",
    "execution.checkpointing.incremental": "true",
    "execution.checkpointing.mode": "EXACTLY_ONCE",
    "taskmanager.memory.managed.size": "1g",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "50000",
    "table.local-time-zone": "UTC",
}
WORDS = (
    "Holdfast: a commit with fsync each micro-batch, default memory; "
    "Flink: state in RocksDB, 1 GiB, incremental checkpoints in local files, mini-batches of 1 s"
)
ORDER = "k bigint, t timestamp(3), x bigint, note string"
ORDERS = f"{ORDER}, watermark for t as t - interval '2' day"
RATES = """k bigint, since timestamp(3), v double,
    watermark for since as since - interval '2' day, primary key (k) not enforced"""


@dataclass(frozen=True)
class Query:
    """A query in both languages."""

    what: str
    reach: str
    sides: int
    """How many of the streams it reads."""
    ours: StreamQuery
    columns: str
    """The columns of Flink's result."""
    sql: str


def _count(window: Any) -> StreamQuery:
    """Counts by key and window, emitted when the window closes."""

    def count(orders: DataFrame, _rates: DataFrame, state: hfs.State) -> DataFrame:
        import holdfast.spark as hfs

        made = window(hfs)
        return hfs.aggregate(
            orders, by="k", on="t", aggs={"n": "count"}, window=made, emit="close",
            grace="2 days", state=state,
        )  # fmt: skip

    return count


def _count_sql(window: str) -> str:
    columns = "k, window_start, count(*)"
    return f"select {columns} from table({window}) group by k, window_start, window_end"


def _best(values: list[str], order: str, count: int) -> Any:
    def best(orders: DataFrame, _rates: DataFrame, state: hfs.State) -> DataFrame:
        import holdfast.spark as hfs

        aggs = {"best": ("max_by", values, order, count)}
        return hfs.aggregate(orders, by="k", on="t", aggs=aggs, state=state)

    return best


def _best_sql(values: str, order: str, count: int) -> str:
    ranked = f"select *, row_number() over (partition by k order by {order} desc) as r from orders"
    return f"select {values} from ({ranked}) where r <= {count}"


def _asof(orders: DataFrame, rates: DataFrame, state: hfs.State) -> DataFrame:
    import holdfast.spark as hfs

    return hfs.join_asof(
        orders, rates, by="k", left_on="t", right_on="since", history_retention="4 days",
        grace="2 days", state=state,
    )  # fmt: skip


WINDOW = "k bigint, begins timestamp(3), n bigint"
MATCHES = """orders o, rates r
    where o.k = r.k and r.since between o.t - interval '1' hour and o.t + interval '1' hour"""
QUERIES = [
    Query(
        "tumbling counts by key, windows of 6 hours", ">= 0.7", 1,
        _count(lambda hfs: hfs.window("6 hours")),
        WINDOW, _count_sql("tumble(table orders, descriptor(t), interval '6' hour)"),
    ),
    Query(
        "hopping counts by key, windows of 12 hours every 6", ">= 1.1", 1,
        _count(lambda hfs: hfs.window("12 hours", "6 hours")),
        WINDOW,
        _count_sql("hop(table orders, descriptor(t), interval '6' hour, interval '12' hour)"),
    ),
    Query(
        "sessions of 2 hours by key", ">= 3", 1,
        _count(lambda hfs: hfs.session_window("2 hours")),
        WINDOW,
        _count_sql("session(table orders partition by k, descriptor(t), interval '2' hour)"),
    ),
    Query(
        "the newest row of each key", ">= 0.8", 1, _best(["t", "x", "note"], "t", 1),
        ORDER, _best_sql("k, t, x, note", "t", 1),
    ),
    Query(
        "the 3 greatest rows of each key", ">= 1", 1, _best(["x", "t"], "x", 3),
        "k bigint, x bigint, t timestamp(3)", _best_sql("k, x, t", "x", 3),
    ),
    Query(
        "two streams joined by key within an hour", ">= 1", 2, join,
        f"{ORDER}, v double", f"select o.k, o.t, o.x, o.note, r.v from {MATCHES}",
    ),
    Query(
        "two streams joined by key within an hour, the best match of each key", ">= 1", 2,
        best_match,
        "k bigint, best double", f"select o.k, max(r.v) from {MATCHES} group by o.k",
    ),
    Query(
        "an as-of join of two streams, with grace", ">= 3", 2, _asof,
        f"{ORDER}, v double",
        "select o.k, o.t, o.x, o.note, r.v from orders o "
        "left join rates for system_time as of o.t as r on o.k = r.k",
    ),
]  # fmt: skip


class Flink:
    """Flink's process."""

    def __init__(self, log: Path) -> None:
        target = Path(os.environ["CARGO_TARGET_DIR"]) / "peers/flink"
        flink = HERE / "flink-sql"
        subprocess.run([HERE / "environment", flink / "requirements.lock", target], check=True)
        command = ["mvn", "--quiet", "--batch-mode", "-f", flink / "pom.xml"]
        command += ["dependency:copy-dependencies", f"-DoutputDirectory={target}/jars"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        log.mkdir()
        environment = {
            **os.environ,
            "HADOOP_CLASSPATH": f"{target}/jars/*",
            "JVM_ARGS": JAVA,
            "FLINK_LOG_DIR": str(log),
        }
        self._process = subprocess.Popen(
            [target / "bin/python", flink / "measure.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.communicate()

    def seconds(self, streams: Streams, days: int, query: Query, interval: str) -> float:
        """The seconds of a whole run."""

        def table(name: str, columns: str) -> str:
            path = streams.halves(days, name)
            options = f"'connector' = 'filesystem', 'path' = '{path}', 'format' = 'parquet'"
            # Without UTC, Flink cannot read the times before 1970 that the first day has.
            utc = "'parquet.utc-timezone' = 'true'"
            return f"create table {name} ({columns}) with ({options}, {utc})"

        with tempfile.TemporaryDirectory(dir=streams.base) as checkpoints:
            settings = {
                **SETTINGS,
                "execution.checkpointing.interval": interval,
                "execution.checkpointing.dir": f"file://{checkpoints}",
            }
            sink = f"create table output ({query.columns}) with ('connector' = 'blackhole')"
            job = {
                "settings": settings,
                "tables": [table("orders", ORDERS), table("rates", RATES), sink],
                "query": f"insert into output {query.sql}",
            }
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
            for line in self._process.stdout:
                if line.startswith("SECONDS "):
                    return float(line.split()[1])
        raise RuntimeError(f"Flink ended in {query.what!r}; its output is above")


def figures(*, quick: bool) -> list[Figure]:
    """All queries in turns."""
    found: list[Figure] = []
    is_full = "HOLDFAST_BENCH_FULL" in os.environ
    turns = Turns(1 if quick else LEAST_TURNS, INTERVALS if is_full else INTERVALS[:1])
    sizes = [(10_000, 1, 3)] if quick else [(100_000, 2, 22)]
    if is_full:
        sizes.append((1_000_000, 1, 4))
    spark = session()
    for rows, few, many in sizes:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            streams = Streams(Path(folder), rows, rows if quick else 100_000, few, many)
            streams.make()
            streams.make_halves()
            with Flink(Path(folder) / "log") as flink:
                for query in QUERIES:
                    print(f"  {query.what}, {rows:,} rows a micro-batch", flush=True)
                    found += _figures(spark, flink, streams, query, turns)
    spark.stop()
    return found


@dataclass(frozen=True)
class Turns:
    """How often a query is measured."""

    count: int
    intervals: tuple[str, ...]
    """Between two checkpoints of Flink, which is measured with each of them in a turn."""


def _figures(
    spark: Any, flink: Flink, streams: Streams, query: Query, turns: Turns
) -> list[Figure]:
    def ours(days: int) -> float:
        with tempfile.TemporaryDirectory(dir=streams.base, ignore_cleanup_errors=True) as root:
            return run_of_spark(spark, streams, days, query.ours, Path(root))

    def of_flink(interval: str) -> float:
        return streams.seconds(lambda days: flink.seconds(streams, days, query, interval))

    # Both compile their code.
    ours(streams.few)
    flink.seconds(streams, streams.few, query, turns.intervals[0])
    taken: list[tuple[float, dict[str, float]]] = []
    for _ in range(turns.count):
        our = streams.seconds(ours)
        taken.append((our, {interval: of_flink(interval) for interval in turns.intervals}))
    rows = streams.sum_of_rows(query.sides)

    def rate(seconds: Iterable[float]) -> str:
        return f"{rows / median(seconds):,.0f}"

    return [
        Figure(
            f"{query.what}, {streams.rows:,} rows a micro-batch, {streams.keys:,} keys",
            f"Flink SQL 2.3, checkpoints every {interval}",
            [theirs[interval] / our for our, theirs in taken],
            query.reach,
            "throughput",
            f"{rate(our for our, _ in taken)} rows/s against "
            f"{rate(theirs[interval] for _, theirs in taken)}",
            WORDS,
        )
        for interval in turns.intervals
    ]


if __name__ == "__main__":
    for figure in figures(quick="--quick" in sys.argv):
        print(figure, flush=True)
