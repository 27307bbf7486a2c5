"""A figure: what was measured against what, in turns of one run."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LEAST_TURNS = 5
"""The turns that a published figure has at least."""


@dataclass(frozen=True)
class Figure:
    """One row of the table."""

    measured: str
    against: str
    turns: list[float]
    """The ratio of each turn, or the absolute figure of each turn. Empty when none could be taken;
    `note` says why.
    """
    reach: str
    """The goal for the median, such as `>= 2.2` or `<= 1.15`."""
    unit: str
    """What the ratio is of: `throughput`, `time`, or a unit such as `s` when it is an absolute
    figure.
    """
    note: str = ""
    settings: str = ""
    """What decides the speed of both sides: write-ahead log, fsync, cache, compression."""

    @property
    def ratio(self) -> float | None:
        """The median of the turns; None if there are none."""
        return median(self.turns) if self.turns else None

    @property
    def spread(self) -> str:
        """The least and the greatest turn, and their number."""
        if not self.turns:
            return ""
        return f"{min(self.turns):.2f} to {max(self.turns):.2f}, {len(self.turns)} turns"

    @property
    def is_met(self) -> bool | None:
        """Whether the ratio meets `reach`; None if there is no ratio or no goal."""
        sign, _, number = self.reach.partition(" ")
        if self.ratio is None or sign not in ("<=", ">=", "<"):
            return None
        limit = float(number.split()[0])
        return {"<=": self.ratio <= limit, ">=": self.ratio >= limit, "<": self.ratio < limit}[sign]

    @property
    def is_too_short(self) -> bool:
        """Whether it has fewer turns than a published figure needs."""
        return 0 < len(self.turns) < LEAST_TURNS


def ratios(pairs: Iterable[tuple[float, float]]) -> list[float]:
    """The first of each pair divided by the second."""
    return [one / other for one, other in pairs]


def alternate(
    one: Callable[[], float], other: Callable[[], float], turns: int
) -> tuple[list[float], str]:
    """The ratio `one / other` of each turn, and the medians of both sides in words.

    The speed of a machine drifts; two measurements side by side drift together. The files of the
    first keep the disk busy during the second, so the order alternates.
    """
    pairs = []
    for turn in range(turns):
        if turn % 2:
            second = other()
            pairs.append((one(), second))
        else:
            pairs.append((one(), other()))
    return ratios(pairs), (
        f"{median(a for a, _ in pairs):.3f} s against {median(b for _, b in pairs):.3f} s"
    )
