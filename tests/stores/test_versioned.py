"""The versioned store beyond `contract/`: history scans, times, reopening, isolation."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest

import holdfast as hf
from databases import Bench

RC, RU = hf.IsolationLevel.READ_COMMITTED, hf.IsolationLevel.READ_UNCOMMITTED


def rows(iterator):
    return [(key, *version) for key, version in iterator]


@pytest.fixture(params=["staged", "committed", "partly committed", "reopened"])
def history(request, bench):
    """a: 10 → 20 → tombstone at 30; b: 15, and 5 put late; c: tombstone only."""
    puts = [
        (b"a", b"a10", 10),
        (b"b", b"b15", 15),
        (b"a", b"a20", 20),
        (b"c", None, 12),
        (b"b", b"b5", 5),
        (b"a", None, 30),
    ]
    for number, put in enumerate(puts):
        bench.rates.put(*put)
        if request.param == "partly committed" and number == 2:
            bench.db.commit()
    if request.param == "committed":
        bench.db.commit()
    if request.param == "reopened":
        bench.reopen()
    return bench


def test_a_scan_shows_the_table_as_it_is_or_was(history):
    assert rows(history.rates.scan()) == [(b"b", b"b15", 15, None)]
    assert rows(history.rates.scan(as_of=29)) == [(b"a", b"a20", 20, 30), (b"b", b"b15", 15, None)]
    assert rows(history.rates.scan(as_of=14)) == [(b"a", b"a10", 10, 20), (b"b", b"b5", 5, 15)]
    assert rows(history.rates.scan(as_of=5)) == [(b"b", b"b5", 5, 15)]
    assert rows(history.rates.scan(as_of=4)) == []


def test_versions_of_a_key_in_both_directions(history):
    expected = [(b"a", b"a20", 20, 30), (b"a", b"a10", 10, 20)]
    assert rows(history.rates.versions(b"a", 0, 100)) == expected
    assert rows(history.rates.versions(b"a", 0, 100, descending=False)) == expected[::-1]
    assert rows(history.rates.versions(b"a", 20, 20)) == expected[:1]
    assert rows(history.rates.versions(b"a", 19, 19)) == expected[1:]
    assert rows(history.rates.versions(b"a", 30, 99)) == []
    assert rows(history.rates.versions(b"a", 25, 15)) == []
    assert rows(history.rates.versions(b"c", 0, 100)) == []


def test_versions_of_a_range_come_by_key_and_timestamp(history):
    everything = [
        (b"a", b"a10", 10, 20),
        (b"a", b"a20", 20, 30),
        (b"b", b"b5", 5, 15),
        (b"b", b"b15", 15, None),
    ]
    assert rows(history.rates.versions_range(None, None, 0, 100)) == everything
    assert rows(history.rates.versions_range(b"a", b"a", 0, 100)) == everything[:2]
    assert rows(history.rates.versions_range(b"aa", None, 0, 14)) == everything[2:3]
    table = pa.RecordBatchReader.from_stream(
        history.rates.versions_batches(None, None, 0, 100, batch_rows=3)
    ).read_all()
    assert [tuple(row.values()) for row in table.to_pylist()] == everything


def test_an_iterator_shows_its_next_key(history):
    versions = history.rates.versions_range(None, None, 0, 100)
    assert versions.peek_next_key() == b"a"
    assert versions.peek_next_key() == b"a"
    assert next(versions)[1].timestamp == 10
    assert len(list(versions)) == 3
    with pytest.raises(StopIteration):
        versions.peek_next_key()
    versions.close()
    with pytest.raises(hf.errors.StoreClosedError):
        next(versions)


def test_keys_that_begin_alike_do_not_mix(bench):
    keys = [
        b"",
        b"\x00",
        b"\x00\x00",
        b"a",
        b"a\x00",
        b"a\x00\x01",
        b"a\x01",
        b"ab",
        b"a\xff",
        b"\xff",
    ]
    for number, key in enumerate(keys):
        bench.rates.put(key, b"old %d" % number, number)
        bench.rates.put(key, b"new %d" % number, 100 + number)
    for number, key in enumerate(keys):
        assert bench.rates.get(key) == (b"new %d" % number, 100 + number, None)
        assert bench.rates.get(key, as_of=99) == (b"old %d" % number, number, 100 + number)
        assert len(rows(bench.rates.versions(key, 0, 1000))) == 2
    bench.db.commit()
    assert [key for key, _ in bench.rates.scan()] == sorted(keys)


def test_times_before_1970_are_times_like_others(open_bench):
    bench = open_bench(history_retention=1_000, segment_interval=100)
    for time in (-250, -199, -1, 0):
        assert bench.rates.put(b"k", b"%d" % time, time).accepted
    for mode in range(2):
        assert bench.rates.get(b"k", as_of=-1) == (b"-1", -1, 0)
        assert bench.rates.get(b"k", as_of=-200) == (b"-250", -250, -199)
        assert bench.rates.get(b"k", as_of=-251) is None
        assert bench.rates.stream_time == 0
        if mode == 0:
            bench.reopen()
    assert bench.rates.put(b"k", b"late", -1_000) == (True, -250)
    assert bench.rates.put(b"k", b"too late", -1_001) == (False, None)


def test_the_least_and_the_greatest_time_are_accepted(open_bench):
    bench = open_bench(history_retention=2**63 - 1)
    first, last = -(2**63), 2**63 - 1
    bench.rates.put(b"k", b"first", first)
    assert bench.rates.get(b"k") == (b"first", first, None)
    bench.rates.put(b"k", b"last", last)
    assert bench.rates.get(b"k") == (b"last", last, None)
    assert bench.rates.get(b"k", as_of=last) == (b"last", last, None)
    for wrong in (2**63, -(2**63) - 1):
        with pytest.raises(ValueError, match="timestamp is"):
            bench.rates.put(b"k", b"v", wrong)


def test_moments_are_datetimes_of_any_zone(bench):
    noon = datetime(2026, 11, 21, 12, tzinfo=UTC)
    micros = int(noon.timestamp()) * 1_000_000
    bench.rates.put(b"k", b"v", datetime(2026, 11, 21, 13, tzinfo=timezone(timedelta(hours=1))))
    assert bench.rates.get(b"k", as_of=noon) == (b"v", micros, None)
    assert bench.rates.get(b"k", as_of=noon - timedelta(microseconds=1)) is None
    assert rows(bench.rates.versions(b"k", noon, noon)) == [(b"k", b"v", micros, None)]
    before = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    bench.rates.put(b"old", b"v", micros)
    assert bench.rates.put(b"old", b"v", before) == (False, None)


def test_a_datetime_without_a_zone_is_refused(bench):
    naive = datetime(2026, 11, 21)
    for argument, call in {
        "timestamp": lambda: bench.rates.put(b"k", b"v", naive),
        "as_of": lambda: bench.rates.get(b"k", as_of=naive),
        "start": lambda: bench.rates.versions(b"k", naive, 1),
        "end": lambda: bench.rates.versions(b"k", 1, naive),
    }.items():
        with pytest.raises(ValueError, match=f"{argument} is a datetime without a time zone"):
            call()
    with pytest.raises(TypeError, match="timestamp is a float"):
        bench.rates.put(b"k", b"v", 1.5)


def test_stream_time_and_history_survive_a_reopen(open_bench):
    bench = open_bench(history_retention=100, segment_interval=10)
    for time in range(0, 200, 10):
        bench.rates.put(b"k", b"%d" % time, time)
    bench.reopen()
    assert bench.rates.stream_time == 190
    assert bench.rates.get(b"k", as_of=95) == (b"90", 90, 100)
    assert bench.rates.get(b"k", as_of=89) is None
    assert bench.rates.put(b"k", b"late", 89) == (False, None)
    assert bench.rates.put(b"k", b"late", 90) == (True, 100)
    assert bench.db.metrics()["stores"]["rates"]["dropped-records-total"] == 1


def test_readers_choose_their_isolation(bench):
    bench.rates.put(b"k", b"old", 10)
    bench.db.commit()
    bench.rates.put(b"k", b"new", 20)
    committed, uncommitted = bench.rates.read_only(RC), bench.rates.read_only(RU)
    assert committed.get(b"k") == (b"old", 10, None)
    assert uncommitted.get(b"k") == (b"new", 20, None)
    assert uncommitted.get(b"k", as_of=15) == (b"old", 10, 20)
    assert committed.stream_time == 10
    assert uncommitted.stream_time == 20
    assert rows(committed.scan()) == [(b"k", b"old", 10, None)]
    assert pa.record_batch(committed.get_batch(pa.array([b"k"]))).column("value").to_pylist() == [
        b"old"
    ]
    bench.db.rollback()
    assert uncommitted.get(b"k") == (b"old", 10, None)
    assert not hasattr(committed, "put")


def test_a_deleted_key_never_comes_back_by_replay(bench):
    records = [(b"k", b"v1", 10), (b"k", None, 20), (b"k", b"late", 15), (b"j", b"x", 25)]
    for cut in (1, 2, 3, 4):
        for start in range(0, len(records), cut):
            keys, values, times = zip(*records[start : start + cut], strict=True)
            batch = pa.array(keys, pa.binary()), pa.array(values, pa.binary()), pa.array(times)
            bench.db.restore_batch("rates", *batch, {("log", 0): start})
        assert bench.rates.get(b"k") is None
        assert bench.rates.get(b"k", as_of=19) == (b"late", 15, 20)
        assert bench.rates.stream_time == 25
    bench.reopen()
    assert bench.rates.get(b"k") is None
    assert bench.rates.put(b"k", b"later still", 18) == (True, 20)


def test_an_expired_read_warns_once_a_minute(tmp_path, caplog):
    rates = Bench(tmp_path / "short", history_retention=10).rates
    rates.put(b"k", b"new", 100)
    with caplog.at_level("WARNING"):
        assert rates.get(b"k", as_of=50) is None
        assert rates.get(b"k", as_of=51) is None
    warnings = [
        record.getMessage()
        for record in caplog.records
        if "history_retention" in record.getMessage()
    ]
    assert len(warnings) == 1
    assert "as of 50" in warnings[0]
    assert "from 90" in warnings[0]
    assert "raise history_retention" in warnings[0]


PLAIN_CHANGELOG = [(b"EUR", b"1", 10), (b"EUR", b"2", 30), (b"USD", b"3", 31), (b"USD", None, 40)]


@pytest.mark.parametrize("is_timestamped", [False, True])
def test_a_plain_store_becomes_versioned_by_a_restore_from_its_changelog(tmp_path, is_timestamped):
    kind = hf.stores.timestamped_key_value if is_timestamped else hf.stores.key_value
    with hf.open(tmp_path / "plain", [kind("rates")]) as db:
        for key, value, timestamp in PLAIN_CHANGELOG:
            db["rates"].put(key, value, *([timestamp] if is_timestamped else []))
        db.commit({("log", 0): 4})
    stores = [hf.stores.versioned("rates", history_retention=100)]
    with pytest.raises(ValueError, match=r"restore it from its changelog in a new directory"):
        hf.open(tmp_path / "plain", stores)
    keys, values, timestamps = zip(*PLAIN_CHANGELOG, strict=True)
    with hf.open(tmp_path / "versioned", stores) as db:
        batch = pa.array(keys), pa.array(values, pa.binary()), pa.array(timestamps)
        db.restore_batch("rates", *batch, {("log", 0): 4})
        found = [db["rates"].get(b"EUR", as_of=time) for time in (9, 10, 29, 30)]
        assert found == [None, (b"1", 10, 30), (b"1", 10, 30), (b"2", 30, None)]
        assert (db["rates"].get(b"USD"), db["rates"].get(b"USD", as_of=39).value) == (None, b"3")
        assert db.committed_offset(("log", 0)) == 4
    with hf.open(tmp_path / "plain", [kind("rates")]) as db:
        assert db["rates"].get(b"USD") is None


READS_AS_OF_50 = {
    "scan": lambda rates: [key for key, _ in rates.scan(as_of=50)],
    "scan_batches": lambda rates: batch_keys(rates.scan_batches(50)),
    "versions_range": lambda rates: [key for key, _ in rates.versions_range(None, None, 0, 50)],
    "versions_batches": lambda rates: batch_keys(rates.versions_batches(None, None, 0, 50)),
    "versions": lambda rates: [
        key for of in (b"changed", b"old") for key, _ in rates.versions(of, 0, 50)
    ],
    "get": lambda rates: [key for key in (b"changed", b"old") if rates.get(key, as_of=50)],
}


def batch_keys(reader) -> list[bytes]:
    return [key for batch in reader for key in pa.record_batch(batch)["key"].to_pylist()]


@pytest.mark.parametrize("read", READS_AS_OF_50.values(), ids=READS_AS_OF_50)
@pytest.mark.parametrize("is_committed", [False, True])
def test_a_read_before_the_history_that_leaves_a_key_out_is_counted_and_warned_about(
    tmp_path, caplog, read, is_committed
):
    bench = Bench(tmp_path / "db", history_retention=10)
    for key, timestamp in ((b"old", 5), (b"changed", 10), (b"changed", 95), (b"changed", 100)):
        bench.rates.put(key, b"v", timestamp)
    if is_committed:
        bench.db.commit()
    for calls in (1, 2):
        with caplog.at_level("WARNING"):
            assert read(bench.rates) == [b"old"]
        assert bench.db.metrics()["stores"]["rates"]["expired-reads-total"] == calls
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "store rates: a read as of 50 left out keys that changed later" in warning
    assert "from 90 on" in warning


def test_a_read_before_the_history_that_leaves_no_key_out_is_not_expired(tmp_path):
    bench = Bench(tmp_path / "db", history_retention=10)
    bench.rates.put(b"old", b"v", 5)
    bench.rates.put(b"other", None, 100)
    bench.rates.put(b"old", b"v", 100)
    bench.rates.put(b"older", b"v", 90)
    assert [key for key, _ in bench.rates.scan(as_of=95)] == [b"old", b"older"]
    assert [record.timestamp for _, record in bench.rates.versions(b"old", 0, 95)] == [5]
    assert [record.timestamp for _, record in bench.rates.versions(b"older", 0, 100)] == [90]
    assert not list(bench.rates.versions(b"none", 0, 50))
    assert bench.db.metrics()["stores"]["rates"]["expired-reads-total"] == 0


@pytest.mark.parametrize(("retention", "as_of", "was_stored"), [(1_000, 50, True), (60, 30, False)])
def test_a_read_older_than_a_formerly_shorter_retention_is_expired(
    tmp_path, caplog, retention, as_of, was_stored
):
    bench = Bench(tmp_path / "short", history_retention=10)
    bench.rates.put(b"k", b"new", 100)
    bench.db.commit()
    bench.retention = retention
    bench.reopen()
    with caplog.at_level("WARNING"):
        assert bench.rates.get(b"k", as_of=as_of) is None
    (warning,) = [
        record.getMessage()
        for record in caplog.records
        if "history_retention" in record.getMessage()
    ]
    assert "from 90" in warning
    # A read that the longer retention excludes, too, has lost nothing to the shorter one.
    assert ("was shorter before" in warning, "in a new directory" in warning) == (
        was_stored,
        was_stored,
    )
    assert ("raise history_retention" in warning) is not was_stored
