"""Restart after SIGKILL on the same disk, with few and with many versions: from the start of the first task to its first row.

The load runs in a driver of its own, which is killed with all that belongs to it; a new driver goes on from there.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import numpy as np
from _streams import LEFT, RIGHT, left_file, right_file, session, source
from figure import Figure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

KEYS = 100_000
FILE_ROWS = 500_000


def figures(*, quick: bool) -> list[Figure]:
    """One row for each size."""
    found: list[Figure] = []
    for versions in (200_000,) if quick else (1_000_000, 10_000_000):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            seconds, called, size = _measure(Path(folder), versions)
        what = f"restart after SIGKILL on the same disk, {versions:,} versions: the first task to its first row"
        note = f"state {size / 2**20:,.0f} MiB; median of 2 tasks"
        found.append(
            Figure(f"{what}, from the call of its function", "nothing (absolute)", seconds - called, "< 1", "s", note)
        )
        note = f"{called:.2f} s of it until Spark's new Python workers call a function; {note}"
        found.append(Figure(f"{what}, from the birth of its Python worker", "nothing (absolute)", seconds, "< 1", "s", note))
    return found


def _measure(base: Path, versions: int) -> tuple[float, float, int]:
    random = np.random.default_rng(5)
    files = max(1, versions // FILE_ROWS)
    for number in range(files):
        right_file(base / "right", number, min(FILE_ROWS, versions), KEYS, random)
        left_file(base / "left", number, 1_000, KEYS, random)
    load = _child(base, "load")
    assert load.stdout is not None
    for line in load.stdout:
        if line.startswith("LOADED"):
            break
    else:
        raise RuntimeError("the load ended before it was done")
    _kill(load.pid)
    load.wait()
    size = sum(file.stat().st_size for file in (base / "root" / "state").rglob("*") if file.is_file())
    left_file(base / "left", files, 1_000, KEYS, random)
    again = _child(base, "again")
    output, _ = again.communicate(timeout=300)
    tasks = [json.loads(line.removeprefix("TASK ")) for line in output.splitlines() if line.startswith("TASK ")]
    if not tasks:
        raise RuntimeError(f"no task told its times: {output[-2000:]}")
    return median(task["first_row"] for task in tasks), median(task["called"] for task in tasks), size


def _child(base: Path, what: str) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--child", what, "--base", str(base)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _kill(driver: int) -> None:
    """SIGKILL the driver, its JVM, all workers and the state host."""
    parents: dict[int, int] = {}
    commands: dict[int, str] = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                parents[int(process.name)] = int((process / "stat").read_text().rsplit(")", 1)[1].split()[1])
                commands[int(process.name)] = (process / "cmdline").read_text().replace("\0", " ")
            except (FileNotFoundError, ProcessLookupError):
                continue
    tree = {driver}
    while more := {pid for pid, parent in parents.items() if parent in tree} - tree:
        tree |= more
    hosts = {
        pid
        for pid, command in commands.items()
        if "holdfast.host" in command and any(f" {p} " in f"{command} " for p in tree)
    }
    for pid in tree | hosts:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _run(base: Path, what: str) -> None:
    import holdfast.spark as hfs

    spark = session()
    state = hfs.State(str(base / "root"), partitions=2)
    left, right = source(spark, base / "left", LEFT), source(spark, base / "right", RIGHT)
    joined = hfs.join_asof(left, right, by="k", left_on="t", right_on="since", history_retention="36500 days", state=state)
    if what == "again":
        joined = _told(joined, base / "times")
    query = joined.writeStream.format("noop").option("checkpointLocation", state.checkpoint_location).start()
    query.processAllAvailable()
    if what == "load":
        print("LOADED", flush=True)
        time.sleep(600)
    query.stop()
    for file in (base / "times").glob("*"):
        print("TASK", file.read_text())
    spark.stop()


def _told(frame: DataFrame, folder: Path) -> DataFrame:
    """The frame, whose first tasks write down when their first row came, counted from the task's start by the JVM's clock."""
    folder.mkdir()
    place = str(folder)

    def tell(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        called = time.time()
        for number, batch in enumerate(batches):
            first = batch.num_rows > 0 and number == 0
            file = Path(place, str(context.partitionId()))
            if first and not file.exists():
                # The worker of this function starts with the task; its process is as old as the task is.
                began = _process_start()
                file.write_text(json.dumps({"first_row": time.time() - began, "called": called - began}))
            yield batch

    return frame.mapInArrow(tell, frame.schema)


def _process_start() -> float:
    """When the process began, in seconds since the epoch."""
    ticks = int(Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19])
    boot = next(int(line.split()[1]) for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime"))
    return boot + ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--child", choices=["load", "again"])
    parser.add_argument("--base", type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    if arguments.child:
        _run(arguments.base, arguments.child)
    else:
        for figure in figures(quick=arguments.quick):
            print(figure)
