"""Tasks that tests open, and open again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import holdfast as hf

DAY = 86_400_000_000


class Bench:
    """A task with one key-value and one versioned store, opened again as often as a test likes."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.path = path
        self.retention: Any = options.pop("history_retention", 30 * DAY)
        self.interval: Any = options.pop("segment_interval", None)
        self.options = options
        self.task = self._open()

    def _open(self) -> hf.Task:
        stores = [
            hf.stores.key_value("kv"),
            hf.stores.versioned("rates", history_retention=self.retention, segment_interval=self.interval),
        ]
        return hf.open_task(self.path, stores, **self.options)

    @property
    def kv(self) -> hf.KeyValueStore[bytes, bytes]:
        return self.task["kv"]

    @property
    def rates(self) -> hf.VersionedKeyValueStore[bytes, bytes]:
        return self.task["rates"]

    def reopen(self) -> None:
        self.task.commit()
        self.task.close()
        self.task = self._open()
