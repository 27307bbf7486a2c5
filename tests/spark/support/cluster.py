"""Standalone Spark clusters from the pip package, jobs on them, and ways to kill parts of both."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyspark
from cluster_job import given
from streams import Root, processes

JOB = Path(__file__).parent / "cluster_job.py"
PATIENCE = 600.0


class Cluster:
    """A master, and workers of one core each with their own addresses."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.base.mkdir()
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self._master = self._launch("master.Master", "master", "127.0.0.1")
        started = _wait(
            lambda: re.search(r"Starting Spark master at (spark://\S+)", self._log("master")),
            "no master",
        )
        self.url = started[1]

    def worker(self, address: str) -> None:
        """Add a worker, and wait until the master knows it."""
        self.workers[address] = self._launch(
            "worker.Worker", address, address, "--cores", "1", "--memory", "1g", self.url
        )
        _wait(
            lambda: "Successfully registered with master" in self._log(address),
            f"no worker {address}",
        )

    def kill_worker(self, address: str) -> None:
        """Kill a worker with SIGKILL; its executors end when they detect this."""
        worker = self.workers.pop(address)
        worker.kill()
        worker.wait()

    def stop(self) -> None:
        for process in (*self.workers.values(), self._master):
            process.terminate()
        for process in (*self.workers.values(), self._master):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _launch(
        self, kind: str, name: str, address: str, *arguments: str
    ) -> subprocess.Popen[bytes]:
        home = Path(pyspark.__file__).parent
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": address,
            "SPARK_PUBLIC_DNS": address,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_DIRS": str(self.base / "local"),
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false -Dspark.worker.timeout=10",
            "SPARK_WORKER_OPTS": "-Dspark.worker.timeout=10 -Dspark.worker.cleanup.enabled=true "
            f"-Dspark.worker.work={self.base}",
        }
        work = () if kind.startswith("master") else ("--work-dir", str(self.base / f"work-{name}"))
        command = [
            str(home / "bin" / "spark-class"),
            f"org.apache.spark.deploy.{kind}",
            "--host",
            address,
        ]
        command += ["--port", "0", "--webui-port", "0", *work, *arguments]
        with (self.base / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )

    def _log(self, name: str) -> str:
        return (self.base / f"{name}.log").read_text(errors="replace")


class Paused(NamedTuple):
    """A task that waits."""

    executor: int
    """Its executor's process."""
    partition: int


class Job:
    """A process that runs `cluster_job.py`."""

    def __init__(self, master: str, base: Path, partitions: int = 2, **conf: Any) -> None:
        self.base = base
        settings = [f"spark.{name.replace('_', '.')}={value}" for name, value in conf.items()]
        command = [sys.executable, str(JOB), master, str(base), str(partitions), *settings]
        self.root = Root(base / "state").files
        self._log = base / "job.log"
        environment = {
            **os.environ,
            "SPARK_HOME": str(spark_home(base / "spark")),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                cwd=base,
                start_new_session=True,
            )

    def pause_in(self, epoch: int) -> Paused:
        """Makes the first task that reaches the processor in this epoch wait there."""
        (self.base / "next").write_text(str(epoch))
        (self.base / "next").replace(self.base / "pause")
        file = self.base / f"paused.{epoch}"
        self._until(lambda: file.exists() and file.read_text(), "no task has paused")
        return Paused(*map(int, file.read_text().split()))

    def go_on(self) -> None:
        """Lets all tasks continue."""
        (self.base / "pause").unlink()

    def epoch(self, number: int) -> None:
        """Wait until an epoch's result is there."""
        self._until((self.base / "out" / f"{number}.json").exists, f"epoch {number} has not come")

    def finish(self) -> list[list[tuple[Any, ...]]]:
        """Wait until all input is processed; return the job's results by micro-batch."""
        try:
            code = self.process.wait(PATIENCE * 2)
        except subprocess.TimeoutExpired:
            self.stop()
            raise
        assert code == 0, self.log()
        return given(self.base)

    def executors(self) -> set[int]:
        """The executors that have run the processor's tasks."""
        return {executor for *_, executor in self.tasks()}

    def tasks(self) -> list[tuple[int, int, int, int]]:
        """Attempts at the processor's tasks: epoch, partition, attempt, executor."""
        names = (file.name.split(".") for file in (self.base / "tasks").iterdir())
        return sorted(tuple(map(int, name)) for name in names)  # type: ignore[misc]

    def epochs_at(self, address: str) -> set[int]:
        """The epochs of which the worker with this address has run a task of the processor."""
        files = (self.base / "tasks").iterdir()
        return {int(file.name.partition(".")[0]) for file in files if file.read_text() == address}

    def owners(self) -> dict[str, list[str]]:
        """The claims of every partition, as run.generation, oldest first."""
        found: dict[str, list[str]] = {}
        for file in sorted((self.root / "owners").glob("*/*/*")):
            term = ".".join(str(int(number)) for number in file.name.split("."))
            found.setdefault("/".join(file.parts[-3:-1]), []).append(term)
        return found

    def owner(self, operator: str, partition: int) -> int:
        """The process of the state host that the newest claim of a partition names."""
        newest = max((self.root / "owners" / operator / str(partition)).iterdir())
        # A host's id begins with that of its process.
        return int(json.loads(newest.read_text())["host"].partition("-")[0])

    def stop(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-8_000:]

    def _until(self, what: Callable[[], Any], otherwise: str) -> None:
        _wait(lambda: what() or self.process.poll() is not None, otherwise)
        assert self.process.poll() is None or what(), f"{otherwise}:\n{self.log()}"


def parent(pid: int) -> int:
    """A process's parent."""
    return next(above for process, above, _ in processes() if process == pid)


def spark_home(folder: Path) -> Path:
    """A SPARK_HOME for one job: `local-cluster` puts its executors' folders there."""
    folder.mkdir(exist_ok=True)
    for file in Path(pyspark.__file__).parent.iterdir():
        link = folder / file.name
        if not link.is_symlink():
            link.symlink_to(file)
    return folder


def _wait(what: Callable[[], Any], otherwise: str) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := what()):
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)
    return found
