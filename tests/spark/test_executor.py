"""The files of an executor's state host."""

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.spark.executor import Place, _sweep

ENDS = ("sock", "token", "lock", "host", "log")


def _files(folder: Path, stem: str) -> Place:
    for end in ENDS:
        (folder / f"{stem}.{end}").write_text("")
    return Place(*(folder / f"{stem}.{end}" for end in ("sock", "token", "lock", "log")))


@pytest.mark.parametrize("held", ["host", "lock"])
def test_a_sweep_leaves_what_is_held_in_another_container(tmp_path: Path, held: str) -> None:
    # A process id that is none here: an executor that is gone, or one in another container with the same TMPDIR.
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    stem = f"{gone.pid}-aaaaaaaaaaaa"
    _files(tmp_path, stem)
    ours = _files(tmp_path, "1-bbbbbbbbbbbb")
    with (tmp_path / f"{stem}.{held}").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        _sweep(ours)
        assert len(list(tmp_path.iterdir())) == 2 * len(ENDS), "its host lives"
    _sweep(ours)
    assert sorted(file.name.partition("-")[0] for file in tmp_path.iterdir()) == ["1"] * len(ENDS)
