"""The window stores, with and without duplicates and times, against a dictionary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
from hypothesis.stateful import invariant, rule
from store_machine import (
    BOUNDS,
    KEYS,
    RETENTION,
    TIMES,
    VALUES,
    StoreMachine,
    binary,
    case,
    int64,
    rows,
    table,
)

import holdfast as hf

W, V = hf.WindowedKey, hf.ValueAndTimestamp
SIZE = 5


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


TestWindow = case(WindowMachine)
TestDuplicates = case(DuplicatesMachine)
TestTimestampedWindow = case(TimestampedWindowMachine)
