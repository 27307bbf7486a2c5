"""Faults of processes: they are killed, stopped, added, or run twice."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import streams
from cluster import Cluster
from drivers import committed
from soak_job import WORKERS, SoakJob, send

THIRD = "127.0.0.4"


class ProcessFaults:
    """Each method causes a fault, and returns whether it affected something."""

    def __init__(self, job: SoakJob) -> None:
        self.job, self.folder, self.random = job, job.folder, job.random

    @property
    def all(self) -> list[Callable[[], bool]]:
        """The possible faults. Faults that need a cluster are included only if there is one."""
        found = [
            self.kill_python_worker,
            self.kill_host,
            self.stop_host_for_a_while,
            self.kill_driver,
            self.stop_driver_for_a_while,
            self.raise_in_a_task,
            self.start_second_driver,
        ]
        if self.job.cluster is None:
            return found
        return [
            *found,
            self.kill_executor,
            self.kill_standalone_worker,
            self.add_or_remove_a_worker,
            self.restart_with_one_executor,
            self.hold_a_task_that_has_a_twin,
        ]

    def kill_python_worker(self) -> bool:
        return self.job.one(self.job.processes("pyspark.daemon"), signal.SIGKILL) is not None

    def kill_host(self) -> bool:
        return self.job.one(self.job.hosts(), signal.SIGKILL) is not None

    def stop_host_for_a_while(self) -> bool:
        pid = self.job.one(self.job.hosts(), signal.SIGSTOP)
        self.job.pause(self.random.uniform(1, 15))
        if pid is not None:
            send(pid, signal.SIGCONT)
        return pid is not None

    def kill_driver(self) -> bool:
        lived = not self.job.driver.ended
        self.job.driver.kill()
        self.job.start()
        return lived

    def start_second_driver(self) -> bool:
        """Both run the query, with a core each: the newer continues, the older one's tasks fail."""
        job = self.job
        self.restart_with_one_executor()
        said, older = job.said(), job.driver
        job.start(cores_max="1")
        refused = job.until(lambda: "FencedError" in job.log_since(said), 120)
        older.kill()
        return refused

    def stop_driver_for_a_while(self) -> bool:
        driver = self.job.driver
        driver.signal(signal.SIGSTOP)
        time.sleep(self.random.uniform(1, 10))
        driver.signal(signal.SIGCONT)
        return not driver.ended

    def raise_in_a_task(self) -> bool:
        return self._marked("raise")

    def hold_a_task_that_has_a_twin(self) -> bool:
        """The task waits with its session open; only its second attempt can end the micro-batch."""
        if self.job.is_limited:
            self.kill_driver()
            self.job.wait_for_progress()
        taken, driver = self._marked("wait"), self.job.driver
        before = committed(self.folder)
        ended = taken and self.job.until(lambda: committed(self.folder) > before)
        (self.folder / "waiting").unlink(missing_ok=True)
        return ended and self.job.driver is driver

    def _marked(self, mark: str) -> bool:
        """Whether a task has taken a mark."""
        file = self.folder / mark
        file.touch()
        taken = self.job.until(lambda: not file.exists())
        file.unlink(missing_ok=True)
        return taken

    def kill_executor(self) -> bool:
        executors = self.job.processes("CoarseGrainedExecutorBackend")
        return self.job.one(executors, signal.SIGKILL) is not None

    def kill_standalone_worker(self) -> bool:
        address = self.random.choice(WORKERS)
        had_executors = len(streams.below(self._cluster.workers[address].pid)) > 1
        self._cluster.kill_worker(address)
        self._cluster.worker(address)
        return had_executors

    def add_or_remove_a_worker(self) -> bool:
        """The job takes all cores of the cluster, so it gets an executor on an added worker."""
        if THIRD in self._cluster.workers:
            worker = self._cluster.workers.pop(THIRD)
            worker.terminate()
            worker.wait()
        else:
            self._cluster.worker(THIRD)
        return True

    def restart_with_one_executor(self) -> bool:
        """Restarts the driver with one core; the next driver has all of them again."""
        self.job.driver.kill()
        self.job.start(cores_max="1")
        driver = self.job.driver
        self.job.wait_for_progress()
        return self.job.driver is driver

    @property
    def _cluster(self) -> Cluster:
        assert self.job.cluster is not None
        return self.job.cluster
