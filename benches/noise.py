"""How quiet a machine is, measured before the benches run."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

MOST_LOAD = 0.05
MOST_SPREAD = 0.15
_SECONDS = 5
_ROUNDS = 20
_STEPS = 500_000


@dataclass(frozen=True)
class Noise:
    """What other programs do, and how much the time of a fixed computation varies."""

    load: float
    """The share of all processors that other programs use, from 0 to 1."""
    loop: float
    """The median time of the computation, in seconds."""
    spread: float
    """The difference of the quartiles of 20 rounds, divided by the median.

    On a virtual machine, one round in 20 is often much slower. The benches publish medians, which
    such rounds do not move.
    """

    @property
    def is_quiet(self) -> bool:
        """Whether figures of such a machine may be published."""
        return self.load <= MOST_LOAD and self.spread <= MOST_SPREAD

    def __str__(self) -> str:
        """Shows the figures in a sentence."""
        return (
            f"Before the run, other programs used {self.load:.1%} of the processors, and the time "
            f"of a fixed loop ({self.loop * 1e3:.0f} ms) varied by {self.spread:.1%} between its "
            "quartiles."
        )


def measured() -> Noise:
    """Measures for some seconds."""
    before = _busy_and_all()
    time.sleep(_SECONDS)
    after = _busy_and_all()
    load = (after[0] - before[0]) / max(after[1] - before[1], 1)
    times = [_loop() for _ in range(_ROUNDS)]
    low, middle, high = quantiles(times, n=4)
    return Noise(load, middle, (high - low) / middle)


def _busy_and_all() -> tuple[int, int]:
    """The processors' busy ticks and all their ticks since the machine started."""
    fields = Path("/proc/stat").read_text().partition("\n")[0].split()[1:]
    # Guest time is part of user time: `man proc_stat`.
    user, nice, system, idle, io_wait, *rest = (int(field) for field in fields[:8])
    waited = idle + io_wait
    return user + nice + system + sum(rest), user + nice + system + waited + sum(rest)


def _loop() -> float:
    """Seconds of a fixed computation on one processor."""
    start = time.perf_counter()
    total = 0
    for step in range(_STEPS):
        total += step
    return time.perf_counter() - start


def main() -> None:
    """Prints the noise."""
    found = measured()
    print(found, "quiet" if found.is_quiet else "too loud", f"{os.cpu_count()} processors")


if __name__ == "__main__":
    main()
