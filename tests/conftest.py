"""Fixtures that all tests share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tasks import Bench


@pytest.fixture
def place() -> str:
    """Where the stores are; the contract's tests run with all of them."""
    return "files"


@pytest.fixture
def bench(tmp_path: Path, place: str):
    bench = Bench(tmp_path / "db", place)
    yield bench
    bench.task.close()


@pytest.fixture
def open_bench(tmp_path: Path, place: str):
    """Opens tasks with options of the test's own; all are closed at its end."""
    opened: list[Bench] = []

    def opener(name: str = "db", **options: Any) -> Bench:
        opened.append(Bench(tmp_path / name, place, **options))
        return opened[-1]

    yield opener
    for bench in opened:
        bench.task.close()
