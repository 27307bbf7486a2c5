"""The examples of docs/cli.md: each command of a console block, and what it prints."""

from __future__ import annotations

import doctest
import re
import shlex
import sys
from pathlib import Path

import pytest
from roots import copy_of, run

PAGE = Path(__file__).parents[2] / "docs/cli.md"


def examples() -> list[tuple[str, str]]:
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
    commands = [command for block in blocks for command in block.split("$ ")[1:]]
    return [(line, wanted) for line, _, wanted in (one.partition("\n") for one in commands)]


def test_each_example_prints_what_the_page_says(
    root: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    copy_of(root, tmp_path / "state")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert len(examples()) > 10
    for line, wanted in examples():
        program, *arguments = shlex.split(line)
        assert program == "holdfast"
        ran = run(capsys, *arguments)
        is_same = doctest.OutputChecker().check_output(wanted, ran.out, doctest.ELLIPSIS)
        assert is_same, f"{line}\n{ran.out}{ran.err}"
