"""A job on a cluster: an as-of join, an aggregation and a processor, with its expected result.

As a program it is the driver: `cluster_job.py MASTER BASE PARTITIONS [CONF=VALUE ...]` runs until
all input is processed. It is a process of its own, since a process has one Spark.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from streams import Root, Stream

import holdfast as hf

LEFT = pa.schema(
    [("k", pa.string()), ("t", pa.timestamp("us", "UTC")), ("x", pa.int64()), ("c", pa.string())]
)
RIGHT = pa.schema([("k", pa.string()), ("since", pa.timestamp("us", "UTC")), ("n", pa.int64())])
OUT = "c string, spent long, orders long, updates long"
STRING, INT64 = hf.serde.STRING, hf.serde.INT64


class Updates:
    """Counts the changes of each group, records where each task runs, and can pause a task.

    If `<base>/pause` holds an epoch, its first task writes `<base>/paused.<epoch>` and waits until
    `<base>/pause` changes. Its session stays open meanwhile, with uncommitted writes.
    """

    stores = (hf.stores.key_value("updates", key=STRING, value=INT64),)

    def __init__(self, base: Path) -> None:
        self.base = base

    def process(self, batch, ctx):
        from pyspark import TaskContext

        from holdfast.spark.worker.executor import Executor

        columns = [batch[name].to_pylist() for name in ("c", "spent", "orders")]
        updates = []
        for customer in columns[0]:
            updates.append((ctx["updates"].get(customer) or 0) + 1)
            ctx["updates"].put(customer, updates[-1])
        ctx["updates"].approximate_num_entries()  # the writes have reached the host
        attempt = TaskContext.get().taskAttemptId()
        executor = Executor.of_process(os.getpid())
        name, _ = executor.address()
        (self.base / "tasks").mkdir(exist_ok=True)
        (self.base / "tasks" / f"{ctx.epoch}.{ctx.partition}.{attempt}.{executor.pid}").write_text(
            name
        )
        if self._is_paused(ctx.epoch):
            self._wait(ctx.epoch, f"{executor.pid} {ctx.partition}")
        types = [pa.string(), pa.int64(), pa.int64(), pa.int64()]
        arrays = [
            pa.array(column, of) for column, of in zip([*columns, updates], types, strict=True)
        ]
        yield pa.record_batch(arrays, names=["c", "spent", "orders", "updates"])

    def _is_paused(self, epoch: int) -> bool:
        try:
            return (self.base / "pause").read_text() == str(epoch)
        except FileNotFoundError:
            return False

    def _wait(self, epoch: int, task: str) -> None:
        try:
            with (self.base / f"paused.{epoch}").open("x") as file:
                file.write(task)
        except FileExistsError:
            return
        while self._is_paused(epoch):
            time.sleep(0.05)


def arrive(base: Path, seed: int, batches: int) -> list[list[tuple[Any, ...]]]:
    """Writes the micro-batches; returns their results, computed without Spark or state."""
    chance = random.Random(seed)
    stream = Stream(None, base, LEFT, RIGHT)  # type: ignore[arg-type]
    rates: dict[str, dict[int, int]] = {}
    totals: dict[str, tuple[int | None, int, int]] = {}
    expected = []
    for _ in range(batches):
        right = {
            (f"k{chance.randrange(20)}", chance.randrange(10_000)): chance.randrange(1, 100)
            for _ in range(40)
        }
        # No two right rows of a key have the same time; otherwise either could win.
        right = {(k, since): n for (k, since), n in right.items() if since not in rates.get(k, {})}
        for (k, since), n in right.items():
            rates.setdefault(k, {})[since] = n
        left = [
            (
                f"k{chance.randrange(20)}",
                chance.randrange(10_000),
                chance.randrange(100),
                f"c{chance.randrange(30)}",
            )
            for _ in range(200)
        ]
        stream.batch(left=left, right=[(k, since, n) for (k, since), n in right.items()])
        for k, t, x, c in left:
            known = [since for since in rates.get(k, {}) if since <= t]
            spent, orders, updates = totals.get(c, (None, 0, 0))
            if known:
                spent = (spent or 0) + x * rates[k][max(known)]
            totals[c] = (spent, orders + 1, updates)
        changed = {c for *_, c in left}
        totals.update({c: (*totals[c][:2], totals[c][2] + 1) for c in changed})
        expected.append(sorted((c, *totals[c]) for c in changed))
    return expected


def given(base: Path) -> list[list[tuple[Any, ...]]]:
    """The job's results, by micro-batch."""
    files = sorted((base / "out").glob("*.json"), key=lambda file: int(file.stem))
    return [sorted(map(tuple, json.loads(file.read_text()))) for file in files]


def main(master: str, base: Path, partitions: int, conf: list[str]) -> None:
    from pyspark.sql import SparkSession

    import holdfast.spark as hfs

    here = str(Path(__file__).parent)
    builder = SparkSession.builder.master(master).appName("holdfast-cluster")
    settings = {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.sql.warehouse.dir": str(base / "warehouse"),
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(
            [here, *filter(None, [os.environ.get("PYTHONPATH")])]
        ),
        **dict(setting.split("=", 1) for setting in conf),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    (base / "out").mkdir(exist_ok=True)

    state = Root(base / "state").state(partitions=partitions)
    left = spark.readStream.schema("k string, t timestamp, x long, c string").option(
        "maxFilesPerTrigger", 1
    )
    right = spark.readStream.schema("k string, since timestamp, n long").option(
        "maxFilesPerTrigger", 1
    )
    joined = hfs.join_asof(
        left.parquet(str(base / "left")),
        right.parquet(str(base / "right")),
        by="k",
        left_on="t",
        right_on="since",
        how="left",
        history_retention="30 days",
        state=state,
        name="join",
    )
    totals = hfs.aggregate(
        joined.selectExpr("c", "x * n as spent"),
        by="c",
        aggs={"spent": ("sum", "spent"), "orders": "count"},
        state=state,
        name="totals",
    )
    counted = hfs.process(totals, Updates(base), by="c", state=state, schema=OUT, name="updates")

    def write(frame: Any, batch_id: int) -> None:
        rows = [list(row) for row in frame.collect()]
        (base / "out" / "next").write_text(json.dumps(rows))
        (base / "out" / "next").replace(base / "out" / f"{batch_id}.json")

    query = counted.writeStream.foreachBatch(write).option(
        "checkpointLocation", state.checkpoint_location
    )
    query.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
