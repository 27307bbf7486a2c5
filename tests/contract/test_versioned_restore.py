"""Restores and reopens for which Kafka Streams 4.3.1 returns wrong results (VX4 to R03).

The results must be right however the records are divided into batches, on every kind of storage,
and after a reopen.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pytest

import holdfast as hf
from databases import Bench

LOG = ("changelog", 0)


@dataclass(frozen=True)
class Replay:
    """Records of a changelog, and the versions after it: (value, start, end) by (key, time)."""

    history_retention: int
    segment_interval: int
    records: str
    """`key value@time …`, `∅` for a tombstone."""
    found: dict[tuple[str, int | None], tuple[str, int, int | None] | None]
    batches: tuple[int, ...] | None = None
    """How many records each batch has in Kafka Streams' test; None: all are in one."""


REPLAYS = {
    "VX4": Replay(
        300,
        100,
        "k z@120 y@110 a@90 b@98 c@99 d@101",
        {
            ("k", None): ("z", 120, None),
            ("k", 115): ("y", 110, 120),
            ("k", 105): ("d", 101, 110),
            ("k", 100): ("c", 99, 101),
            ("k", 98): ("b", 98, 99),
            ("k", 95): ("a", 90, 98),
        },
    ),
    "VX5": Replay(
        50,
        1,
        "a ∅@44 a v@11 b x@112",
        {("a", None): None, ("a", 20): None, ("b", None): ("x", 112, None)},
    ),
    "VX6": Replay(100, 10, "b ∅@87 b v@63 b @198", {("b", 98): None, ("b", None): ("", 198, None)}),
    "R01": Replay(
        300,
        100,
        "k x@120 ∅@90 x@90 ∅@90 x@99 x@101 ∅@99 ∅@101 ∅@110 ∅@105 p@105 x@95 n@95 ∅@120 ∅@120 m@94",
        {
            ("k", None): None,
            ("k", 130): None,
            ("k", 106): ("p", 105, 110),
            ("k", 102): None,
            ("k", 100): None,
            ("k", 99): None,
            ("k", 95): ("n", 95, 99),
            ("k", 94): ("m", 94, 95),
            ("k", 92): None,
        },
    ),
    "R02": Replay(
        300,
        100,
        "k ∅@80 a@90 ∅@99 ∅@101 b@110 ∅@120",
        {
            ("k", None): None,
            ("k", 115): ("b", 110, 120),
            ("k", 105): None,
            ("k", 95): ("a", 90, 99),
            ("k", 85): None,
        },
        (3, 3),
    ),
    "R03": Replay(
        300,
        100,
        "j v@310 a x@10 b y@9",
        {("j", None): ("v", 310, None), ("a", None): ("x", 10, None), ("b", None): None},
    ),
}


def records(text: str) -> list[tuple[bytes, bytes | None, int]]:
    found, key = [], b""
    for word in text.split():
        if "@" not in word:
            key = word.encode()
            continue
        value, _, time = word.partition("@")
        found.append((key, None if value == "∅" else value.encode(), int(time)))
    return found


def check(bench: Bench, replay: Replay) -> None:
    for (key, moment), wanted in replay.found.items():
        got = bench.rates.get(key.encode(), as_of=moment)
        assert (
            None if got is None else (got.value.decode(), got.timestamp, got.valid_to)
        ) == wanted, (key, moment)


def versions(bench: Bench) -> list[object]:
    return [
        (key, *version) for key, version in bench.rates.versions_range(None, None, -1_000, 1_000)
    ]


@pytest.mark.parametrize("cut", ["as upstream", "one by one", "two by two", "all at once"])
@pytest.mark.parametrize("case", REPLAYS)
def test_a_replay_equals_the_puts(open_bench, case, cut):
    replay = REPLAYS[case]
    rows = records(replay.records)
    times = {
        "history_retention": replay.history_retention,
        "segment_interval": replay.segment_interval,
    }
    put, restored = open_bench("put", **times), open_bench("restored", **times)
    for row in rows:
        put.rates.put(*row)
    check(put, replay)
    cuts = {
        "as upstream": replay.batches or (len(rows),),
        "one by one": (1,) * len(rows),
        "two by two": (2,) * len(rows),
    }
    start = 0
    for length in cuts.get(cut, (len(rows),)):
        if batch := rows[start : start + length]:
            keys, values, moments = zip(*batch, strict=True)
            columns = pa.array(keys, pa.binary()), pa.array(values, pa.binary()), pa.array(moments)
            restored.db.restore_batch("rates", *columns, {LOG: start + len(batch)})
        start += length
    check(restored, replay)
    assert versions(restored) == versions(put)
    assert restored.rates.stream_time == put.rates.stream_time
    assert restored.db.metrics()["stores"]["rates"]["dropped-records-total"] == 0
    assert restored.db.committed_offset(LOG) == len(rows)
    if restored.persistent:
        restored.reopen()
        check(restored, replay)


def test_vx7_history_is_readable_after_a_reopen(open_bench):
    bench = open_bench(history_retention=300, segment_interval=100)
    for value, time in [(b"a", 10), (b"b", 20), (b"c", 130), (b"d", 140)]:
        bench.rates.put(b"k", value, time)
    bench.reopen()
    assert bench.rates.get(b"k") == (b"d", 140, None)
    assert bench.rates.get(b"k", as_of=15) == (b"a", 10, 20)
    assert bench.rates.get(b"k", as_of=135) == (b"c", 130, 140)
    assert len(list(bench.rates.versions(b"k", 0, 1_000))) == 4


def test_vx8_stream_time_survives_a_reopen(open_bench):
    bench = open_bench(history_retention=30, segment_interval=10)
    bench.rates.put(b"k", b"a", 100)
    bench.rates.put(b"k", b"b", 200)
    bench.reopen()
    assert not bench.rates.put(b"k", b"o", 50).accepted
    assert not bench.rates.put(b"j", b"x", 5).accepted


def test_vx9_a_put_after_a_reopen_returns_the_right_end(open_bench):
    bench = open_bench(history_retention=300, segment_interval=10)
    for value, time in [(b"a", 160), (b"b", 200), (b"c", 220)]:
        bench.rates.put(b"k", value, time)
    bench.reopen()
    assert bench.rates.put(b"k", b"o", 190) == (True, 200)
    assert bench.rates.get(b"k", as_of=195) == (b"o", 190, 200)
    assert bench.rates.get(b"k") == (b"c", 220, None)


def test_vx10_the_position_survives_a_clean_restart(open_bench):
    bench = open_bench()
    bench.db.observe("orders", 3, 41)
    bench.rates.put(b"k", b"a", 100)
    bench.reopen()
    reader = bench.rates.read_only(
        position_bound=hf.PositionBound.at(hf.Position({"orders": {3: 41}}))
    )
    assert reader.get(b"k") == (b"a", 100, None)
    with pytest.raises(hf.errors.NotUpToBoundError):
        bench.rates.read_only(
            position_bound=hf.PositionBound.at(hf.Position({"orders": {3: 42}}))
        ).get(b"k")
