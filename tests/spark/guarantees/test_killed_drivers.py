"""Drivers that are killed or stopped, or run twice, checked against their input."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest
from drivers import Driver, committed, differences, root, wait, wait_commits
from sequence import Sequence

pytestmark = pytest.mark.survive


@pytest.fixture
def drive(tmp_path: Path):
    """Starts drivers; none outlives its test."""
    started: list[Driver] = []

    def start(**options: str) -> Driver:
        started.append(Driver(tmp_path, **options))
        return started[-1]

    yield start
    for driver in started:
        driver.kill()


def claims(folder: Path) -> int:
    """How many runs have claimed the root."""
    return len(list((root(folder) / "runs").glob("*")))


@pytest.mark.timeout(3_600)
def test_a_driver_killed_at_twenty_moments_loses_nothing(tmp_path: Path, drive):
    sequence, chance, at_work = Sequence(20), random.Random(20), 0
    for kill in range(20):
        for _ in range(3):
            sequence.write(tmp_path / "in")
        before, runs = committed(tmp_path), claims(tmp_path)
        driver = drive()
        if kill % 2:
            # Kill the driver during its start: it claims a run, replays, and its hosts restore.
            wait(
                lambda runs=runs, driver=driver: claims(tmp_path) > runs or driver.ended,
                "nothing claimed a run",
            )
        else:
            # Kill it in one of the newest micro-batches.
            wait_commits(tmp_path, before + 1, driver)
        time.sleep(chance.uniform(0, 2))
        assert not driver.ended, driver.words()
        at_work += committed(tmp_path) < len(sequence.batches)
        driver.kill()
    assert at_work >= 10, f"only {at_work} of 20 drivers had anything to do when they were killed"
    (tmp_path / "last").touch()
    driver = drive()
    assert driver.process.wait() == 0, driver.words()
    assert differences(sequence, tmp_path) == []


@pytest.mark.parametrize("older", ["lives", "is stopped and wakes"])
def test_a_second_driver_leaves_the_result_exact(tmp_path: Path, drive, older: str):
    """One of the two drivers ends with an error about the other one; the result is exact."""
    sequence = Sequence(2)
    for _ in range(3):
        sequence.write(tmp_path / "in")
    first = drive()
    wait(lambda: committed(tmp_path) == 3 or first.ended, "the first driver did not start")
    if older != "lives":
        first.signal(signal.SIGSTOP)
    second = drive(log="second.log")
    sequence.write(tmp_path / "in")
    if older != "lives":
        wait(lambda: committed(tmp_path) == 4 or second.ended, "the second driver did not go on")
        first.signal(signal.SIGCONT)
    # A driver without work does not detect the other one.
    end = time.monotonic() + 300
    while not (first.ended or second.ended):
        assert time.monotonic() < end, "neither driver detected the other"
        sequence.write(tmp_path / "in")
        time.sleep(1)
    ended, left = (first, second) if first.ended else (second, first)
    # Either a host refuses its tasks, or Spark finds first, in one of two places, that another
    # driver wrote its log.
    reasons = ("superseded by run", "another driver runs the same query")
    reasons += ("CONCURRENT_STREAM_LOG_UPDATE", "Multiple streaming jobs detected")
    assert any(words in ended.words(100_000) for words in reasons), ended.words()
    (tmp_path / "last").touch()
    if left.process.wait() != 0:
        left = drive()
        assert left.process.wait() == 0, left.words()
    assert differences(sequence, tmp_path) == []


def test_a_driver_that_slept_in_mid_batch_reports_the_run_that_superseded_it(tmp_path: Path, drive):
    """Its tasks stage after another driver's commit of the batch: only hosts can refuse them."""
    sequence = Sequence(3)
    for _ in range(3):
        sequence.write(tmp_path / "in")
    older = drive()
    wait_commits(tmp_path, 3, older)
    (tmp_path / "wait").touch()
    sequence.write(tmp_path / "in")
    waiting = tmp_path / "waiting"
    wait(waiting.exists, "no task of the first driver is in mid-batch")
    older.signal(signal.SIGSTOP)
    newer = drive(log="newer.log")
    sequence.write(tmp_path / "in")
    wait_commits(tmp_path, 5, newer)
    waiting.unlink()
    older.signal(signal.SIGCONT)
    wait(lambda: older.ended, "the older driver goes on")
    assert "run 1 of this query was superseded by run 2 (Spark run id" in older.words(100_000), (
        older.words()
    )
    for _ in range(2):
        sequence.write(tmp_path / "in")
    (tmp_path / "last").touch()
    assert newer.process.wait() == 0, newer.words()
    assert differences(sequence, tmp_path) == []
