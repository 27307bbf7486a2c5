"""Restart after SIGKILL on the same disk: from the first task to its first row.

With few and with many versions.

One driver loads the versions and is killed with all its processes. A new driver continues from
there. In turns with it, another driver runs the same plan with a function that returns its rows
unchanged: the difference is the cost of the state.
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
from typing import TYPE_CHECKING

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import numpy as np
from _streams import OURS, join_asof, left_file, right_file, same_join, session
from _timed import PLACE, TimedTask, identity
from figure import LEAST_TURNS, Figure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEYS = 100_000
FILE_ROWS = 500_000
LEFT_ROWS = 1_000


def figures(*, quick: bool) -> list[Figure]:
    """Two rows for each size: the restart, and its time beyond that of the identity plan."""
    found: list[Figure] = []
    for versions in (200_000,) if quick else (1_000_000, 10_000_000):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            tasks, size = _measure(Path(folder), versions, 1 if quick else LEAST_TURNS)
        ours, theirs = (_middle(tasks[plan]) for plan in ("join", "identity"))
        alls = {plan: [task["all"] for task in found] for plan, found in tasks.items()}
        what = (
            f"restart after SIGKILL on the same disk, {versions:,} versions: the first task to "
            "its first row"
        )
        note = (
            f"identity plan {theirs['all']:.2f} s in the same turns; {_steps(ours)}; identity "
            f"{_steps(theirs)}"
        )
        found.append(
            Figure(
                what,
                "nothing (absolute)",
                alls["join"],
                "< 1",
                "s",
                f"state {size / 2**20:,.0f} MiB; {note}",
                OURS,
            )
        )
        found.append(
            Figure(
                f"{what}, beyond the identity plan",
                "nothing (absolute)",
                [own - same for own, same in zip(alls["join"], alls["identity"], strict=True)],
                "",
                "s",
                settings=OURS,
            )
        )
    return found


def _middle(tasks: list[dict[str, float]]) -> dict[str, float]:
    return {step: median(task[step] for task in tasks) for step in tasks[0]}


def _steps(times: dict[str, float]) -> str:
    return (
        f"worker {times['worker']:.2f} + first rows in {times['rows']:.2f} + out "
        f"{times['out']:.2f} s"
    )


def _measure(
    base: Path, versions: int, turns: int
) -> tuple[dict[str, list[dict[str, float]]], int]:
    random = np.random.default_rng(5)
    files = {"join": max(1, versions // FILE_ROWS), "identity": 1}
    for plan, count in files.items():
        for number in range(count):
            right_file(base / plan / "right", number, min(FILE_ROWS, versions), KEYS, random)
            left_file(base / plan / "left", number, LEFT_ROWS, KEYS, random)
        _run_and_kill(base / plan, plan)
    size = sum(
        file.stat().st_size for file in (base / "join/root/state").rglob("*") if file.is_file()
    )
    tasks: dict[str, list[dict[str, float]]] = {"join": [], "identity": []}
    for turn in range(turns):
        for plan, found in tasks.items():
            left_file(base / plan / "left", files[plan] + turn, LEFT_ROWS, KEYS, random)
            found.append(_middle(_run_and_kill(base / plan, plan)))
    return tasks, size


def _run_and_kill(base: Path, plan: str) -> list[dict[str, float]]:
    """Run a driver until it has processed all input, and kill it.

    Returns the times of the tasks of its first micro-batch.
    """
    times = base / f"times{time.monotonic_ns()}"
    times.mkdir()
    command = [
        sys.executable,
        __file__,
        "--child",
        plan,
        "--base",
        str(base),
        "--times",
        str(times),
    ]
    driver = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, PLACE: str(times)}
    )
    assert driver.stdout is not None
    if not any(line.startswith("DONE") for line in driver.stdout):
        raise RuntimeError("the driver ended before it was done")
    _kill(driver.pid)
    driver.wait()
    launched: dict[int, float] = {}
    for log in times.glob("local-*"):
        for line in log.read_text().splitlines():
            # The last line may be cut off: the driver was killed.
            if '"SparkListenerTaskStart"' in line and line.endswith("}"):
                info = json.loads(line)["Task Info"]
                launched[info["Task ID"]] = info["Launch Time"] / 1e3
    tasks = [json.loads(file.read_text()) for file in times.glob("*.json")]
    first = sorted(tasks, key=lambda task: task["task"])[:2]
    if not first:
        raise RuntimeError("no task told its times")
    return [
        {
            "all": task["first_out"] - launched[task["task"]],
            "worker": task["called"] - launched[task["task"]],
            "rows": task["first_in"] - task["called"],
            "out": task["first_out"] - task["first_in"],
        }
        for task in first
    ]


def _kill(driver: int) -> None:
    """SIGKILL the driver, its JVM, all workers and the state host."""
    parents: dict[int, int] = {}
    commands: dict[int, str] = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                parents[int(process.name)] = int(
                    (process / "stat").read_text().rsplit(")", 1)[1].split()[1]
                )
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


def _run(base: Path, plan: str, times: Path) -> None:
    spark = session(
        spark__eventLog__enabled="true",
        spark__eventLog__dir=str(times),
        spark__eventLog__compress="false",
        spark__eventLog__rolling__enabled="false",
    )
    frame = _join(spark, base) if plan == "join" else same_join(spark, base, identity)
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(base / "root/query"))
        .start()
    )
    query.processAllAvailable()
    print("DONE", flush=True)
    time.sleep(600)


def _join(spark: SparkSession, base: Path) -> DataFrame:
    from holdfast.spark.plan.operator import run_operator

    # Replaces the task that plans of operators use by default.
    defaults = run_operator.__kwdefaults__
    defaults["task"] = TimedTask
    return join_asof(spark, base, base / "root")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--child", choices=["join", "identity"])
    parser.add_argument("--base", type=Path)
    parser.add_argument("--times", type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    if arguments.child:
        _run(arguments.base, arguments.child, arguments.times)
    else:
        for figure in figures(quick=arguments.quick):
            print(figure)
