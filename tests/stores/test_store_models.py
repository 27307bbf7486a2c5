"""All kinds of stores against a dictionary; `test_versioned_model.py` has the versioned one.

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
W, V = hf.WindowedKey, hf.ValueAndTimestamp

# Prefixes of one another, and zero bytes: keys that a wrong layout confuses.
KEYS = st.sampled_from([b"", b"a", b"a\0", b"a\0\1", b"ab", b"a\xff", b"b"])
VALUES = st.none() | st.binary(max_size=2)
TIMES = st.integers(-30, 150)
BOUNDS = st.none() | KEYS
RETENTION, SIZE = 50, 5
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


class KeyValueMachine(StoreMachine):
    """Places are the keys; nothing expires."""

    builder = hf.stores.key_value("s")

    def expected(self, state: tuple[Any, ...]) -> list[Any]:
        return sorted(state[0].items())

    def scan_all(self, store: Any, *, reverse: bool = False) -> Iterator[Any]:
        return store.range(reverse=reverse)

    def set(self, key: bytes, value: Any) -> None:
        if value is None:
            self.current.pop(key, None)
        else:
            self.current[key] = value

    @rule(key=KEYS, value=VALUES)
    def put(self, key: bytes, value: bytes | None) -> None:
        self.store.put(key, value)
        self.set(key, value)

    @rule(entries=st.lists(st.tuples(KEYS, VALUES)), arrow=st.booleans())
    def put_many(self, entries: list[tuple[bytes, bytes | None]], arrow: bool) -> None:
        if arrow:
            self.store.put_batch(
                binary([key for key, _ in entries]), binary([value for _, value in entries])
            )
        else:
            self.store.put_all(entries)
        for key, value in entries:
            self.set(key, value)

    @rule(key=KEYS, value=VALUES)
    def put_if_absent(self, key: bytes, value: bytes | None) -> None:
        assert self.store.put_if_absent(key, value) == self.current.get(key)
        if key not in self.current:
            self.set(key, value)

    @rule(key=KEYS)
    def delete(self, key: bytes) -> None:
        assert self.store.delete(key) == self.current.pop(key, None)

    @rule(keys=st.lists(KEYS))
    def delete_batch(self, keys: list[bytes]) -> None:
        self.store.delete_batch(binary(keys))
        for key in keys:
            self.current.pop(key, None)

    @rule(low=BOUNDS, high=BOUNDS)
    def delete_range(self, low: bytes | None, high: bytes | None) -> None:
        self.store.delete_range(low, high)
        self.current = without(self.current, low, high)

    @rule(keys=st.lists(KEYS))
    def get(self, keys: list[bytes]) -> None:
        expected = [self.current.get(key) for key in keys]
        assert [self.store.get(key) for key in keys] == expected
        assert pa.array(self.store.get_batch(binary(keys))).to_pylist() == expected

    @rule(low=BOUNDS, high=BOUNDS, prefix=KEYS, reverse=st.booleans())
    def scan(self, low: bytes | None, high: bytes | None, prefix: bytes, reverse: bool) -> None:
        now = self.expected(self.state())
        inside = [
            row
            for row in now
            if (low is None or low <= row[0]) and (high is None or row[0] <= high)
        ]
        inside = inside[::-1] if reverse else inside
        assert list(self.store.range(low, high, reverse=reverse)) == inside
        assert table(self.store.range_batches(low, high, reverse=reverse, batch_rows=2)) == inside
        assert list(self.store.prefix_scan(prefix)) == [
            row for row in now if row[0].startswith(prefix)
        ]


class TimestampedMachine(StoreMachine):
    """As the key-value machine; it begins on the rows of a plain store."""

    builder = hf.stores.timestamped_key_value("s")

    def __init__(self) -> None:
        super().__init__()
        with hf.open(self.directory / "db", [hf.stores.key_value("s")]) as db:
            db["s"].put_all([(b"a", b"1"), (b"a\0", b"2"), (b"b", b"")])
            db.commit()
        self.current = {b"a": V(b"1", -1), b"a\0": V(b"2", -1), b"b": V(b"", -1)}
        self.committed = self.state()

    def expected(self, state: tuple[Any, ...]) -> list[Any]:
        return sorted(state[0].items())

    def scan_all(self, store: Any, *, reverse: bool = False) -> Iterator[Any]:
        return store.range(reverse=reverse)

    @rule(
        entries=st.lists(st.tuples(KEYS, VALUES, TIMES)),
        how=st.sampled_from(["put", "all", "arrow"]),
    )
    def put(self, entries: list[tuple[bytes, bytes | None, int]], how: str) -> None:
        if how == "all":
            self.store.put_all(entries)
        elif how == "arrow":
            keys, values, times = ([entry[n] for entry in entries] for n in range(3))
            self.store.put_batch(binary(keys), binary(values), int64(times))
        for key, value, time in entries:
            if how == "put":
                self.store.put(key, value, time)
            self.current.pop(key, None)
            if value is not None:
                self.current[key] = V(value, time)

    @rule(key=KEYS, value=VALUES, time=TIMES)
    def put_if_absent(self, key: bytes, value: bytes | None, time: int) -> None:
        assert self.store.put_if_absent(key, value, time) == self.current.get(key)
        if value is not None:
            self.current.setdefault(key, V(value, time))

    @rule(keys=st.lists(KEYS), arrow=st.booleans())
    def delete(self, keys: list[bytes], arrow: bool) -> None:
        if arrow:
            self.store.delete_batch(binary(keys))
        for key in keys:
            old = self.current.pop(key, None)
            assert arrow or self.store.delete(key) == old

    @rule(low=BOUNDS, high=BOUNDS)
    def delete_range(self, low: bytes | None, high: bytes | None) -> None:
        self.store.delete_range(low, high)
        self.current = without(self.current, low, high)

    @rule(keys=st.lists(KEYS))
    def get(self, keys: list[bytes]) -> None:
        expected = [self.current.get(key) for key in keys]
        assert [self.store.get(key) for key in keys] == expected
        assert rows(self.store.get_batch(binary(keys))) == [
            found or (None, None) for found in expected
        ]

    @rule(low=BOUNDS, high=BOUNDS, prefix=KEYS, reverse=st.booleans())
    def scan(self, low: bytes | None, high: bytes | None, prefix: bytes, reverse: bool) -> None:
        now = self.expected(self.state())
        inside = [
            row
            for row in now
            if (low is None or low <= row[0]) and (high is None or row[0] <= high)
        ]
        inside = inside[::-1] if reverse else inside
        assert list(self.store.range(low, high, reverse=reverse)) == inside
        batches = table(self.store.range_batches(low, high, reverse=reverse, batch_rows=2))
        assert batches == [(key, *found) for key, found in inside]
        assert list(self.store.prefix_scan(prefix)) == [
            row for row in now if row[0].startswith(prefix)
        ]


class WindowMachine(StoreMachine):
    """Places are (start, key, duplicate number)."""

    builder = hf.stores.window("s", retention=RETENTION, window_size=SIZE)

    def value(self, value: bytes | None, time: int) -> Any:
        return value

    def columns(self, value: Any) -> tuple[Any, ...]:
        return (value,)

    def expected(self, state: tuple[Any, ...]) -> list[Any]:
        return [
            (W(key, start, start + SIZE), value) for (start, key, _), value in self.visible(state)
        ]

    def scan_all(self, store: Any, *, reverse: bool = False) -> Iterator[Any]:
        return store.all(reverse=reverse)

    @rule(puts=st.lists(st.tuples(KEYS, VALUES, TIMES, TIMES), max_size=8), arrow=st.booleans())
    def put(self, puts: list[tuple[bytes, bytes | None, int, int]], arrow: bool) -> None:
        stamped = self.builder.kind == "timestamped_window"
        if arrow:
            keys, values, starts, times = ([put[n] for put in puts] for n in range(4))
            rest = (int64(times),) if stamped else ()
            self.store.put_batch(binary(keys), binary(values), int64(starts), *rest)
        for key, value, start, time in puts:
            if not arrow:
                self.store.put(key, value, start, *((time,) if stamped else ()))
            if self.builder.retain_duplicates and value is None:
                continue
            if self.builder.retain_duplicates and start >= self.horizon:
                self.number += 1
            self.stage((start, key, self.number), self.value(value, time))

    def single(self, key: bytes, start: int) -> Any:
        return next(
            (
                value
                for (time, at, _), value in self.visible(self.state())
                if (time, at) == (start, key)
            ),
            None,
        )

    @rule(asked=st.lists(st.tuples(KEYS, TIMES)))
    def fetch(self, asked: list[tuple[bytes, int]]) -> None:
        if self.builder.retain_duplicates:
            return
        expected = [self.single(*one) for one in asked]
        assert [self.store.fetch(*one) for one in asked] == expected
        found = self.store.fetch_batch(
            binary([key for key, _ in asked]), int64([start for _, start in asked])
        )
        if self.builder.kind == "timestamped_window":
            assert rows(found) == [one or (None, None) for one in expected]
        else:
            assert pa.array(found).to_pylist() == expected

    def between(self, low: bytes | None, high: bytes | None, start: int, end: int) -> list[Any]:
        now = self.expected(self.state())
        inside = [
            row
            for row in now
            if (low is None or low <= row[0].key) and (high is None or row[0].key <= high)
        ]
        return [row for row in inside if start <= row[0].start <= end]

    @rule(low=BOUNDS, high=BOUNDS, start=TIMES, length=st.integers(-5, 100), reverse=st.booleans())
    def scan(
        self, low: bytes | None, high: bytes | None, start: int, length: int, reverse: bool
    ) -> None:
        expected = self.between(low, high, start, start + length)[:: -1 if reverse else 1]
        assert (
            list(self.store.fetch_range(low, high, start, start + length, reverse=reverse))
            == expected
        )
        batches = self.store.fetch_range_batches(
            low, high, start, start + length, reverse=reverse, batch_rows=2
        )
        assert table(batches) == [(*key, *self.columns(value)) for key, value in expected]
        if low is not None:
            one = self.between(low, low, start, start + length)[:: -1 if reverse else 1]
            assert list(self.store.fetch(low, start, start + length, reverse=reverse)) == one

    @rule(asked=st.lists(st.tuples(KEYS, TIMES, st.integers(-5, 100)), max_size=5))
    def fetch_ranges(self, asked: list[tuple[bytes, int, int]]) -> None:
        keys, starts, ends = (
            [key for key, _, _ in asked],
            [at for _, at, _ in asked],
            [at + length for _, at, length in asked],
        )
        expected = [
            (n, key.start, key.end, *self.columns(value))
            for n in range(len(asked))
            for key, value in self.between(keys[n], keys[n], starts[n], ends[n])
        ]
        assert rows(self.store.fetch_batch(binary(keys), int64(starts), int64(ends))) == expected

    @invariant()
    def stream_time_is_the_greatest_start(self) -> None:
        assert self.store.stream_time == self.stream_time


class DuplicatesMachine(WindowMachine):
    builder = hf.stores.window("s", retention=RETENTION, window_size=SIZE, retain_duplicates=True)


class TimestampedWindowMachine(WindowMachine):
    builder = hf.stores.timestamped_window("s", retention=RETENTION, window_size=SIZE)

    def value(self, value: bytes | None, time: int) -> Any:
        return V.make(value, time)

    def columns(self, value: Any) -> tuple[Any, ...]:
        return tuple(value)


class SessionMachine(StoreMachine):
    """Places are (end, key, start)."""

    builder = hf.stores.session("s", retention=RETENTION)

    def expected(self, state: tuple[Any, ...]) -> list[Any]:
        return [(W(key, start, end), value) for (end, key, start), value in self.visible(state)]

    def scan_all(self, store: Any, *, reverse: bool = False) -> Iterator[Any]:
        return store.find_sessions(None, -1000, 1000, key_to=None, reverse=reverse)

    @rule(
        puts=st.lists(st.tuples(KEYS, TIMES, st.integers(0, 9), VALUES), max_size=8),
        arrow=st.booleans(),
    )
    def put(self, puts: list[tuple[bytes, int, int, bytes | None]], arrow: bool) -> None:
        if arrow:
            keys, ends, lengths, values = ([put[n] for put in puts] for n in range(4))
            starts = [end - length for end, length in zip(ends, lengths, strict=True)]
            self.store.put_batch(binary(keys), int64(starts), int64(ends), binary(values))
        for key, end, length, value in puts:
            if not arrow:
                self.store.put(W(key, end - length, end), value)
            self.stage((end, key, end - length), value)

    @rule(
        sessions=st.lists(st.tuples(KEYS, TIMES, st.integers(0, 9)), max_size=4),
        arrow=st.booleans(),
    )
    def remove(self, sessions: list[tuple[bytes, int, int]], arrow: bool) -> None:
        if arrow:
            keys = binary([key for key, _, _ in sessions])
            self.store.remove_batch(
                keys,
                int64([end - length for _, end, length in sessions]),
                int64([end for _, end, _ in sessions]),
            )
        for key, end, length in sessions:
            if not arrow:
                self.store.remove(W(key, end - length, end))
            self.stage((end, key, end - length), None)

    @rule(sessions=st.lists(st.tuples(KEYS, TIMES, st.integers(0, 9)), max_size=6))
    def fetch_session(self, sessions: list[tuple[bytes, int, int]]) -> None:
        now = dict(self.visible(self.state()))
        expected = [now.get((end, key, end - length)) for key, end, length in sessions]
        assert [
            self.store.fetch_session(key, end - length, end) for key, end, length in sessions
        ] == expected
        keys, ends = [key for key, _, _ in sessions], [end for _, end, _ in sessions]
        starts = [end - length for _, end, length in sessions]
        assert (
            pa.array(
                self.store.fetch_session_batch(binary(keys), int64(starts), int64(ends))
            ).to_pylist()
            == expected
        )

    def between(
        self, low: bytes | None, high: bytes | None, earliest_end: int, latest_start: int
    ) -> list[Any]:
        now = self.expected(self.state())
        inside = [
            row
            for row in now
            if (low is None or low <= row[0].key) and (high is None or row[0].key <= high)
        ]
        return [
            row for row in inside if row[0].end >= earliest_end and row[0].start <= latest_start
        ]

    @rule(low=BOUNDS, high=BOUNDS, end=TIMES, start=TIMES, reverse=st.booleans())
    def find(
        self, low: bytes | None, high: bytes | None, end: int, start: int, reverse: bool
    ) -> None:
        step = -1 if reverse else 1
        expected = self.between(low, high, end, start)[::step]
        assert (
            list(self.store.find_sessions(low, end, start, key_to=high, reverse=reverse))
            == expected
        )
        batches = self.store.find_batches(
            low, end, start, key_to=high, reverse=reverse, batch_rows=2
        )
        assert table(batches) == [(*key, value) for key, value in expected]
        if low is not None:
            assert (
                list(self.store.find_sessions(low, end, start, reverse=reverse))
                == self.between(low, low, end, start)[::step]
            )
            assert (
                list(self.store.fetch(low, high, reverse=reverse))
                == self.between(low, low if high is None else high, -999, 999)[::step]
            )

    @rule(asked=st.lists(st.tuples(KEYS, TIMES, TIMES), max_size=5))
    def find_batch(self, asked: list[tuple[bytes, int, int]]) -> None:
        expected = [
            (n, key.start, key.end, value)
            for n, (at, end, start) in enumerate(asked)
            for key, value in self.between(at, at, end, start)
        ]
        keys, ends, starts = ([one[n] for one in asked] for n in range(3))
        assert rows(self.store.find_batch(binary(keys), int64(ends), int64(starts))) == expected

    @invariant()
    def stream_time_is_the_greatest_end(self) -> None:
        assert self.store.stream_time == self.stream_time


def case(machine: type[StoreMachine]) -> Any:
    machine.TestCase.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)
    return machine.TestCase


TestKeyValue = case(KeyValueMachine)
TestTimestampedKeyValue = case(TimestampedMachine)
TestWindow = case(WindowMachine)
TestDuplicates = case(DuplicatesMachine)
TestTimestampedWindow = case(TimestampedWindowMachine)
TestSession = case(SessionMachine)
