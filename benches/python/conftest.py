"""Shared by the benches that pytest-benchmark runs: their sizes, turns and figures."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from figure import Figure


@pytest.fixture
def quick() -> bool:
    """Whether inputs are small, to see that the benches work."""
    return "HOLDFAST_BENCH_QUICK" in os.environ


@pytest.fixture
def publish(benchmark: Any) -> Callable[[Figure], None]:
    """Makes a benchmark a row of `RESULTS.md`, in place of a row of the Python calls."""

    def add(figure: Figure) -> None:
        benchmark.extra_info["figure"] = asdict(figure)

    return add


@pytest.fixture
def take_turns(benchmark: Any) -> Callable[..., list[tuple[float, float]]]:
    """Measures a function in turns with another system.

    pytest-benchmark takes all rounds of one function before those of the next. So the other system
    runs in the setup of each round.
    """

    def take(
        target: Callable[..., object],
        other: Callable[[], float],
        setup: Callable[[], Any],
        turns: int,
    ) -> list[tuple[float, float]]:
        """Returns the seconds of both in each turn. `setup` returns the target's argument."""
        seconds: list[float] = []

        def prepare() -> tuple[tuple[Any], dict[str, Any]]:
            seconds.append(other())
            return (setup(),), {}

        benchmark.pedantic(target, setup=prepare, rounds=turns, warmup_rounds=1)
        return list(zip(benchmark.stats.stats.data, seconds[1:], strict=True))

    return take
