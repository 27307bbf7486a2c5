"""The versioned store against a dictionary."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
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

RECORD = hf.VersionedRecord
FIRST, LAST = -(2**63), 2**63 - 1
# (key, (value,), time) is a put, (key, None, time) is a get as of the time.
OPERATIONS = st.lists(st.tuples(KEYS, st.none() | st.tuples(VALUES), TIMES), max_size=8)


class VersionedMachine(StoreMachine):
    """Places are (key, begin); a tombstone is None."""

    builder = hf.stores.versioned("s", history_retention=RETENTION, segment_interval=10)

    @staticmethod
    def first_retained(stream_time: int | None) -> int:
        return FIRST if stream_time is None else stream_time - RETENTION

    def versions_of(self, state: tuple[Any, ...], key: bytes) -> list[Any]:
        """Returns every version of a key with its end, oldest first, tombstones included."""
        begins = sorted(begin for other, begin in state[0] if other == key)
        return [
            RECORD(state[0][key, begin], begin, end)
            for begin, end in zip_longest(begins, begins[1:])
        ]

    def model_put(self, key: bytes, value: bytes | None, time: int) -> tuple[bool, int | None]:
        if time < self.first_retained(self.stream_time):
            return (False, None)
        self.stream_time = time if self.stream_time is None else max(self.stream_time, time)
        self.current[key, time] = value
        return (
            True,
            next(v.valid_to for v in self.versions_of(self.state(), key) if v.timestamp == time),
        )

    def model_get(self, key: bytes, at: int) -> Any:
        versions = self.versions_of(self.state(), key)
        if not versions or (
            at < versions[-1].timestamp and at < self.first_retained(self.stream_time)
        ):
            return None
        found = [version for version in versions if version.timestamp <= at][-1:]
        return found[0] if found and found[0].value is not None else None

    def between(self, state: tuple[Any, ...], key: bytes, start: int, end: int) -> list[Any]:
        first = self.first_retained(state[1])

        def meets(version: Any) -> bool:
            open_end = version.valid_to is None
            return version.timestamp <= end and (
                open_end or (end >= first and version.valid_to > max(start, first - 1))
            )

        found = [version for version in self.versions_of(state, key) if version.value is not None]
        return [(key, version) for version in found if start <= end and meets(version)]

    def expected(self, state: tuple[Any, ...]) -> list[Any]:
        keys = sorted({key for key, _ in state[0]})
        return [row for key in keys for row in self.between(state, key, -1_000, 1_000)]

    def scan_all(self, store: Any, *, reverse: bool = False) -> Iterator[Any]:  # there is one order
        return store.versions_range(None, None, -1_000, 1_000)

    def all_rows(self, store: Any) -> list[Any]:
        found = list(self.scan_all(store))
        assert list(store.scan()) == [row for row in found if row[1].valid_to is None]
        return found

    @rule(puts=st.lists(st.tuples(KEYS, VALUES, TIMES), max_size=8), arrow=st.booleans())
    def put(self, puts: list[tuple[bytes, bytes | None, int]], arrow: bool) -> None:
        if arrow:
            keys, values, times = ([put[n] for put in puts] for n in range(3))
            found = rows(self.store.put_batch(binary(keys), binary(values), int64(times)))
            assert found == [self.model_put(*put) for put in puts]
            return
        for put in puts:
            assert self.store.put(*put) == self.model_put(*put)

    @rule(operations=OPERATIONS)
    def apply(self, operations: list[tuple[bytes, tuple[bytes | None] | None, int]]) -> None:
        keys, puts, times = ([one[n] for one in operations] for n in range(3))
        values = [put[0] if put else None for put in puts]
        is_put = pa.array([put is not None for put in puts], pa.bool_())
        found = pa.record_batch(
            self.store.apply_batch(is_put, binary(keys), binary(values), int64(times))
        ).to_pylist()
        for row, key, put, time in zip(found, keys, puts, times, strict=True):
            if put is not None:
                assert (row["accepted"], row["valid_to"]) == self.model_put(key, put[0], time)
            else:
                record = self.model_get(key, time) or (None, None, None)
                assert (row["value"], row["timestamp"], row["valid_to"]) == record

    @rule(key=KEYS, time=TIMES)
    def delete(self, key: bytes, time: int) -> None:
        old = self.model_get(key, time) if time >= self.first_retained(self.stream_time) else None
        assert self.store.delete(key, time) == old
        self.model_put(key, None, time)

    @rule(asked=st.lists(st.tuples(KEYS, TIMES)))
    def get(self, asked: list[tuple[bytes, int]]) -> None:
        expected = [self.model_get(*one) for one in asked]
        assert [self.store.get(key, as_of=time) for key, time in asked] == expected
        found = rows(
            self.store.get_batch(
                binary([key for key, _ in asked]), int64([time for _, time in asked])
            )
        )
        assert found == [one or (None, None, None) for one in expected]
        assert [self.store.get(key) for key, _ in asked] == [
            self.model_get(key, LAST) for key, _ in asked
        ]

    @rule(
        low=BOUNDS, high=BOUNDS, start=TIMES, length=st.integers(-5, 100), descending=st.booleans()
    )
    def versions(
        self, low: bytes | None, high: bytes | None, start: int, length: int, descending: bool
    ) -> None:
        keys = sorted({key for key, _ in self.current})
        inside = [
            key for key in keys if (low is None or low <= key) and (high is None or key <= high)
        ]
        expected = [
            row for key in inside for row in self.between(self.state(), key, start, start + length)
        ]
        assert list(self.store.versions_range(low, high, start, start + length)) == expected
        batches = self.store.versions_batches(low, high, start, start + length, batch_rows=2)
        assert table(batches) == [(key, *record) for key, record in expected]
        if low is not None:
            one = self.between(self.state(), low, start, start + length)[:: -1 if descending else 1]
            assert (
                list(self.store.versions(low, start, start + length, descending=descending)) == one
            )

    @rule(at=TIMES)
    def scan(self, at: int) -> None:
        keys = sorted({key for key, _ in self.current})
        expected = [
            (key, record) for key in keys if (record := self.model_get(key, at)) is not None
        ]
        assert list(self.store.scan(as_of=at)) == expected
        assert table(self.store.scan_batches(as_of=at, batch_rows=2)) == [
            (key, *record) for key, record in expected
        ]

    @invariant()
    def stream_time_is_the_greatest_begin(self) -> None:
        assert self.store.stream_time == self.stream_time


TestVersioned = case(VersionedMachine)
