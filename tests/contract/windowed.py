"""The store of a window or session case (and of K19), which commits or reopens between calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holdfast as hf

MODES = [
    "one transaction",
    "one transaction, spilled",
    "commit after each",
    "reopen after each",
    "in memory",
    "in memory, commit after each",
]
MIN, MAX = -(2**63), 2**63 - 1


class Case:
    """A database with one store, and a short notation of rows: `a@59996=1`, `a[10,20]=2`."""

    def __init__(
        self, path: Path | None, builder: hf.StoreBuilder, mode: str = "one transaction"
    ) -> None:
        self.path, self.builder, self.mode = path, builder, mode
        self.db = self.open()

    def open(self) -> hf.Database:
        limit = 0 if self.mode.endswith("spilled") else 64 << 20
        return hf.open(self.path, [self.builder], uncommitted_max_bytes=limit)

    @property
    def store(self) -> Any:
        return self.db[self.builder.name]

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            result = getattr(self.store, name)(*args, **kwargs)
            if isinstance(result, hf.StoreIterator):
                result = [self.row(key, value) for key, value in result]
            self.between()
            return result

        return call

    def between(self) -> None:
        if self.mode.endswith("commit after each"):
            self.db.commit()
        elif self.mode == "reopen after each" and self.path is not None:
            self.reopen()

    def reopen(self) -> None:
        if self.path is None:
            pytest.skip("a store in memory is empty after a reopen")
        self.db.commit()
        self.db.close()
        self.db = self.open()

    @property
    def dropped(self) -> int:
        return self.db.metrics()["stores"][self.builder.name]["dropped-records-total"]

    def row(self, key: hf.WindowedKey[bytes], value: bytes) -> str:
        if self.builder.kind == "session":
            return f"{key.key.decode()}[{key.start},{key.end}]={value.decode()}"
        assert key.end == min(key.start + self.builder.window_size, MAX)
        return f"{key.key.decode()}@{key.start}={value.decode()}"

    def puts(self, rows: str) -> None:
        """`a@1=x b@2=y` or `a[0,1]=x`, in order."""
        for row in rows.split():
            address, value = row.split("=")
            if self.builder.kind == "session":
                key, times = address.rstrip("]").split("[")
                start, end = times.split(",")
                self.put(hf.WindowedKey(key.encode(), int(start), int(end)), value.encode())
            else:
                key, start = address.split("@")
                self.put(key.encode(), value.encode(), int(start))
