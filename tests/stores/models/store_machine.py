"""One store in one database against a dictionary; the tests beside this file have the kinds.

The models use scalar and Arrow forms, commits, rollbacks, reopens, crashes, and readers at both
isolation levels. Their transactions are in memory or spill.
"""

from __future__ import annotations

import gc
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import holdfast as hf
from databases import memory_folder

RC, RU = hf.IsolationLevel.READ_COMMITTED, hf.IsolationLevel.READ_UNCOMMITTED

# Prefixes of one another, and zero bytes: keys that a wrong layout confuses.
KEYS = st.sampled_from([b"", b"a", b"a\0", b"a\0\1", b"ab", b"a\xff", b"b"])
VALUES = st.none() | st.binary(max_size=2)
TIMES = st.integers(-30, 150)
BOUNDS = st.none() | KEYS
RETENTION = 50
# The memory at which a transaction spills. 64 MiB is never reached, 300 bytes sometimes. With 0 it
# spills at every row, which takes ten times as long.
LIMITS = st.sampled_from([64 << 20] * 5 + [300] * 2 + [0])
# Every spill syncs files; memory makes that cheap.
MEMORY = memory_folder()


def table(reader: Any) -> list[tuple[Any, ...]]:
    return [
        tuple(row.values())
        for row in pa.RecordBatchReader.from_stream(reader).read_all().to_pylist()
    ]


def rows(batch: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in pa.record_batch(batch).to_pylist()]


def binary(items: list[bytes | None]) -> pa.Array:
    return pa.array(items, pa.binary())


def int64(items: list[int]) -> pa.Array:
    return pa.array(items, pa.int64())


def without(found: dict[bytes, Any], low: bytes | None, high: bytes | None) -> dict[bytes, Any]:
    below, above = (
        (lambda key: low is not None and key < low),
        (lambda key: high is not None and key > high),
    )
    return {key: value for key, value in found.items() if below(key) or above(key)}


class StoreMachine(RuleBasedStateMachine):
    """One store in one database.

    `current` has the writer's rows by their place in the store's order. `committed` is the state of
    the last commit: such rows, stream time, and the number of the last duplicate.
    """

    builder: hf.StoreBuilder

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(dir=MEMORY))
        self.current: dict[Any, Any] = {}
        self.stream_time: int | None = None
        self.number = 0
        self.committed = self.state()
        # Open scans, each with the rows that it must still return.
        self.scans: list[tuple[Iterator[Any], list[Any]]] = []

    @initialize(limit=LIMITS)
    def begin(self, limit: int) -> None:
        self.limit = limit
        self.db = self.open_database()

    def open_database(self) -> hf.Database:
        return hf.open(self.directory / "db", [self.builder], uncommitted_max_bytes=self.limit)

    def teardown(self) -> None:
        self.db.close()
        shutil.rmtree(self.directory)

    @property
    def store(self) -> Any:
        return self.db["s"]

    def state(self) -> tuple[Any, ...]:
        return dict(self.current), self.stream_time, self.number

    @property
    def horizon(self) -> int:
        return -(2**63) if self.stream_time is None else self.stream_time - RETENTION + 1

    def visible(self, state: tuple[Any, ...]) -> list[tuple[Any, Any]]:
        found, stream_time, _ = state
        horizon = -(2**63) if stream_time is None else stream_time - RETENTION + 1
        return [(place, found[place]) for place in sorted(found) if place[0] >= horizon]

    def stage(self, place: tuple[int, bytes, int], value: Any) -> None:
        if place[0] < self.horizon:
            return
        self.stream_time = max(place[0], place[0] if self.stream_time is None else self.stream_time)
        if value is None:
            self.current.pop(place, None)
        else:
            self.current[place] = value

    @rule()
    def commit(self) -> None:
        self.db.commit()
        self.committed = self.state()

    @rule()
    def rollback(self) -> None:
        self.db.rollback()
        self.back()

    @rule()
    def reopen(self) -> None:
        self.scans.clear()
        self.db.close()
        self.db = self.open_database()
        self.back()

    @rule()
    def crash(self) -> None:
        # A dropped database is not closed: its commits must come from the log, as after a kill.
        self.scans.clear()
        del self.db
        gc.collect()
        self.db = self.open_database()
        self.back()

    def back(self) -> None:
        found, self.stream_time, self.number = self.committed
        self.current = dict(found)

    @rule(level=st.sampled_from([RC, RU]))
    def begin_scan(self, level: hf.IsolationLevel) -> None:
        expected = self.expected(self.committed if level is RC else self.state())
        self.scans.append((self.scan_all(self.store.read_only(level)), expected))

    @precondition(lambda self: self.scans)
    @rule()
    def end_scans(self) -> None:
        for scan, expected in self.scans:
            assert list(scan) == expected
        self.scans.clear()

    def scan_all(self, store: Any, *, reverse: bool = False) -> Iterator[Any]:
        raise NotImplementedError

    def all_rows(self, store: Any) -> list[Any]:
        found = list(self.scan_all(store))
        assert list(self.scan_all(store, reverse=True)) == found[::-1]
        return found

    def expected(self, state: tuple[Any, ...]) -> list[Any]:
        raise NotImplementedError

    @invariant()
    def each_reader_sees_the_expected_rows(self) -> None:
        now = self.expected(self.state())
        assert self.all_rows(self.store) == now
        assert self.all_rows(self.store.read_only(RU)) == now
        assert self.all_rows(self.store.read_only(RC)) == self.expected(self.committed)


def case(machine: type[StoreMachine]) -> Any:
    machine.TestCase.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)
    return machine.TestCase
