"""Runs the command line in this process, and damages copies of a root."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.cli import main


@dataclass(frozen=True)
class Ran:
    """What a command line did."""

    status: int
    out: str
    err: str


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Ran:
    """Runs a command line whose output is no terminal."""
    capsys.readouterr()
    status = main([str(argument) for argument in arguments])
    return Ran(status, *capsys.readouterr())


def copy_of(root: Path, to: Path) -> Path:
    """Copies a root with hard links; `damage` replaces a link, so the original is unchanged."""
    shutil.copytree(root, to, copy_function=os.link, ignore=lambda _, names: {"state"} & set(names))
    return to


def damage(file: Path, how: str, at: float = 0.5) -> None:
    """Damages a file: `missing`, `truncated`, or one bit `flipped`, at the fraction `at` of it."""
    content = bytearray(file.read_bytes())
    file.unlink()
    if how == "missing":
        return
    if how == "truncated":
        content = content[: len(content) // 2]
    else:
        content[int((len(content) - 1) * at)] ^= 0x01
    file.write_bytes(content)
