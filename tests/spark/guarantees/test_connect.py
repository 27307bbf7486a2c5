"""Every operator and every way to read a table under Spark Connect.

Each case is a process of its own, since a process has one kind of session.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import holdfast

SUPPORT = Path(__file__).parents[1] / "support"
PACKAGE = Path(holdfast.__file__).parent

pytestmark = pytest.mark.timeout(1_200)


def is_slow_start(output: str) -> bool:
    """Whether a worker did not start in time, and no code of Holdfast's failed in any process.

    The process for foreachBatch has ten seconds to start, which a busy machine may exceed.
    """
    failed = f'File "{PACKAGE}/' in output or "panicked at" in output
    return "Python worker failed to connect back" in output and not failed


def run(script: str, folder: Path, *arguments: str) -> str:
    """Returns a program's output; its Connect server listens on a free port."""
    for attempt in range(3):
        time.sleep(20 * attempt)  # what else the machine does may end meanwhile
        folder.joinpath(str(attempt)).mkdir()
        # State hosts write their logs below TMPDIR; those of Python workers are in the output.
        with tempfile.TemporaryDirectory(prefix="hf", ignore_cleanup_errors=True) as temporary:
            done = subprocess.run(
                [sys.executable, str(SUPPORT / script), str(folder / str(attempt)), *arguments],
                capture_output=True,
                text=True,
                env={**os.environ, "SPARK_TESTING": "1", "TMPDIR": temporary},
            )
            logs = [
                file.read_text(errors="replace")
                for file in Path(temporary).glob("holdfast-*/*.log*")
            ]
        output = "\n".join((done.stdout, done.stderr, *logs))
        if done.returncode == 0 or not is_slow_start(output):
            break
    assert done.returncode == 0, output
    return done.stdout


def test_only_a_slow_start_is_repeated():
    slow = "org.apache.spark.SparkException: Python worker failed to connect back."
    assert is_slow_start(slow)
    assert not is_slow_start("java.lang.OutOfMemoryError")
    for failure in (
        f'Traceback (most recent call last):\n  File "{PACKAGE}/host.py", line 1, in main',
        "thread 'session' panicked at rust/host/src/session/mod.rs:1:1",
    ):
        assert not is_slow_start(f"{slow}\n{failure}")


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
