"""The timestamped key-value store against a dictionary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import rule
from store_machine import (
    BOUNDS,
    KEYS,
    TIMES,
    VALUES,
    StoreMachine,
    binary,
    case,
    int64,
    rows,
    table,
    without,
)

import holdfast as hf

V = hf.ValueAndTimestamp


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


TestTimestampedKeyValue = case(TimestampedMachine)
