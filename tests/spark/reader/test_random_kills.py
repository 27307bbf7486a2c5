"""100 readers beside a query whose driver, hosts and readers are killed at random."""

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
from drivers import Driver, committed, root, wait
from streams import below, executors_hosts

pytestmark = pytest.mark.survive

SUPPORT = Path(__file__).parents[1] / "support"
MINUTES = float(os.environ.get("READING_MINUTES", "5"))
READERS = 100
PROCESSES = 4


class ReaderProcess:
    """A process with a quarter of the readers."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.log = folder / f"readers-{seed}"
        # The readers never pause: without this the query would hardly get on.
        script = ["nice", "-n", "19", sys.executable, str(SUPPORT / "reader_process.py")]
        arguments = [str(root(folder)), str(READERS // PROCESSES), str(seed)]
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
        self.process.communicate(timeout=120)


@pytest.fixture
def processes():
    """Processes, none of which outlives the test."""
    started: list[ReaderProcess] = []
    yield started
    for reader in started:
        reader.process.kill()
        reader.process.wait()


def hosts_of(driver: Driver) -> list[int]:
    """The state hosts of a driver."""
    ours = below(driver.process.pid)
    return [pid for pid, executor in executors_hosts() if executor in ours]


@pytest.mark.timeout(MINUTES * 60 + 900)
def test_every_answer_is_the_state_of_the_epoch_that_it_names(
    tmp_path: Path, processes: list[ReaderProcess]
):
    seed = int(os.environ.get("SEED", "1"))
    chance = random.Random(seed)
    (tmp_path / "in").mkdir()
    written = 0

    def start() -> Driver:
        return Driver(tmp_path, master="local[2]", job=SUPPORT / "readable_job.py")

    def write_more() -> None:
        nonlocal written
        # The input stays a little ahead of the query.
        while written < committed(tmp_path) + 5:
            readable.write(tmp_path / "in", written)
            written += 1

    write_more()
    driver = start()
    try:
        wait(lambda: committed(tmp_path) > 0 or driver.ended, "the query did not start")
        assert not driver.ended, driver.words()
        processes.extend(ReaderProcess(tmp_path, 1000 * n) for n in range(PROCESSES))
        begun, done = committed(tmp_path), Counter[str]()
        end = time.monotonic() + MINUTES * 60
        while time.monotonic() < end:
            until = time.monotonic() + chance.uniform(2, 10)
            while time.monotonic() < until:
                write_more()
                time.sleep(0.05)
                for process in processes:
                    process.check()
            if driver.ended:
                driver, begun = start(), committed(tmp_path)
                continue
            fault = chance.choice(["host", "host", "stopped host", "driver", "readers"])
            if fault == "driver" and committed(tmp_path) < begun + 5:
                continue  # it is still at its start
            done[fault] += 1
            if fault == "host":
                for pid in hosts_of(driver):
                    os.kill(pid, signal.SIGKILL)
            elif fault == "stopped host":
                stopped = hosts_of(driver)
                for pid in stopped:
                    os.kill(pid, signal.SIGSTOP)
                time.sleep(chance.uniform(0.5, 3))
                for pid in stopped:
                    os.kill(pid, signal.SIGCONT)
            elif fault == "driver":
                driver.kill()
                driver, begun = start(), committed(tmp_path)
            else:
                killed = chance.randrange(PROCESSES)
                processes[killed].process.kill()
                processes.append(ReaderProcess(tmp_path, 1000 * len(processes)))
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
    assert min(done[fault] for fault in ("host", "driver")) >= 1, done
    kinds = ("keys", "scan", "versions", "as_of", "old")
    assert min(answers[kind] for kind in kinds) >= 100, answers
