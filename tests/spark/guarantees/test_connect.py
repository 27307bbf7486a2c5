"""Every operator and every way to read a table under Spark Connect.

Each case is a process of its own, since a process has one kind of session.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

SUPPORT = Path(__file__).parents[1] / "support"

pytestmark = pytest.mark.timeout(1_200)


def run(script: str, folder: Path, *arguments: str) -> str:
    """Returns a program's output; its Connect server listens on a free port."""
    for attempt in range(6):
        folder.joinpath(str(attempt)).mkdir()
        done = subprocess.run(
            [sys.executable, str(SUPPORT / script), str(folder / str(attempt)), *arguments],
            capture_output=True,
            text=True,
            env={**os.environ, "SPARK_TESTING": "1"},
        )
        # The process for foreachBatch has ten seconds to start, which a busy machine may exceed.
        if done.returncode == 0 or "Python worker failed to connect back" not in done.stderr:
            break
        time.sleep(20)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_operator_works_in_foreach_batch(tmp_path: Path):
    """Connect runs the function in another process; `make survive` runs the other ways, too."""
    assert run("smoke.py", tmp_path, "--connect", "--way", "in foreachBatch").endswith(
        "Connect: 7 operators: in foreachBatch\n"
    )


def test_every_way_to_read_a_table_works(tmp_path: Path):
    assert run("smoke.py", tmp_path, "--connect", "--way", "reading").endswith(": reading\n")


@pytest.mark.survive
def test_every_operator_works_in_every_way(tmp_path: Path):
    assert run("smoke.py", tmp_path, "--connect").endswith(
        "Connect: 7 operators: in the plan, in foreachBatch, above foreachBatch, static, reading\n"
    )


def test_operators_above_foreach_batch_work_in_two_queries_of_a_session(tmp_path: Path):
    assert run("connect.py", tmp_path, "two_above").endswith("two_above: as it must be\n")


@pytest.mark.survive
@pytest.mark.parametrize(
    "case", ["above", "two_queries", "outlived", "restarted", "unwrapped", "server_killed"]
)
def test_connect_case_passes(tmp_path: Path, case: str):
    assert run("connect.py", tmp_path, case).endswith(f"{case}: as it must be\n")
