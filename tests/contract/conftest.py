"""Stores of the cases, each in every mode and on every kind of storage there is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from windowed import MODES, Case

import holdfast as hf
from databases import Bench


@pytest.fixture(params=MODES)
def open_case(request: pytest.FixtureRequest, tmp_path: Path):
    """Opens a store by its builder, in one transaction, with a commit or with a reopen after every
    call.
    """
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
    """The contract holds wherever a store is: in files, in files with a transaction that spills at
    every row, in memory, and in memory in a database that has files.
    """
    return request.param


@pytest.fixture(params=["kept open", "reopened"])
def maybe_reopen(request: pytest.FixtureRequest, bench: Bench) -> Callable[[], None]:
    """Called between a write and what is to be seen of it: the database stays open in one run, and
    is opened again in the other.
    """
    return bench.reopen if request.param == "reopened" else lambda: None
