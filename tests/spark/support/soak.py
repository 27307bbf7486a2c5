"""All faults in random order on a standalone cluster with two workers.

    make soak                       # 30 minutes
    make soak SOAK_MINUTES=10 SEED=7

A new micro-batch of numbered rows arrives every half second; a driver (`job.py`) joins and sums
them. Its processes are killed or stopped, and files are removed. At the end every row must have
been returned once, with the right rate, and every total must be exact. A seed repeats the faults
and the pauses between them, but not the moments at which they happen. Each fault occurs once before
any occurs twice. A fault that affected nothing in a soak long enough for all of them fails the
soak.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import cluster
import streams
from cluster import Cluster
from drivers import Driver, committed, differences, root
from sequence import Sequence

WORKERS, THIRD = ("127.0.0.2", "127.0.0.3"), "127.0.0.4"
END_SECONDS = 900
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


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


class Soak:
    """One soak: the input, the cluster, the driver, and what happens to them."""

    def __init__(self, folder: Path, seed: int, minutes: float, master: str | None) -> None:
        self.folder, self.minutes, self.master = folder, minutes, master
        self.root = root(folder)
        self.random = random.Random(seed)
        self.limited = False
        self.sequence = Sequence(seed)
        cluster.PATIENCE = 600.0  # a soak may run beside other work
        self.cluster = None if master else Cluster(folder / "cluster")
        for address in WORKERS if self.cluster else ():
            self.cluster.worker(address)
        self.driver = self._driver()
        self.done: Counter[str] = Counter()
        self.next: list[Callable[[], bool]] = []
        self.began = time.monotonic()

    def run(self) -> int:
        """Runs the whole soak; returns 0 if nothing is lost, doubled or wrong."""
        ended = threading.Event()
        writer = threading.Thread(target=self._write, args=(ended,))
        writer.start()
        try:
            while time.monotonic() - self.began < self.minutes * 60:
                # Most faults hit a query that makes progress. The others may hit a query that still
                # recovers from the last fault.
                alone, pause = self.random.random() < 0.75, self.random.uniform(0, 5)
                if alone:
                    self._wait_for_progress()
                self._pause(pause)
                fault = self._draw()
                name = fault.__name__.strip("_")
                self.say(name)
                hit = fault()
                self.done[name] += hit
                if not hit:
                    self.say(f"{name} has met nothing")
        finally:
            ended.set()
            writer.join()
        (self.folder / "last").touch()
        self.say(f"the last of {len(self.sequence.batches)} micro-batches has arrived")
        end = time.monotonic() + END_SECONDS
        while not (self.driver.ended and self.driver.process.returncode == 0):
            if time.monotonic() > end:
                print(self.driver.words())
                break
            self._pause(1)
        found = differences(self.sequence, self.folder)
        if self.minutes >= 30:
            names = (fault.__name__.strip("_") for fault in self.faults)
            found += [f"{name} has met nothing" for name in names if not self.done[name]]
        rows = sum(map(len, self.sequence.joined))
        print(
            f"{sum(self.done.values())} faults: "
            + ", ".join(f"{count} {name}" for name, count in self.done.most_common())
        )
        print(
            "\n".join(found[:10])
            or f"{rows} rows in {len(self.sequence.batches)} micro-batches: "
            "0 lost, 0 doubled, 0 wrong"
        )
        return 1 if found else 0

    def say(self, what: str) -> None:
        """Prints a line of progress."""
        at = time.monotonic() - self.began
        print(
            f"{at:6.0f} s  {committed(self.folder):5} of {len(self.sequence.batches):5} "
            f"micro-batches  {what}",
            flush=True,
        )

    def stop(self) -> None:
        """Ends all processes."""
        self.driver.kill()
        if self.cluster is not None:
            self.cluster.stop()

    def _driver(self, **settings: str) -> Driver:
        if self.cluster is None:
            return Driver(self.folder, self.master or "")
        self.limited = bool(settings)
        named = {f"spark.{name.replace('_', '.')}": value for name, value in settings.items()}
        return Driver(self.folder, self.cluster.url, {**CLUSTER, **named})

    def _draw(self) -> Callable[[], bool]:
        if not self.next:
            self.next = self.faults
            self.random.shuffle(self.next)
        return self.next.pop()

    def _write(self, ended: threading.Event) -> None:
        while not ended.is_set():
            # No more than the query can process: a backlog only delays the end.
            if len(self.sequence.batches) - committed(self.folder) < 20:
                self.sequence.write(self.folder / "in")
            ended.wait(0.5)

    def _wait_for_progress(self) -> None:
        before, end = committed(self.folder), self.began + self.minutes * 60
        while committed(self.folder) == before and time.monotonic() < end:
            self._pause(0.1)

    def _pause(self, seconds: float) -> None:
        """Waits, and restarts a driver that has ended."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.driver.ended and self.driver.process.returncode != 0:
                self.done["drivers that ended by themselves"] += 1
                self.say(f"the driver has ended: {self.driver.reason()}")
                self.driver = self._driver()
            time.sleep(0.1)

    # --- faults
    # ------------------------------------------------------------------------------------------

    @property
    def faults(self) -> list[Callable[[], bool]]:
        """The possible faults; each returns whether it affected something.

        Faults that need a cluster are included only if there is one.
        """
        found = [
            self._kill_python_worker,
            self._kill_host,
            self._stop_host_for_a_while,
            self._kill_driver,
            self._stop_driver_for_a_while,
            self._raise_in_a_task,
            self._delete_local_directories,
            self._cut_newest_snapshot,
            self._start_second_driver,
        ]
        if self.cluster is None:
            return found
        return [
            *found,
            self._kill_executor,
            self._kill_standalone_worker,
            self._add_or_remove_a_worker,
            self._restart_with_one_executor,
            self._hold_a_task_that_has_a_twin,
        ]

    def _processes(self, word: str) -> list[int]:
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

    def _hosts(self) -> list[int]:
        executors = set(self._processes("java"))
        return sorted(pid for pid, executor in streams.executors_hosts() if executor in executors)

    def _one(self, pids: list[int], number: int) -> int | None:
        if not pids:
            return None
        pid = self.random.choice(pids)
        _signal(pid, number)
        return pid

    def _kill_python_worker(self) -> bool:
        return self._one(self._processes("pyspark.daemon"), signal.SIGKILL) is not None

    def _kill_host(self) -> bool:
        return self._one(self._hosts(), signal.SIGKILL) is not None

    def _stop_host_for_a_while(self) -> bool:
        pid = self._one(self._hosts(), signal.SIGSTOP)
        self._pause(self.random.uniform(1, 15))
        if pid is not None:
            _signal(pid, signal.SIGCONT)
        return pid is not None

    def _kill_driver(self) -> bool:
        lived = not self.driver.ended
        self.driver.kill()
        self.driver = self._driver()
        return lived

    def _start_second_driver(self) -> bool:
        """Both run the query, with a core each: the newer continues, the older one's tasks fail."""
        self._restart_with_one_executor()
        said = self.driver.log.stat().st_size
        older, self.driver = self.driver, self._driver(cores_max="1")
        end = time.monotonic() + 120
        refused = False
        while not refused and time.monotonic() < end:
            self._pause(0.5)
            refused = b"FencedError" in self.driver.log.read_bytes()[said:]
        older.kill()
        return refused

    def _stop_driver_for_a_while(self) -> bool:
        self.driver.signal(signal.SIGSTOP)
        time.sleep(self.random.uniform(1, 10))
        self.driver.signal(signal.SIGCONT)
        return not self.driver.ended

    def _raise_in_a_task(self) -> bool:
        return self._marked("raise")

    def _hold_a_task_that_has_a_twin(self) -> bool:
        """The task waits with its session open; only its second attempt can end the micro-batch."""
        if self.limited:
            self._kill_driver()
            self._wait_for_progress()
        taken, driver = self._marked("wait"), self.driver
        before, end = committed(self.folder), time.monotonic() + 60
        while taken and committed(self.folder) == before and time.monotonic() < end:
            self._pause(0.1)
        (self.folder / "waiting").unlink(missing_ok=True)
        return taken and committed(self.folder) > before and self.driver is driver

    def _marked(self, mark: str) -> bool:
        """Whether a task has taken a mark."""
        file, end = self.folder / mark, time.monotonic() + 60
        file.touch()
        while file.exists() and time.monotonic() < end:
            self._pause(0.1)
        taken = not file.exists()
        file.unlink(missing_ok=True)
        return taken

    def _delete_local_directories(self) -> bool:
        """Restarts the driver with a new disk: no host runs, and the databases are gone."""
        self._nothing_runs()
        had = any(self.root.glob("state/*/*/*"))
        shutil.rmtree(self.root / "state", ignore_errors=True)
        self.driver = self._driver()
        return had

    def _cut_newest_snapshot(self) -> bool:
        """Truncates the newest file of the snapshots, and restarts the driver with a new disk."""
        self._nothing_runs()
        files = sorted(
            self.root.glob("snapshots/*/*/files/*"), key=lambda file: file.stat().st_mtime
        )
        if files:
            with files[-1].open("r+b") as file:
                file.truncate(files[-1].stat().st_size // 2)
        shutil.rmtree(self.root / "state", ignore_errors=True)
        self.driver = self._driver()
        return bool(files)

    def _nothing_runs(self) -> None:
        hosts = self._hosts()
        self.driver.kill()
        for pid in hosts:
            _signal(pid, signal.SIGKILL)
        end = time.monotonic() + 10
        while any(
            Path(f"/proc/{pid}/fd").exists() and os.listdir(f"/proc/{pid}/fd") for pid in hosts
        ):
            if time.monotonic() > end:
                raise TimeoutError("a host lives on after SIGKILL")
            time.sleep(0.05)

    def _kill_executor(self) -> bool:
        return (
            self._one(self._processes("CoarseGrainedExecutorBackend"), signal.SIGKILL) is not None
        )

    def _kill_standalone_worker(self) -> bool:
        address = self.random.choice(WORKERS)
        had_executors = len(streams.below(self._cluster.workers[address].pid)) > 1
        self._cluster.kill_worker(address)
        self._cluster.worker(address)
        return had_executors

    def _add_or_remove_a_worker(self) -> bool:
        """The job takes all cores of the cluster, so it gets an executor on an added worker."""
        if THIRD in self._cluster.workers:
            worker = self._cluster.workers.pop(THIRD)
            worker.terminate()
            worker.wait()
        else:
            self._cluster.worker(THIRD)
        return True

    def _restart_with_one_executor(self) -> bool:
        """Restarts the driver with one core; the next driver has all of them again."""
        self.driver.kill()
        self.driver = driver = self._driver(cores_max="1")
        before = committed(self.folder)
        self._wait_for_progress()
        return committed(self.folder) > before and self.driver is driver

    @property
    def _cluster(self) -> Cluster:
        assert self.cluster is not None
        return self.cluster


def main() -> int:
    """Runs the soak; returns 0 if nothing is lost, doubled or wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument(
        "--seed", type=int, default=None, help="of the rows and of the faults (default: by chance)"
    )
    parser.add_argument(
        "--master", help="a Spark master, such as local[2,8], in place of the cluster"
    )
    options = parser.parse_args()
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    print(f"again: make soak SOAK_MINUTES={options.minutes:g} SEED={seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="holdfast-soak-", ignore_cleanup_errors=True) as folder:
        soak = Soak(Path(folder), seed, options.minutes, options.master)
        try:
            code = soak.run()
        finally:
            soak.stop()
        if code:
            stored = Path(folder).with_name(f"{Path(folder).name}-kept")
            shutil.copytree(folder, stored, ignore_dangling_symlinks=True)
            print(f"kept: {stored}\nagain: make soak SOAK_MINUTES={options.minutes:g} SEED={seed}")
    return code


if __name__ == "__main__":
    sys.exit(main())
