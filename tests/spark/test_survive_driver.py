"""Drivers that are killed, stopped, or not alone: jobs in processes of their own, checked against their input."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest
from drivers import Driver, committed, differences, wait, wait_commits
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


def test_a_driver_killed_at_twenty_moments(tmp_path: Path, drive):
    sequence, chance = Sequence(20), random.Random(20)
    kills = 0
    while kills < 20:
        for _ in range(3):
            sequence.write(tmp_path / "in")
        before = committed(tmp_path)
        driver = drive()
        # Somewhere in the micro-batches that have just come; two of three kills hit the first one.
        wait_commits(tmp_path, before + 1, driver)
        time.sleep(chance.uniform(0, 2))
        assert not driver.ended, driver.words()
        driver.kill()
        kills += 1
    (tmp_path / "last").touch()
    driver = drive()
    assert driver.process.wait() == 0, driver.words()
    assert committed(tmp_path) == len(sequence.batches)
    assert differences(sequence, tmp_path) == []


@pytest.mark.parametrize("older", ["lives", "is stopped and wakes"])
def test_a_second_driver_beside_the_first(tmp_path: Path, drive, older: str):
    """The newer run wins; the older one is told by whom it was superseded."""
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
    for _ in range(3):
        sequence.write(tmp_path / "in")
        time.sleep(1)
    wait(lambda: first.ended or second.ended, "neither of the two noticed the other")
    ended, left = (first, second) if first.ended else (second, first)
    assert (
        "superseded by run" in ended.words(100_000)
        or "another driver runs the same query" in ended.words(100_000)
        or (
            # Spark itself notices that somebody else has written its log.
            "CONCURRENT_STREAM_LOG_UPDATE" in ended.words(100_000)
        )
    ), ended.words()
    (tmp_path / "last").touch()
    if left.process.wait() != 0:
        left = drive()
        assert left.process.wait() == 0, left.words()
    assert committed(tmp_path) == len(sequence.batches)
    assert differences(sequence, tmp_path) == []
