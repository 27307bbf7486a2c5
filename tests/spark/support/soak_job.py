"""The job of a soak: its input, its cluster, its driver and their processes."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import cluster
import streams
from cluster import Cluster
from drivers import Checked, Driver, committed, files_begun, root
from sequence import Sequence

WORKERS = ("127.0.0.2", "127.0.0.3")
PATIENCE = 600.0  # A soak may run beside other work.
CLUSTER = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.cores": "1",
    "spark.shuffle.reduceLocality.enabled": "false",
    # Each kill counts as a failure. The next three limits are high, so Spark does not end the job.
    "spark.task.maxFailures": "50",
    "spark.stage.maxConsecutiveAttempts": "50",
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.network.timeout": "60s",
    "spark.executor.heartbeatInterval": "5s",
    # Spark runs a second attempt of a slow task on another executor.
    "spark.speculation": "true",
    "spark.speculation.interval": "500ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "3",
    "spark.speculation.minTaskRuntime": "3s",
}


class WrongError(Exception):
    """The job does not do what the docs say."""


def send(pid: int, number: int) -> None:
    """Sends a signal to a process, if it exists."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _has_files(pid: int) -> bool:
    """Whether a process has files open; it has none once the kernel has ended it."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return bool(os.listdir(f"/proc/{pid}/fd"))
    return False


class SoakJob:
    """The job of a soak. Each fault leaves it with a driver."""

    def __init__(self, folder: Path, seed: int, master: str | None) -> None:
        self.folder, self.master = folder, master
        self.root, self.databases = root(folder), root(folder) / "state"
        self.random = random.Random(seed)
        self.sequence = Sequence(seed)
        self.checked = Checked(self.sequence, folder)
        self.began = time.monotonic()
        self.is_limited = False
        """Whether the driver has fewer cores than the cluster."""
        self.ended_drivers = 0
        """How many drivers ended by themselves."""
        self._known_hosts: set[int] = set()
        cluster.PATIENCE = PATIENCE
        self.cluster = None if master else Cluster(folder / "cluster")
        for address in WORKERS if self.cluster else ():
            self.cluster.worker(address)
        self.start()

    def start(self, **settings: str) -> None:
        """Starts a driver with these settings of Spark; a local one ignores them."""
        if self.cluster is None:
            self.driver = Driver(self.folder, self.master or "")
            return
        self.is_limited = "cores_max" in settings
        named = {f"spark.{name.replace('_', '.')}": value for name, value in settings.items()}
        self.driver = Driver(self.folder, self.cluster.url, {**CLUSTER, **named})

    def stop(self) -> None:
        """Ends all processes."""
        self.driver.kill()
        if self.cluster is not None:
            self.cluster.stop()

    def write(self, ended: threading.Event) -> None:
        """Writes the input until the end."""
        while not ended.is_set():
            # No more than the query can process: a backlog only delays the end.
            # A rewind moves Spark's files meanwhile, and a kill may leave half of one.
            with suppress(OSError, ValueError, IndexError):
                if len(self.sequence.batches) - files_begun(self.folder) < 20:
                    self.sequence.write(self.folder / "in")
            ended.wait(0.5)

    def say(self, what: str) -> None:
        """Prints a line of progress."""
        at = time.monotonic() - self.began
        print(
            f"{at:6.0f} s  {committed(self.folder):5} micro-batches of "
            f"{len(self.sequence.batches):5} files  {what}",
            flush=True,
        )

    def pause(self, seconds: float) -> None:
        """Waits, and restarts a driver that has ended."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.driver.ended and self.driver.process.returncode != 0:
                self.ended_drivers += 1
                self.say(f"the driver has ended: {self.driver.reason()}")
                self.start()
            time.sleep(0.1)

    def until(self, condition: Callable[[], object], seconds: float = 60) -> bool:
        """Waits for a condition; returns whether it was met in time."""
        end = time.monotonic() + seconds
        while not (met := bool(condition())) and time.monotonic() < end:
            self.pause(0.1)
        return met

    def wait_for_progress(self, batches: int = 1) -> None:
        """Waits until Spark has committed that many more micro-batches."""
        wanted = committed(self.folder) + batches
        if not self.until(lambda: committed(self.folder) >= wanted, PATIENCE):
            raise WrongError(f"no progress in {PATIENCE:.0f} s: {self.driver.reason()}")

    def check(self) -> None:
        """Compares what Spark has committed since the last call with the model."""
        if found := self.checked.differences():
            raise WrongError("\n".join(found[:10]))

    def said(self) -> int:
        """The length of the drivers' log."""
        return self.driver.log.stat().st_size

    def log_since(self, said: int) -> str:
        """What the drivers have logged since the log had that length."""
        with self.driver.log.open("rb") as log:
            log.seek(said)
            return log.read().decode(errors="replace")

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of `holdfast`."""
        return subprocess.run(
            [sys.executable, "-m", "holdfast", *words], capture_output=True, text=True, check=False
        )

    # --- processes
    # ------------------------------------------------------------------------------------------

    def processes(self, word: str) -> list[int]:
        """The processes of the driver and of the workers, with a word in their command lines."""
        roots = [
            self.driver.process.pid,
            *([] if self.cluster is None else [p.pid for p in self.cluster.workers.values()]),
        ]
        ours = {pid for root in roots for pid in streams.below(root)}
        return sorted(
            pid
            for pid, _, command in streams.processes()
            if pid in ours and word in " ".join(command)
        )

    def hosts(self) -> list[int]:
        """The state hosts of the executors."""
        executors = set(self.processes("java"))
        found = sorted(pid for pid, executor in streams.executors_hosts() if executor in executors)
        self._known_hosts.update(found)
        return found

    def one(self, pids: list[int], number: int) -> int | None:
        """Sends a signal to one of these processes, drawn by the seed; returns which."""
        if not pids:
            return None
        pid = self.random.choice(pids)
        send(pid, number)
        return pid

    def nothing_runs(self) -> None:
        """Kills the driver and all hosts, those of executors that are gone included."""
        self.hosts()
        self.driver.kill()
        hosts = self._known_hosts & {pid for pid, _ in streams.executors_hosts()}
        for pid in hosts:
            send(pid, signal.SIGKILL)
        end = time.monotonic() + 10
        while any(map(_has_files, hosts)):
            if time.monotonic() > end:
                raise TimeoutError("a host lives on after SIGKILL")
            time.sleep(0.05)
        self._known_hosts.clear()

    # --- the root
    # ------------------------------------------------------------------------------------------

    def heads(self, epoch: int) -> list[Path]:
        """The objects of an epoch in the log, without its decision."""
        heads = (self.root / "log" / f"{epoch:020}").glob("*.*.*")
        return sorted(head for head in heads if "#" not in head.name)

    def new_disk(self) -> bool:
        """Deletes the databases; returns whether there were any. No host may run."""
        had = any(self.databases.glob("*/*/*"))
        shutil.rmtree(self.databases, ignore_errors=True)
        return had
