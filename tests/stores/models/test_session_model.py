"""The session store against a dictionary."""

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

W = hf.WindowedKey


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


TestSession = case(SessionMachine)
