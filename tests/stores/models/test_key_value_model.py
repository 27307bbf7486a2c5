"""The key-value store against a dictionary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
from hypothesis.stateful import rule
from store_machine import (
    BOUNDS,
    KEYS,
    VALUES,
    StoreMachine,
    binary,
    case,
    table,
    without,
)

import holdfast as hf


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


TestKeyValue = case(KeyValueMachine)
