"""Tasks on their owner's executor and on another one.

Count and latest value per key on two executors; Spark places the tasks.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import numpy as np
from _streams import LEFT, OURS, cluster_session, left_file, middle, source
from figure import Figure, ratios

from holdfast.spark.worker.executor import Executor
from holdfast.spark.worker.task import OperatorTask

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

KEYS = 100_000
ROWS = 200_000
PARTITIONS = 2
SKIP = 2


class PlacedTask(OperatorTask):
    """An operator's task that writes down whether its executor's host is the partition's owner."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The operator's rows."""
        from pyspark import TaskContext

        yield from super().__call__(batches)
        context = TaskContext.get()
        assert context is not None
        root, name = Path(self.request["root"]), self.request["operator"]["name"]
        partition, epoch = context.partitionId(), self._session(context)["epoch"]
        newest = max((root / "owners" / name / str(partition)).iterdir())
        executor = Executor.of_process(os.getpid()).pid
        (root / "placed").mkdir(exist_ok=True)
        (root / "placed" / f"{epoch}.{partition}").write_text(
            "own" if _executor_of(newest) == executor else "elsewhere"
        )


def _executor_of(claim: Path) -> int:
    """The executor whose host made the claim: a host's id begins with its process id."""
    import json

    host = json.loads(claim.read_text())["host"].partition("-")[0]
    command = Path(f"/proc/{host}/cmdline").read_text().split("\0")
    return int(command[command.index("--executor-pid") + 1])


def figures(*, quick: bool) -> list[Figure]:
    """The rate with all tasks elsewhere over the rate with all tasks at home."""
    import holdfast.spark as hfs

    keys, rows, batches = (KEYS // 10, ROWS // 10, 12) if quick else (KEYS, ROWS, 40)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        base = Path(folder)
        spark = cluster_session(base / "spark", "local-cluster[2,1,1024]")
        random = np.random.default_rng(7)
        for number in range(SKIP + batches):
            left_file(base / "left", number, rows, keys, random)
        state = hfs.State(str(base / "root"), partitions=PARTITIONS)
        aggs: dict[str, Any] = {"rows": "count", "newest": ("last", "x")}
        frame = _placed(
            lambda: hfs.aggregate(
                source(spark, base / "left", LEFT), by="k", on="t", aggs=aggs, state=state
            )
        )
        query = (
            frame.writeStream.format("noop")
            .option("checkpointLocation", state.checkpoint_location)
            .start()
        )
        query.processAllAvailable()
        query.stop()
        rates: dict[int, list[float]] = {}
        for progress in query.recentProgress:
            if progress.numInputRows > 0 and progress.batchId >= SKIP:
                found = [
                    (base / "root" / "placed" / f"{progress.batchId}.{p}").read_text()
                    for p in range(PARTITIONS)
                ]
                seconds = progress.durationMs["addBatch"] / 1000
                rates.setdefault(found.count("elsewhere"), []).append(
                    progress.numInputRows / seconds
                )
        spark.stop()
    counted = {elsewhere: len(found) for elsewhere, found in sorted(rates.items())}
    share = sum(elsewhere * count for elsewhere, count in counted.items()) / (
        PARTITIONS * sum(counted.values())
    )
    what = (
        f"count and latest value per key on two executors, {rows:,} rows a micro-batch: all "
        "tasks elsewhere"
    )
    own, elsewhere = middle(rates[0]), middle(rates[PARTITIONS])
    # Spark chooses the place of each micro-batch: those of both kinds are paired in their order.
    turns = ratios(zip(rates[PARTITIONS], rates[0], strict=False))
    note = (
        f"{elsewhere:,.0f} rows/s against {own:,.0f}; {share:.0%} of tasks were elsewhere; "
        f"micro-batches by tasks elsewhere: {counted}"
    )
    return [Figure(what, "all tasks at their owners", turns, "", "rows/s", note, OURS)]


def _placed(build: Any) -> Any:
    """What `build` plans, with tasks that write down where they run."""
    from holdfast.spark.plan.operator import Operator

    usual = Operator.__init__

    def placed(self: Any, *arguments: Any, **options: Any) -> None:
        usual(self, *arguments, **{**options, "task": PlacedTask})

    Operator.__init__ = placed  # type: ignore[method-assign]
    try:
        return build()
    finally:
        Operator.__init__ = usual  # type: ignore[method-assign]


if __name__ == "__main__":
    for found in figures(quick="--quick" in sys.argv):
        print(found)
