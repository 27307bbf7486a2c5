"""A user store without transactions: a sum, in one file."""

from __future__ import annotations

import json

import holdfast as hf


class OneStepStore:
    """A sum. Its commits cannot be undone."""

    name, persistent, transactional = "simple", True, False

    def __init__(self, *, manages_offsets: bool = True) -> None:
        self.manages_offsets = manages_offsets
        self.sum = 0
        self.offsets: dict[tuple[str, int], int] = {}

    def init(self, db: hf.Database) -> None:
        self.file = db.directory("simple") / "sum"
        if self.file.exists():
            self.sum, rows = json.loads(self.file.read_text())
            self.offsets = {(topic, number): offset for topic, number, offset in rows}

    def restore(self, total: int, offsets) -> None:
        """Sets the store's state, as a restore from a changelog does."""
        self.sum, self.offsets = total, dict(offsets)
        self._write()

    def commit(self, changelog_offsets) -> None:
        self.offsets.update(changelog_offsets or {})
        self._write()

    def committed_offset(self, partition) -> int | None:
        return self.offsets.get(tuple(partition))

    def close(self) -> None:
        pass

    def _write(self) -> None:
        rows = [[*partition, offset] for partition, offset in self.offsets.items()]
        self.file.write_text(json.dumps([self.sum, rows]))
