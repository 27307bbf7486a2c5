"""The transaction cases, each by its id (`README.md`).

They run in a database that stays open, and with a reopen after the first commit and after each
commit, rollback or restore. T14 and T19 begin with a crash: they are in
`database/failures/test_killed_writer.py` and `database/test_without_transactions.py`.
"""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

import holdfast as hf

RC, RU = hf.IsolationLevel.READ_COMMITTED, hf.IsolationLevel.READ_UNCOMMITTED


@pytest.fixture
def base(bench, maybe_reopen):
    """a1 b2 c3, committed."""
    bench.kv.put_all([(b"a", b"1"), (b"b", b"2"), (b"c", b"3")])
    bench.db.observe("orders", 3, 41)
    bench.db.commit({("log", 0): 1})
    maybe_reopen()
    return bench


def stage(bench) -> None:
    bench.kv.put(b"b", b"20")
    bench.kv.put(b"c", None)
    bench.kv.put(b"d", b"4")


def rows(store, **kwargs) -> str:
    return " ".join((key + value).decode() for key, value in store.range(**kwargs))


COMMITTED = "a1 b2 c3"
STAGED = "a1 b20 d4"


def test_t01_the_writer_reads_its_own_writes(base):
    stage(base)
    assert [base.kv.get(key) for key in (b"a", b"b", b"c", b"d")] == [b"1", b"20", None, b"4"]


def test_t02_isolation_is_chosen_by_the_reader(base):
    stage(base)
    assert [base.kv.read_only(RC).get(key) for key in (b"b", b"c", b"d")] == [b"2", b"3", None]
    assert [base.kv.read_only(RU).get(key) for key in (b"b", b"c", b"d")] == [b"20", None, b"4"]
    assert rows(base.kv.read_only(RC)) == COMMITTED
    assert rows(base.kv.read_only(RU)) == STAGED


def test_t03_after_commit_both_levels_agree(base, maybe_reopen):
    stage(base)
    assert base.db.approximate_num_uncommitted_bytes > 0
    base.db.commit()
    maybe_reopen()
    assert rows(base.kv.read_only(RC)) == rows(base.kv.read_only(RU)) == STAGED
    assert base.db.approximate_num_uncommitted_bytes == 0


def test_t04_after_rollback_both_levels_show_the_last_commit(base, maybe_reopen):
    stage(base)
    base.rates.put(b"k", b"v", 5)
    base.db.observe("orders", 3, 42)
    base.db.rollback()
    maybe_reopen()
    assert rows(base.kv.read_only(RC)) == rows(base.kv.read_only(RU)) == rows(base.kv) == COMMITTED
    assert base.db.approximate_num_uncommitted_bytes == 0
    assert base.db.committed_offset(("log", 0)) == 1
    assert base.db.position(RC) == base.db.position(RU) == hf.Position({"orders": {3: 41}})
    assert base.rates.stream_time is None


def test_t05_scans_merge_staged_and_stored_rows(base):
    stage(base)
    assert rows(base.kv) == STAGED
    assert rows(base.kv, reverse=True) == "d4 b20 a1"
    assert rows(base.kv.read_only(RC)) == COMMITTED


@pytest.mark.parametrize("level", [RC, RU])
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_t06_a_readers_iterator_outlives_commit_and_rollback(base, level, end):
    stage(base)
    iterator = base.kv.read_only(level).range()
    first = next(iterator)
    getattr(base.db, end)()
    base.kv.put(b"aa", b"later")
    base.db.commit()
    expected = COMMITTED if level is RC else STAGED
    assert " ".join((key + value).decode() for key, value in [first, *iterator]) == expected


def test_t07_the_writer_may_put_while_it_iterates(base):
    seen = []
    for key, value in base.kv.range():
        seen.append((key + value).decode())
        base.kv.put(key + b"x", b"new")
        base.kv.put(b"zz", b"new")
    assert " ".join(seen) == COMMITTED


def test_t10_a_range_delete_alone_is_committed(base, maybe_reopen):
    base.kv.delete_range(b"b", None)
    assert rows(base.kv) == "a1"
    assert rows(base.kv.read_only(RC)) == COMMITTED
    base.db.commit()
    maybe_reopen()
    assert rows(base.kv.read_only(RC)) == "a1"


def test_t11_offsets_and_positions_never_appear_in_scans(base, maybe_reopen):
    base.db.commit({("log", 0): 7, ("other", 3): 8})
    maybe_reopen()
    assert base.db.committed_offsets() == {("log", 0): 7, ("other", 3): 8}
    assert base.db.position() == hf.Position({"orders": {3: 41}})
    base.kv.put(b"d", b"4")
    assert rows(base.kv) == COMMITTED + " d4"
    assert rows(base.kv.read_only(RC)) == COMMITTED
    assert rows(base.kv, reverse=True) == "d4 c3 b2 a1"
    assert list(base.kv.prefix_scan(b"log")) == []
    assert list(base.rates.scan()) == []
    assert pa.RecordBatchReader.from_stream(base.kv.range_batches()).read_all().num_rows == 4


@pytest.mark.parametrize(("end", "stored"), [("commit", "b2 c3 e6"), ("rollback", COMMITTED)])
def test_t12_put_all_is_part_of_the_transaction(base, maybe_reopen, end, stored):
    base.kv.put_all([(b"a", None), (b"e", b"5"), (b"e", b"6")])
    assert rows(base.kv) == "b2 c3 e6"
    assert rows(base.kv.read_only(RC)) == COMMITTED
    getattr(base.db, end)()
    maybe_reopen()
    assert rows(base.kv) == rows(base.kv.read_only(RC)) == stored


