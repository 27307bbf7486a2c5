"""The files that the checks read, and how a check ends."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).resolve().parents[2]


def files(*patterns: str) -> list[str]:
    """Returns the paths of the checkout's files: those that git tracks or would add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return [file for file in listed.stdout.splitlines() if (ROOT / file).exists()]


def report(found: Iterable[str]) -> int:
    """Prints each problem; returns the exit code of the check."""
    lines = [line.replace(f"{ROOT}/", "") for line in found]
    print(*lines, sep="\n")
    return 1 if lines else 0
