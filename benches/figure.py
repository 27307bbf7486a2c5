"""A figure: what was measured against what, in one run."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Figure:
    """One row of the table."""

    measured: str
    against: str
    ratio: float | None
    """None when it could not be taken; `note` says why."""
    reach: str
    """The goal for the ratio, such as `>= 2.2` or `<= 1.15`."""
    unit: str
    """What the ratio is of: `throughput`, `time`, or a unit such as `s` when it is an absolute
    figure.
    """
    note: str = ""

    @property
    def is_met(self) -> bool | None:
        """Whether the ratio meets `reach`; None if there is no ratio or no goal."""
        sign, _, number = self.reach.partition(" ")
        if self.ratio is None or sign not in ("<=", ">=", "<"):
            return None
        limit = float(number.split()[0])
        return {"<=": self.ratio <= limit, ">=": self.ratio >= limit, "<": self.ratio < limit}[sign]


def alternate(
    one: Callable[[], float], other: Callable[[], float], rounds: int
) -> tuple[float, str]:
    """The median of `one / other`, taken in turns, and both medians in words.

    The speed of a machine drifts; two measurements side by side drift together.
    """
    pairs = [(one(), other()) for _ in range(rounds)]
    ratio = median(a / b for a, b in pairs)
    spread = f"{min(a / b for a, b in pairs):.2f} to {max(a / b for a, b in pairs):.2f}"
    return (
        ratio,
        (
            f"{median(a for a, _ in pairs):.3f} s against {median(b for _, b in pairs):.3f} s; "
            f"{rounds} rounds: {spread}"
        ),
    )
