"""A transactional user store in two files, and the job that uses it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import holdfast as hf

LOG = hf.TopicPartition("log", 0)


class Steps:
    """Counts the steps of a process and kills it at one of them."""

    passed = 0
    kill_at: int | None = None


def step() -> None:
    """Passes a step."""
    if Steps.kill_at == Steps.passed:
        os.kill(os.getpid(), signal.SIGKILL)
    if Steps.kill_at is not None:
        Steps.passed += 1


class TwoStepStore:
    """A sum. `current` is the last decided commit, `next` the one after it, while undecided."""

    persistent = transactional = manages_offsets = True

    def __init__(self, name: str = "totals") -> None:
        self.name = name
        self.sum = 0
        self.uncommitted = 0
        self.is_closed = False
        self.offsets: dict[hf.TopicPartition, int] = {}

    @property
    def approximate_num_uncommitted_bytes(self) -> int:
        return self.uncommitted

    def init(self, db: hf.Database) -> None:
        folder = db.directory(self.name)
        self.current, self.next = folder / "current", folder / "next"
        self._read()

    def add(self, number: int) -> None:
        self.sum += number

    def commit(self, changelog_offsets) -> None:
        step()
        if self.next.exists():
            self.next.replace(self.current)  # the database has committed it
        step()
        offsets = dict(self.offsets)
        if changelog_offsets == {}:
            offsets = {}
        for partition, offset in (changelog_offsets or {}).items():
            offsets[hf.TopicPartition(*partition)] = offset
            if offset is None:
                del offsets[hf.TopicPartition(*partition)]
        self.offsets = offsets
        self._write(self.next)
        step()

    def rollback(self) -> None:
        pass  # `recover` reads the files again

    def recover(self, changelog_offsets):
        step()
        if self.next.exists():
            if self._load(self.next)[1] == changelog_offsets:
                self.next.replace(self.current)
            else:
                self.next.unlink()
        step()
        self._read()
        step()
        return self.offsets

    def restore(self, total: int, offsets) -> None:
        self.sum, self.offsets = total, offsets
        self._write(self.current)
        self.next.unlink(missing_ok=True)

    def committed_offset(self, partition) -> int | None:
        return self.offsets.get(partition)

    def close(self) -> None:
        self.is_closed = True

    def _read(self) -> None:
        self.sum, self.offsets = self._load(self.current) if self.current.exists() else (0, {})

    def _load(self, file: Path) -> tuple[int, dict[hf.TopicPartition, int]]:
        total, rows = json.loads(file.read_text())
        return total, {hf.TopicPartition(topic, number): offset for topic, number, offset in rows}

    def _write(self, file: Path) -> None:
        rows = [[*partition, offset] for partition, offset in self.offsets.items()]
        written = file.with_suffix(".new")
        with written.open("w") as out:
            out.write(json.dumps([self.sum, rows]))
            step()
            out.flush()
            os.fsync(out.fileno())
        step()
        written.replace(file)


class SteppingCore:
    """The extension's database, with a step before and after its commit."""

    def __init__(self, core: Any) -> None:
        self.core = core

    def __getattr__(self, name: str) -> Any:
        return getattr(self.core, name)

    def commit(self, *args: Any) -> None:
        step()
        self.core.commit(*args)
        step()


def opened(
    path: Path,
    *stores: Any,
    guarantee: hf.ProcessingGuarantee = hf.ProcessingGuarantee.EXACTLY_ONCE,
    **options: Any,
) -> hf.Database:
    """Opens a database with a key-value store and user stores."""
    builders = [hf.stores.key_value("kv"), *(stores or [TwoStepStore()])]
    db = hf.open(path, builders, processing_guarantee=guarantee, **options)
    db._user_stores._core = SteppingCore(db._core)
    return db


def apply(db: hf.Database, record: int) -> None:
    """Adds a record, whose number is its offset, to both stores; applied twice it counts twice."""
    total = int(db["kv"].get(b"sum") or b"0")
    db["kv"].put(b"sum", str(total + record).encode())
    step()
    db["totals"].add(record)
    step()
    db.commit({LOG: record})
    step()
