"""Changes of Rust expressions that cargo-mutants proposes."""

from __future__ import annotations

import json
import random
import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

VERSION = "27.1.0"


@dataclass(frozen=True)
class Mutant:
    """A change of one expression. `number` selects it in the build that has all mutants."""

    number: int
    group: str
    # As of cargo-mutants: `file:line:column: what in which function`.
    name: str
    file: str
    # FnValue, BinaryOperator, UnaryOperator, MatchArm, MatchArmGuard, StructField.
    genre: str
    replacement: str
    # Line and column, from 1, of the replaced text.
    start: tuple[int, int]
    end: tuple[int, int]

    @property
    def key(self) -> str:
        """The name without the position, which other changes move."""
        return re.sub(r":\d+:\d+: ", ": ", self.name)


def installed(cache: Path) -> Path:
    """Returns cargo-mutants, installed into the cache the first time."""
    home = cache / "cargo-mutants"
    if not (home / "bin/cargo-mutants").exists():
        subprocess.run(
            ["cargo", "install", "cargo-mutants", "--locked", "--version", VERSION, "--root", home],
            check=True,
        )
    return home / "bin/cargo-mutants"


def listed(tool: Path, checkout: Path, sources: dict[str, tuple[str, ...]]) -> list[Mutant]:
    """Returns all mutants of the groups' sources (glob patterns)."""
    found: list[Mutant] = []
    for group, patterns in sources.items():
        for pattern in patterns:
            output = subprocess.run(
                [tool, "mutants", "--list", "--json", "--file", pattern],
                cwd=checkout,
                check=True,
                capture_output=True,
            ).stdout
            found += [_mutant(len(found) + n, group, row) for n, row in enumerate(_rows(output), 1)]
    return found


def sampled(mutants: list[Mutant], count: int | None, seed: int) -> list[Mutant]:
    """Returns `count` mutants of a list, drawn by the seed; all if there are not more."""
    if count is None or count >= len(mutants):
        return mutants
    return random.Random(seed).sample(mutants, count)  # noqa: S311


def _rows(output: bytes) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(output)
    return rows


def _mutant(number: int, group: str, row: dict[str, Any]) -> Mutant:
    start, end = row["span"]["start"], row["span"]["end"]
    return Mutant(
        number,
        group,
        row["name"],
        row["file"],
        row["genre"],
        row["replacement"],
        (start["line"], start["column"]),
        (end["line"], end["column"]),
    )
