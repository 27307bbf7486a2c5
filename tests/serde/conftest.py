"""Fixtures of stores with serdes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holdfast as hf


@pytest.fixture
def open_stores(tmp_path: Path):
    """Opens a database with stores `kv` and `rates` of the same serdes; a later call reopens it."""
    opened: list[hf.Database] = []

    def opener(**serdes: Any) -> hf.Database:
        for db in opened:
            db.close()
        stores = [
            hf.stores.key_value("kv", **serdes),
            hf.stores.versioned("rates", history_retention=10**15, **serdes),
        ]
        opened.append(hf.open(tmp_path / "db", stores))
        return opened[-1]

    yield opener
    for db in opened:
        db.close()
