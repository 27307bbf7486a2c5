"""Fixtures that all tests share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from databases import Bench


@pytest.fixture
def place() -> str:
    """Where the stores are; the contract's tests run with all of them."""
    return "files"


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """As `tmp_path`, in memory where there is a file system of it: a spill syncs files, and here no
    power is lost.
    """
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as path:
        yield Path(path)


@pytest.fixture
def bench(tmp_path: Path, place: str):
    bench = Bench(tmp_path / "db", place)
    yield bench
    bench.db.close()


@pytest.fixture
def open_bench(tmp_path: Path, place: str):
    """Opens databases with options of the test's own; all are closed at its end."""
    opened: list[Bench] = []

    def opener(name: str = "db", **options: Any) -> Bench:
        opened.append(Bench(tmp_path / name, place, **options))
        return opened[-1]

    yield opener
    for bench in opened:
        bench.db.close()
