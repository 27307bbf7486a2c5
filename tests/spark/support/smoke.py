"""Every operator in a stream, in `foreachBatch` and on a static frame, and every way to read.

    python tests/spark/support/smoke.py FOLDER [--connect] [--way "in foreachBatch"]

The results are compared with those of plain Python.

It runs on any PySpark that Holdfast supports, Classic or Connect, and needs only what a user has.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pyspark

sys.path.insert(0, str(Path(__file__).parent))
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, (str(Path(__file__).parent), os.environ.get("PYTHONPATH")))
)
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

import smoke_reading
import streams
from processors import OUT, Hits
from recording_task import RecordingTask, requests_of

import holdfast.spark as hfs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEYS = "abcdefgh"
# (key, seconds, x) by micro-batch, ordered by time; rows with a negative x are right rows.
BATCHES = [
    [(key, 1, -1 - n) for n, key in enumerate(KEYS)] + [(key, 5, n) for n, key in enumerate(KEYS)],
    [(key, 6, -11 - n) for n, key in enumerate(KEYS[:4])]
    + [(key, 7, 10 + n) for n, key in enumerate(KEYS)],
]
ROWS = [row for batch in BATCHES for row in batch]
LEFT = [row for row in ROWS if row[2] >= 0]
RIGHT = [row for row in ROWS if row[2] < 0]


def session(base: Path, *, connect: bool) -> SparkSession:
    """A session in this process, or with a server beside it; both with two slots."""
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.remote("local[2]")
        if connect
        else SparkSession.builder.master("local[2]")
    )
    for name, value in {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": str(base / "warehouse"),
        "spark.sql.streaming.pollingDelay": "5ms",
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def everything(frame: DataFrame, state: hfs.State) -> DataFrame:
    """The results of all operators over the frame, as rows (operator's name, row as JSON)."""
    from pyspark.sql import functions as F

    left, right = streams.sides(frame)
    times = {"by": "k", "left_on": "t", "right_on": "since", "state": state}
    # An operator's result is the right frame of another operator: no row may be lost.
    stored = hfs.materialize(right, by="k", state=state, name="right")
    results = {
        "join_asof": hfs.join_asof(
            left, right, history_retention="1 day", name="join_asof", **times
        ),
        "join_window": hfs.join_window(
            left, stored, before="3 seconds", after="0 seconds", name="join_window", **times
        ),
        "join_table": hfs.join_table(left, right, name="join_table", **times),
        "aggregate": hfs.aggregate(
            left, by="k", aggs={"n": "count", "x": ("sum", "x")}, state=state, name="aggregate"
        ),
        "drop_duplicates": hfs.drop_duplicates(
            left, by="k", on="t", within="1 day", state=state, name="drop_duplicates"
        ),
        "materialize": hfs.materialize(
            left, by="k", on="t", order_by=["x"], state=state, name="materialize"
        ),
        "process": hfs.process(
            left, Hits(), by="k", on="t", state=state, schema=OUT, name="process"
        ),
    }
    # A union would renumber the operator's tasks; a shuffle between them prevents that.
    return reduce(
        lambda one, other: one.union(other),
        (
            found.select(
                F.lit(name).alias("name"), F.to_json(F.struct("*")).alias("row")
            ).repartition(1)
            for name, found in results.items()
        ),
    )


def expected() -> dict[str, Any]:
    """The expected rows, computed without Spark and Holdfast."""

    def in_force(key: str, time: int) -> int:
        return max((since, v) for k, since, v in RIGHT if k == key and since <= time)[1]

    return {
        "join_asof": sorted((x, in_force(key, time)) for key, time, x in LEFT),
        "join_window": sorted(
            (x, v)
            for k, t, x in LEFT
            for key, since, v in RIGHT
            if k == key and t - 3 <= since <= t
        ),
        "join_table": {key: (10 + n, in_force(key, 7)) for n, key in enumerate(KEYS)},
        "aggregate": {key: (2, n + 10 + n) for n, key in enumerate(KEYS)},
        "drop_duplicates": list(range(8)),
        "materialize": sorted(x for _, _, x in LEFT),
        "process": sorted((key, n) for key in KEYS for n in (1, 2)),
    }


def found(rows: list[Any]) -> dict[str, Any]:
    """The rows of `everything` in the form of `expected`, without replaced rows."""
    by: dict[str, list[dict[str, Any]]] = {}
    for name, row in rows:
        by.setdefault(name, []).append(json.loads(row))
    tables = sorted(by["join_table"], key=lambda row: (row["t"], row["since"]))
    return {
        "join_asof": sorted((row["x"], row["v"]) for row in by["join_asof"]),
        "join_window": sorted((row["x"], row["v"]) for row in by["join_window"]),
        "join_table": {row["k"]: (row["x"], row["v"]) for row in tables},
        "aggregate": {
            row["k"]: (row["n"], row["x"])
            for row in sorted(by["aggregate"], key=lambda row: row["n"])
        },
        "drop_duplicates": sorted(row["x"] for row in by["drop_duplicates"]),
        "materialize": sorted(row["x"] for row in by["materialize"]),
        "process": sorted((row["k"], row["n"]) for row in by["process"]),
    }


def in_the_plan(stream: streams.Stream) -> list[Any]:
    """Runs the operators in the plan of a streaming query, directly before a file sink."""
    out = str(stream.base / "out")
    with mock.patch("holdfast.spark.worker.task.OperatorTask", RecordingTask):
        frame = everything(stream.source("left"), stream.state())
    query = (
        frame.writeStream.format("parquet")
        .option("path", out)
        .option("checkpointLocation", str(stream.root / "query"))
        .start()
    )
    query.processAllAvailable()
    query.stop()
    check_tables(stream)
    check_planned_at(stream)
    return [tuple(row) for row in stream.spark.read.parquet(out).collect()]


def check_planned_at(stream: streams.Stream) -> None:
    """Checks that tasks have the batch timestamp of the driver, or none if they have no rows."""
    requests = requests_of(stream.root)
    for epoch in range(len(BATCHES)):
        offsets = (stream.root / "query/offsets" / str(epoch)).read_text()
        planned = json.loads(offsets.splitlines()[1])["batchTimestampMs"]
        found = {request["planned_at"] for (of, _), request in requests.items() if of == epoch}
        assert planned in found <= {planned, None}, (epoch, planned, found)


def check_tables(stream: streams.Stream) -> None:
    """Reads a table of the query by the data source, by `lookup`, and by following its changes."""
    source = stream.spark.read.format("holdfast").option("table", "materialize")
    table = source.load(stream.address).select("k", "x")
    wanted = [(key, 10 + n) for n, key in enumerate(KEYS)]
    assert sorted(tuple(row) for row in table.collect()) == wanted
    by_option = source.option("key", "c").load(stream.address).select("x")
    assert [row.x for row in by_option.collect()] == [12]
    check_changes(stream)
    orders = stream.spark.range(1).selectExpr("'d' as k")
    joined = hfs.lookup(orders, stream.address, "materialize", on="k", columns=["x"])
    assert [tuple(row) for row in joined.collect()] == [("d", 13)]
    # With this setting, PySpark 4.1 to 4.3 plan a frame as its last read with filters.
    setting = "spark.sql.python.filterPushdown.enabled"
    stream.spark.conf.set(setting, "true")
    assert [row.x for row in table.where("k = 'b'").collect()] == [11]
    assert table.count() == len(KEYS)
    stream.spark.conf.unset(setting)


def check_changes(stream: streams.Stream) -> None:
    """Follows the changes of a table into files; a second start has nothing to add."""
    out, checkpoint = str(stream.base / "followed"), str(stream.base / "follower")
    for _ in range(2):
        source = stream.spark.readStream.format("holdfast").option("table", "materialize")
        options = {"changes": "true", "startingEpoch": "earliest", "maxEpochsPerTrigger": "1"}
        rows = source.options(**options).load(stream.address)
        writer = rows.writeStream.format("parquet").option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start(out).awaitTermination()
        found = stream.spark.read.parquet(out).select("x", "deleted").collect()
        assert sorted(tuple(row) for row in found) == [
            (x, False) for x in sorted(x for _, _, x in LEFT)
        ], found


def in_foreach_batch(stream: streams.Stream) -> list[Any]:
    """Runs the operators in foreachBatch; under Connect its function is in another process."""
    out, state = str(stream.base / "out"), stream.state()

    def write(frame: DataFrame, batch_id: int) -> None:
        everything(frame, state).write.parquet(f"{out}/{batch_id}")

    stream.run(stream.source("left"), each=hfs.foreach_batch(write))
    return [
        tuple(row)
        for batch in range(len(BATCHES))
        for row in stream.spark.read.parquet(f"{out}/{batch}").collect()
    ]


def above_foreach_batch(stream: streams.Stream) -> list[Any]:
    """Runs the operators above a function that evaluates their result, also in a thread."""
    out = str(stream.base / "out")

    def write(frame: DataFrame, batch_id: int) -> None:
        rows = streams.in_thread(frame.count)
        frame.write.parquet(f"{out}/{batch_id}")
        assert rows == frame.count()

    frame = everything(stream.source("left"), stream.state())
    stream.run(frame, each=hfs.foreach_batch(write))
    return [
        tuple(row)
        for batch in range(len(BATCHES))
        for row in stream.spark.read.parquet(f"{out}/{batch}").collect()
    ]


def on_a_static_frame(stream: streams.Stream) -> list[Any]:
    """Runs the operators on a static frame with a scratch state."""
    rows = stream.spark.read.parquet(str(stream.base / "left"))
    return [tuple(row) for row in everything(rows, hfs.State.scratch(partitions=2)).collect()]


WAYS: dict[str, Callable[[streams.Stream], list[Any]]] = {
    "in the plan": in_the_plan,
    "in foreachBatch": in_foreach_batch,
    "above foreachBatch": above_foreach_batch,
    "static": on_a_static_frame,
}
READING = "reading"


def main() -> int:
    """Runs all of it; returns 0 if every row is right."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--connect", action="store_true", help="through Spark Connect")
    parser.add_argument("--way", choices=[*WAYS, READING], help="this one alone")
    options = parser.parse_args()
    spark = session(options.folder, connect=options.connect)
    wrong, ways = [], [options.way] if options.way else [*WAYS, READING]
    for way in ways:
        base = options.folder / way.replace(" ", "_")
        base.mkdir()
        stream = streams.Stream(spark, base)
        if way == READING:
            wrong += smoke_reading.check(stream)
            continue
        for batch in BATCHES:
            stream.batch(left=batch)
        got, wanted = found(WAYS[way](stream)), expected()
        for name, rows in wanted.items():
            if got[name] != rows:
                wrong.append(f"{way}, {name}: wanted {rows}, got {got[name]}")
    spark.stop()
    kind = "Connect" if options.connect else "Classic"
    print(
        "\n".join(wrong)
        or f"PySpark {pyspark.__version__}, {kind}: {len(expected())} operators: {', '.join(ways)}"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
