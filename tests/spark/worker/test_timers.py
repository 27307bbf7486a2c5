"""Timers on a store with small pages: the pages of a state host are small if keys are large."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from holdfast.spark.worker.processor import timers

KEYS = pa.schema([("k", pa.string())])


class Store:
    """A key-value store in memory, whose pages have at most `page` rows."""

    page = 2

    def __init__(self, *_: Any) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.messages = 0

    def get(self, key: bytes) -> bytes | None:
        return self.rows.get(key)

    def put(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            del self.rows[key]
        else:
            self.rows[key] = value

    def range_batches(self, start: bytes, end: bytes | None, reverse: bool, batch_rows: int) -> Any:
        assert not reverse
        keys = sorted(key for key in self.rows if start <= key and (end is None or key <= end))
        size = min(self.page, batch_rows)
        for at in range(0, len(keys), size):
            self.messages += 1
            yield pa.record_batch({"key": keys[at : at + size]})
        self.messages += 1  # the answer that there are no more pages is a message, too


@pytest.fixture
def due(monkeypatch) -> timers.Timers:
    monkeypatch.setattr(timers, "RemoteKeyValue", Store)
    return timers.Timers(None, KEYS)  # type: ignore[arg-type]


def test_timers_fire_once_in_order_with_pages_of_any_size(due: timers.Timers):
    for at in (3, 1, 5, 4, 2, 9):
        due.set("a", at)
    due.advance(5)
    fired = []
    for key, at in due.fire():
        fired.append((key, at))
        if (key, at) == ("a", 1):
            due.set("b", 1)  # in this page
            due.set("b", 4)  # in a later one
            due.set("b", 7)  # not yet
        if fired[-1] == ("b", 4):
            due.set("c", 5)
    due_now = [
        (k, t) for t, ks in ((1, "ab"), (2, "a"), (3, "a"), (4, "ab"), (5, "ac")) for k in ks
    ]
    assert fired == due_now
    assert list(due.fire()) == []
    due.advance(9)
    assert list(due.fire()) == [("b", 7), ("a", 9)]


def test_timers_set_while_others_fire_need_no_extra_page(due: timers.Timers):
    due.set("a", 1)
    due.advance(100)
    for _, at in due.fire():
        if at < 50:
            due.set("a", at + 1)
    assert due.store.messages == 2, "a page, and the end"  # type: ignore[attr-defined]


def test_the_stream_time_is_the_row_that_the_state_host_reads(due: timers.Timers):
    # The bytes in `rust/host/src/operator/process/timers.rs`.
    assert timers.TIMER_STORE == "holdfast.timers"
    for time, stored in ((-1, b"\x7f" + b"\xff" * 7), (5, b"\x80" + b"\0" * 6 + b"\x05")):
        due.advance(time)
        assert due.store.get(b"") == stored
