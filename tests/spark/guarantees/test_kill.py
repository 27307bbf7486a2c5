"""A driver killed at any moment: the demo's job in processes, checked row by row."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import demo_output
import pytest

# Half a minute on a quiet machine.
pytestmark = pytest.mark.timeout(1_800)

DEMO = Path(__file__).parents[3] / "examples" / "ecb_orders.py"


def demo(base: Path, *options: str) -> str:
    done = subprocess.run(
        [sys.executable, str(DEMO), "--rows", "20000", "--dir", str(base), *options],
        capture_output=True,
        text=True,
        timeout=1_500,
        env=dict(os.environ),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.crash
@pytest.mark.parametrize("seed", [1])
def test_a_driver_killed_in_mid_batch_loses_nothing(tmp_path: Path, seed: int):
    said = demo(tmp_path / "demo", "--kill", "--seed", str(seed))
    assert "SIGKILL" in said
    assert said.endswith("20000 orders, 0 differences, 0 lost, 0 doubled\n")
    check_readme(said, tmp_path / "demo")


def check_readme(said: str, folder: Path) -> None:
    """Compares with README what does not depend on the orders; the input's figures have a test."""
    found, shown = demo_output.of_demo(said, folder), demo_output.of_readme()
    assert len(found) == len(shown)
    rates, commands, _, summary, state, after, _ = zip(found, shown, strict=True)
    assert rates[0].splitlines()[0] == rates[1].splitlines()[0]
    assert commands[0] == commands[1]
    assert state[0] == state[1]
    assert after[0].splitlines()[0] == after[1].splitlines()[0]
    titles = [re.findall("^(?:[A-Z].*|  [a-z ]+)", side, re.MULTILINE) for side in summary]
    assert [title.strip() for title in titles[0]] == [title.strip() for title in titles[1]]


# Each of these moments is between two files that Spark writes in sequence. A case takes half a
# minute or more, so they are not in `make test` but in `make crash-demo` and `make survive`.
@pytest.mark.crash
@pytest.mark.survive
@pytest.mark.parametrize(
    "moment",
    [
        # The sink has the rows, Spark's commit log does not.
        "enriched/_spark_metadata/{victim}",
        # Spark has committed, and no host has read the commit.
        "state/query/commits/{victim}",
        # One source is a file ahead of the other.
        "state/query/sources/0/{next}",
        # Both are ahead of Spark's offset log.
        "state/query/sources/1/{next}",
    ],
)
def test_a_driver_killed_between_two_files_loses_nothing(tmp_path: Path, moment: str):
    # Spark may commit before the driver is stopped at the sink's file. Then another seed is tried.
    for seed in range(1, 6):
        said = demo(tmp_path / f"demo{seed}", "--kill", "--seed", str(seed), "--kill-at", moment)
        assert said.endswith("20000 orders, 0 differences, 0 lost, 0 doubled\n")
        if "_spark_metadata" not in moment or "(not committed)" in said:
            return
    pytest.fail(f"no driver died before it committed: {said}")
