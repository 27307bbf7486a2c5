"""Databases that tests open and reopen."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf

DAY = 86_400_000_000
_ROOM = 1 << 30


def memory_folder(folder: Path = Path("/dev/shm")) -> Path | None:
    """Returns the file system in memory, or None if it has too little room for a test.

    In a container it usually has 64 MiB.
    """
    return folder if folder.is_dir() and shutil.disk_usage(folder).free > _ROOM else None


class Bench:
    """A database with a key-value and a versioned store, which a test may reopen."""

    def __init__(self, path: Path, place: str = "files", **options: Any) -> None:
        self.path: Path | None = None if place == "memory" else path
        self.persistent = place in ("files", "spilled")
        if place == "spilled":
            # Spills at every row.
            options.setdefault("uncommitted_max_bytes", 0)
        self.retention: Any = options.pop("history_retention", 30 * DAY)
        self.interval: Any = options.pop("segment_interval", None)
        self.options = options
        self.db = self.open()

    def open(self) -> hf.Database:
        stores = [
            hf.stores.key_value("kv", persistent=self.persistent),
            hf.stores.versioned(
                "rates",
                history_retention=self.retention,
                segment_interval=self.interval,
                persistent=self.persistent,
            ),
        ]
        return hf.open(self.path, stores, **self.options)

    @property
    def kv(self) -> hf.KeyValueStore[bytes, bytes]:
        return self.db["kv"]

    @property
    def rates(self) -> hf.VersionedKeyValueStore[bytes, bytes]:
        return self.db["rates"]

    def reopen(self) -> None:
        if not self.persistent:
            pytest.skip("a store in memory is empty after a reopen")
        self.db.commit()
        self.db.close()
        self.db = self.open()
