"""100 readers beside a query whose processes are killed at random.

The test kills the query's driver, executors and state hosts, a gateway, and the readers.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
import readable
from cluster import spark_home
from drivers import Driver, committed, root, wait
from streams import below, executors_hosts

pytestmark = pytest.mark.survive

SUPPORT = Path(__file__).parents[1] / "support"
MINUTES = float(os.environ.get("READING_MINUTES", "5"))
READERS = 100
PROCESSES = 4
# With two executors, partitions move between their hosts. The driver replaces each executor that
# ends, without a limit.
MASTER = "local-cluster[2,1,1024]"
SETTINGS = {"spark.deploy.maxExecutorRetries": "-1", "spark.task.maxFailures": "100"}
KINDS = ("keys", "key", "scan", "versions", "as_of", "old")


class GatewayProcess:
    """A gateway. When it is started again, it has the same address."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = "127.0.0.1:0"
        self.start()

    def start(self) -> None:
        """Starts it, and waits until it serves."""
        command = [sys.executable, "-m", "holdfast", "serve", "--offline", "auto"]
        command += ["--listen", self.address, str(root(self.folder))]
        with (self.folder / "gateway.log").open("ab") as said:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("serving at "), (self.folder / "gateway.log").read_text()
        self.address = line.rpartition("/")[2].strip()

    def kill(self) -> None:
        """Kills it."""
        assert self.process.stdout is not None
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class ReaderProcess:
    """A process with a quarter of the readers; they ask the gateway if there is one."""

    def __init__(self, folder: Path, seed: int, gateway: GatewayProcess | None) -> None:
        self.log = folder / f"readers-{seed}"
        self.gateway = gateway
        # The readers never pause. At the usual priority they would leave the query too little time.
        script = ["nice", "-n", "19", sys.executable, str(SUPPORT / "reader_process.py")]
        arguments = [str(root(folder)), str(READERS // PROCESSES), str(seed)]
        if gateway is not None:
            arguments.append(gateway.address)
        with self.log.open("wb") as out, self.log.with_suffix(".err").open("wb") as err:
            self.process = subprocess.Popen(
                script + arguments, stdin=subprocess.PIPE, stdout=out, stderr=err
            )

    def check(self) -> None:
        """Fails if a reader got a wrong answer."""
        errors = self.log.with_suffix(".err").read_text(errors="replace")
        assert self.process.poll() in (None, 0, -signal.SIGKILL), errors[-4000:]

    def counts(self) -> Counter[str]:
        """How many answers and errors its readers had, by kind."""
        lines = self.log.read_text().splitlines()
        whole = [line for line in lines if line.endswith("}")]
        return Counter(json.loads(whole[-1])) if whole else Counter()

    def end(self) -> None:
        """Waits until the readers have ended."""
        self.process.communicate(timeout=300)


@pytest.fixture
def processes():
    """Processes, none of which outlives the test."""
    started: list[ReaderProcess] = []
    yield started
    for reader in started:
        reader.process.kill()
        reader.process.wait()
        if reader.gateway is not None:
            reader.gateway.kill()


def executors_of(driver: Driver) -> dict[int, list[int]]:
    """The executors of a driver, with their state hosts."""
    ours = below(driver.process.pid)
    found: dict[int, list[int]] = {}
    for host, executor in executors_hosts():
        if executor in ours:
            found.setdefault(executor, []).append(host)
    return found


def send(number: int, processes: list[int]) -> None:
    """Sends a signal to processes, of which some may have ended."""
    for pid in processes:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


@pytest.mark.timeout(MINUTES * 60 + 900)
def test_every_answer_is_the_state_of_the_epoch_that_it_names(
    tmp_path: Path, processes: list[ReaderProcess]
):
    seed = int(os.environ.get("SEED", "1"))
    chance = random.Random(seed)
    (tmp_path / "in").mkdir()
    home = {"SPARK_HOME": str(spark_home(tmp_path / "spark"))}
    written = 0

    def start() -> Driver:
        job = SUPPORT / "readable_job.py"
        return Driver(tmp_path, MASTER, SETTINGS, job=job, environment=home)

    def go_on(seconds: float) -> None:
        """Writes the input of the query, and checks the readers."""
        nonlocal written
        until = time.monotonic() + seconds
        while True:
            # The input stays a little ahead of the query.
            while written < committed(tmp_path) + 5:
                readable.write(tmp_path / "in", written)
                written += 1
            for process in processes:
                process.check()
            if time.monotonic() >= until:
                break
            time.sleep(0.05)

    go_on(0)
    driver = start()
    try:
        wait(lambda: committed(tmp_path) > 0 or driver.ended, "the query did not start")
        assert not driver.ended, driver.words()
        gateway = GatewayProcess(tmp_path)
        for number in range(PROCESSES):
            asked = gateway if number == 0 else None
            processes.append(ReaderProcess(tmp_path, 1000 * number, asked))
        begun, done = committed(tmp_path), Counter[str]()
        end = time.monotonic() + MINUTES * 60
        while time.monotonic() < end:
            go_on(chance.uniform(2, 10))
            if driver.ended:
                driver, begun = start(), committed(tmp_path)
                continue
            fault = chance.choice(
                ["hosts", "stopped host", "executor", "driver", "readers", "gateway"]
            )
            running = executors_of(driver)
            if fault not in ("readers", "gateway") and (
                not running or committed(tmp_path) < begun + 5
            ):
                continue  # the driver has only just started
            done[fault] += 1
            if fault == "hosts":
                send(signal.SIGKILL, sum(running.values(), []))
            elif fault == "stopped host":
                stopped = running[chance.choice(list(running))]
                send(signal.SIGSTOP, stopped)
                # After ten seconds its partitions move to the other host.
                go_on(chance.choice([0.5, 2, 15]))
                send(signal.SIGCONT, stopped)
            elif fault == "executor":
                send(signal.SIGKILL, [chance.choice(list(running))])
            elif fault == "driver":
                driver.kill()
                driver, begun = start(), committed(tmp_path)
            elif fault == "gateway":
                gateway.kill()
                gateway.start()
            else:
                killed = chance.randrange(PROCESSES)
                processes[killed].process.kill()
                asked = processes[killed].gateway
                processes.append(ReaderProcess(tmp_path, 1000 * len(processes), asked))
                processes[killed], processes[-1] = processes[-1], processes[killed]
        answers: Counter[str] = Counter()
        for process in processes:
            if process.process.poll() is None:
                process.end()
            process.check()
            answers += process.counts()
    finally:
        driver.kill()
    print(f"seed {seed}: {committed(tmp_path)} epochs, faults {dict(done)}, reads {dict(answers)}")
    assert min(done[fault] for fault in ("hosts", "executor", "driver", "gateway")) >= 1, done
    kinds = [*KINDS, *(f"gateway: {kind}" for kind in KINDS)]
    assert min(answers[kind] for kind in kinds) >= 100, answers