def test_t15_a_commit_removes_one_offset_or_all(base, maybe_reopen):
    base.db.commit({("log", 0): 5, ("log", 1): 6, ("log", 2): 7})
    base.db.commit({("log", 1): None})
    maybe_reopen()
    assert base.db.committed_offset(("log", 1)) is None
    assert base.db.committed_offset(("log", 0)) == 5
    base.db.commit()
    assert base.db.committed_offsets() == {("log", 0): 5, ("log", 2): 7}
    base.db.commit({})
    maybe_reopen()
    assert base.db.committed_offsets() == {}
    assert base.db.committed_offset(("log", 0)) is None


def test_t16_one_commit_has_the_offsets_of_two_partitions(base, maybe_reopen):
    base.db.commit({("log", 0): 10, ("log", 1): 20})
    maybe_reopen()
    assert base.db.committed_offset(("log", 0)) == 10
    assert base.kv.committed_offset(("log", 1)) == 20
    assert base.db.recover({("log", 1): 99}) == {("log", 1): 20}


def test_t18_restored_records_are_visible_at_once(base, maybe_reopen):
    base.db.restore_batch("kv", pa.array([b"r"]), pa.array([b"9"]), None, {("log", 0): 2})
    maybe_reopen()
    assert base.kv.read_only(RC).get(b"r") == b"9"
    assert base.db.committed_offset(("log", 0)) == 2


def test_t20_switching_transactions_around_clean_closes_preserves_all_rows(tmp_path):
    for number, transactional in enumerate((True, False, True)):
        with hf.open(
            tmp_path / "db", [hf.stores.key_value("kv", transactional=transactional)]
        ) as db:
            assert rows(db["kv"]) == COMMITTED[: 3 * number].strip()
            db["kv"].put(*(part.encode() for part in COMMITTED.split()[number]))
            db.commit({("log", 0): number})
            assert db.committed_offset(("log", 0)) == number


def test_t21_overwrites_count_and_request_an_early_commit(open_bench):
    bench = open_bench(uncommitted_max_bytes=1_000_000)
    sizes = []
    while not bench.db.commit_requested:
        bench.kv.put(b"same key", b"x" * 100)
        sizes.append(bench.db.approximate_num_uncommitted_bytes)
        assert len(sizes) < 20_000, "no commit was requested at the limit"
    assert all(before < after for before, after in itertools.pairwise(sizes))
    assert 990_000 <= sizes[-1] <= 1_000_000
    bench.kv.put(b"same key", b"one more is not an error")
    bench.db.commit()
    assert not bench.db.commit_requested


@pytest.mark.parametrize("writes", [1, 7, 300])
def test_a_commit_is_requested_before_a_record_of_many_writes_exceeds_the_limit(open_bench, writes):
    bench = open_bench(uncommitted_max_bytes=2_000_000)
    numbers = itertools.count()
    while not bench.db.commit_requested:
        for number in itertools.islice(numbers, writes):
            bench.kv.put(b"%d" % number, b"x" * 90)
            bench.rates.put(b"%d" % (number % 1000), b"y" * 90, number)
        size = bench.db.approximate_num_uncommitted_bytes
        assert size <= 2_000_000
    assert size >= 1_700_000
    bench.db.commit()
    assert not bench.db.commit_requested


def test_the_default_isolation_level_follows_the_processing_guarantee(open_bench):
    for guarantee, level, seen in [
        (hf.ProcessingGuarantee.EXACTLY_ONCE, None, None),
        (hf.ProcessingGuarantee.AT_LEAST_ONCE, None, b"1"),
        (hf.ProcessingGuarantee.EXACTLY_ONCE, RU, b"1"),
    ]:
        bench = open_bench(
            f"{guarantee.value} {level}",
            processing_guarantee=guarantee,
            default_isolation_level=level,
        )
        bench.kv.put(b"a", b"1")
        assert bench.kv.read_only().get(b"a") == seen


def test_both_stores_and_the_offsets_are_one_commit(bench, maybe_reopen):
    bench.kv.put(b"a", b"1")
    bench.rates.put(b"k", b"v", 5)
    bench.db.rollback()
    bench.kv.put(b"b", b"2")
    bench.rates.put(b"k", b"w", 6)
    bench.db.commit({("log", 0): 3})
    bench.kv.put(b"c", b"not committed")
    bench.rates.put(b"k", b"not committed", 7)
    bench.db.rollback()
    maybe_reopen()
    assert rows(bench.kv) == "b2"
    assert bench.rates.get(b"k") == (b"w", 6, None)
    assert bench.rates.stream_time == 6
    assert bench.db.committed_offset(("log", 0)) == 3


def test_closing_drops_uncommitted_writes(bench):
    bench.kv.put(b"a", b"1")
    bench.db.commit()
    bench.kv.put(b"b", b"2")
    bench.db.close()
    if bench.persistent:
        with hf.open(bench.path, [hf.stores.key_value("kv")]) as db:
            assert rows(db["kv"]) == "a1"
    else:
        bench.db = bench.open()
        assert rows(bench.kv) == ""
