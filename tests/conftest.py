"""Fixtures that all tests share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from databases import Bench, memory_folder


@pytest.fixture
def place() -> str:
    """Where the stores are; the cases of `contract/` run with all places."""
    return "files"


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """Like `tmp_path`, but on a file system in memory if there is one with room.

    A spill syncs files, and these tests do not simulate a loss of power.
    """
    memory = memory_folder()
    with tempfile.TemporaryDirectory(dir=memory) as path:
        yield Path(path)


@pytest.fixture
def bench(tmp_path: Path, place: str):
    bench = Bench(tmp_path / "db", place)
    yield bench
    bench.db.close()


@pytest.fixture
def open_bench(tmp_path: Path, place: str):
    """Opens databases with a test's options; all are closed at its end."""
    opened: list[Bench] = []

    def opener(name: str = "db", **options: Any) -> Bench:
        opened.append(Bench(tmp_path / name, place, **options))
        return opened[-1]

    yield opener
    for bench in opened:
        bench.db.close()
