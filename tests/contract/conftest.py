"""The stores of the cases, in every mode and on every kind of storage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from windowed import MODES, Case

import holdfast as hf
from databases import Bench


@pytest.fixture(params=MODES)
def open_case(request: pytest.FixtureRequest, tmp_path: Path):
    """Opens a store in a mode of `MODES`, such as with a reopen after every call."""
    opened: list[Case] = []

    def opener(builder: hf.StoreBuilder) -> Case:
        opened.append(
            Case(
                None if request.param.startswith("in memory") else tmp_path / "db",
                builder,
                request.param,
            )
        )
        return opened[-1]

    yield opener
    for case in opened:
        case.db.close()


@pytest.fixture(params=["files", "spilled", "memory", "memory beside files"])
def place(request: pytest.FixtureRequest) -> str:
    """All places: the contract holds in each.

    They are files, files with a transaction that spills at every row, memory, and memory in a
    database that has files.
    """
    return request.param


@pytest.fixture(params=["still open", "reopened"])
def maybe_reopen(request: pytest.FixtureRequest, bench: Bench) -> Callable[[], None]:
    """Called between a write and its check: reopens the database in one run of two."""
    return bench.reopen if request.param == "reopened" else lambda: None
