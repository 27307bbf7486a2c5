"""Offsets of stores, input positions, and queries with a position bound."""

from __future__ import annotations

import pyarrow as pa
import pytest

import holdfast as hf
from holdfast import IsolationLevel, Position, PositionBound

LOG, OTHER = ("log", 0), ("log", 1)
COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED


def two(path, **options):
    return hf.open(
        path,
        [hf.stores.key_value("lasting"), hf.stores.key_value("lost", persistent=False)],
        **options,
    )


def test_a_store_that_lost_its_data_has_no_offset_and_others_keep_theirs(tmp_path):
    with two(tmp_path / "db") as db:
        db["lasting"].put(b"k", b"v")
        db["lost"].put(b"k", b"v")
        db.commit({LOG: 7})
        assert db.committed_offset(LOG) == 7
    with two(tmp_path / "db") as db:
        assert db["lasting"].committed_offset(LOG) == 7
        assert db["lost"].committed_offset(LOG) is None
        assert db.committed_offset(LOG) is None
        assert db.committed_offsets() == {}
        assert db["lost"].get(b"k") is None
        db.restore_batch("lost", pa.array([b"k"]), pa.array([b"v"]), None, {LOG: 7})
        assert db["lost"].get(b"k") == b"v"
        assert db.committed_offset(LOG) == 7


def test_the_database_has_the_least_offset_of_its_stores(tmp_path):
    with two(tmp_path / "db") as db:
        db.commit({LOG: 9, OTHER: 3})
        db.restore_batch("lost", pa.array([b"k"]), pa.array([b"v"]), None, {LOG: 4})
        assert (db["lasting"].committed_offset(LOG), db["lost"].committed_offset(LOG)) == (9, 4)
        assert db.committed_offset(LOG) == 4
        assert db.committed_offsets() == {LOG: 4, OTHER: 3}


def test_stores_of_one_changelog_get_the_offsets_after_their_records(tmp_path):
    with two(tmp_path / "db") as db:
        none = pa.array([], pa.binary())
        for store in ("lasting", "lost"):
            db.restore_batch(store, pa.array([b"k"]), pa.array([b"v"]), None, {})
        assert db.committed_offsets() == {}
        for store in ("lasting", "lost"):
            db.restore_batch(store, none, none, None, {LOG: 4})
        assert db.committed_offset(LOG) == 4
        assert db["lasting"].get(b"k") == db["lost"].get(b"k") == b"v"


def test_a_store_added_later_has_no_offset(tmp_path):
    with hf.open(tmp_path / "db", [hf.stores.key_value("lasting")]) as db:
        db.commit({LOG: 7})
    with hf.open(
        tmp_path / "db", [hf.stores.key_value("lasting"), hf.stores.key_value("new")]
    ) as db:
        assert (db["lasting"].committed_offset(LOG), db["new"].committed_offset(LOG)) == (7, None)
        # A caller that continues from the database's offset must not skip the new store's records.
        assert db.committed_offset(LOG) is None
        assert db.committed_offsets() == {}
        db.restore_batch("new", pa.array([b"k"]), pa.array([b"v"]), None, {LOG: 7})
        assert db.committed_offset(LOG) == 7
    with hf.open(
        tmp_path / "db",
        [hf.stores.key_value("lasting"), hf.stores.key_value("memory", persistent=False)],
    ) as db:
        assert (db["lasting"].committed_offset(LOG), db.committed_offset(LOG)) == (7, None)


def test_a_store_that_was_created_while_others_were_left_out_has_no_offset(tmp_path):
    lasting, new = hf.stores.key_value("lasting"), hf.stores.key_value("new")
    with hf.open(tmp_path / "db", [lasting]) as db:
        db.commit({LOG: 7})
    with hf.open(tmp_path / "db", [new]) as db:
        assert db.committed_offset(LOG) is None
    with hf.open(tmp_path / "db", [lasting, new]) as db:
        assert (db["lasting"].committed_offset(LOG), db["new"].committed_offset(LOG)) == (7, None)
        assert (db.committed_offset(LOG), db.committed_offsets()) == (None, {})


def test_a_store_left_out_of_the_first_commit_of_a_partition_has_no_offset_of_it(tmp_path):
    one, left_out = hf.stores.key_value("one"), hf.stores.key_value("left-out")
    with hf.open(tmp_path / "db", [one, left_out]) as db:
        db.commit({LOG: 10})
    with hf.open(tmp_path / "db", [one]) as db:
        db.commit({LOG: 20, OTHER: 5})
        db.commit({OTHER: 6})
        assert db.committed_offsets() == {LOG: 20, OTHER: 6}
    with hf.open(tmp_path / "db", [one, left_out]) as db:
        assert db.committed_offsets() == {LOG: 10}
        offsets = (db["one"].committed_offset(OTHER), db["left-out"].committed_offset(OTHER))
        assert offsets == (6, None)


def test_a_restore_says_nothing_about_a_store_that_was_left_out(tmp_path):
    one, left_out = hf.stores.key_value("one"), hf.stores.key_value("left-out")
    rows = (pa.array([b"k"]), pa.array([b"v"]), None)
    with hf.open(tmp_path / "db", [one, left_out]) as db:
        db.restore_batch("one", *rows, {LOG: 7})
        db.restore_batch("left-out", *rows, {OTHER: 5})
    with hf.open(tmp_path / "db", [one]) as db:
        db.restore_batch("one", *rows, {LOG: 9})
    with hf.open(tmp_path / "db", [one, left_out]) as db:
        assert db.committed_offsets() == {LOG: 9, OTHER: 5}


def test_a_store_that_moves_from_memory_to_files_has_no_offset(tmp_path):
    with hf.open(tmp_path / "db", [hf.stores.key_value("lost", persistent=False)]) as db:
        db["lost"].put(b"k", b"v")
        db.observe("orders", 0, 41)
        db.commit({LOG: 7})
    for _ in range(2):
        with hf.open(tmp_path / "db", [hf.stores.key_value("lost")]) as db:
            assert db.committed_offset(LOG) is None
            assert_lost(db["lost"])
    with hf.open(tmp_path / "db", [hf.stores.key_value("lost")]) as db:
        db.restore_batch("lost", pa.array([b"k"]), pa.array([b"v"]), None, {LOG: 7})
    with hf.open(tmp_path / "db", [hf.stores.key_value("lost")]) as db:
        assert (db.committed_offset(LOG), db["lost"].get(b"k")) == (7, b"v")


def test_a_position_is_committed_and_rolled_back_with_the_writes(bench):
    bench.db.observe("orders", 3, 41)
    bench.kv.put(b"k", b"v")
    assert bench.db.position(UNCOMMITTED) == Position({"orders": {3: 41}})
    assert bench.db.position(COMMITTED) == Position()
    bench.db.rollback()
    assert bench.db.position(UNCOMMITTED) == Position()
    bench.db.observe("orders", 3, 42)
    bench.db.commit()
    bench.db.observe("orders", 3, 40)
    bench.db.observe("orders", 4, 1)
    assert bench.db.position(UNCOMMITTED) == Position({"orders": {3: 42, 4: 1}})
    bench.db.commit()
    bench.reopen()
    assert bench.db.position() == Position({"orders": {3: 42, 4: 1}})


def test_positions_never_appear_in_scans(bench):
    bench.db.observe("orders", 3, 41)
    bench.db.commit({LOG: 1})
    assert list(bench.kv.range()) == []


def test_a_query_is_answered_once_the_position_meets_its_bound(bench):
    bench.kv.put(b"k", b"v")
    bench.db.observe("orders", 3, 41)
    bound = PositionBound.at(Position({"orders": {3: 41}}))
    early = bench.kv.read_only(COMMITTED, position_bound=bound)
    with pytest.raises(hf.errors.NotUpToBoundError, match="nothing of orders partition 3"):
        early.get(b"k")
    assert bench.kv.read_only(UNCOMMITTED, position_bound=bound).get(b"k") == b"v"
    bench.db.commit()
    assert early.get(b"k") == b"v"
    with pytest.raises(hf.errors.NotUpToBoundError, match="41 of orders"):
        bench.rates.read_only(
            COMMITTED, position_bound=PositionBound.at(Position({"orders": {3: 42}}))
        ).get(b"k")
    assert bench.kv.read_only(COMMITTED, position_bound=PositionBound.unbounded()).get(b"k") == b"v"


AT_41 = PositionBound.at(Position({"orders": {0: 41}}))


def assert_lost(store):
    for level in (COMMITTED, UNCOMMITTED):
        with pytest.raises(
            hf.errors.NotUpToBoundError, match=rf"lost .*restore it.*store: {store.name}"
        ):
            store.read_only(level, position_bound=AT_41).get(b"k")
        assert store.read_only(level, position_bound=PositionBound.unbounded()).get(b"k") is None
        assert store.read_only(level).get(b"k") is None


@pytest.mark.parametrize("offsets", [{LOG: 7}, None], ids=["offsets", "no offsets"])
def test_a_store_that_lost_its_data_meets_no_bound_until_it_is_restored(tmp_path, offsets):
    with two(tmp_path / "db") as db:
        db.observe("orders", 0, 41)
        for name in ("lasting", "lost"):
            db[name].put(b"k", b"v")
        db.commit(offsets)
        assert db["lost"].read_only(COMMITTED, position_bound=AT_41).get(b"k") == b"v"
    for _ in range(2):
        with two(tmp_path / "db") as db:
            assert db["lasting"].read_only(COMMITTED, position_bound=AT_41).get(b"k") == b"v"
            assert_lost(db["lost"])
            db.restore_batch("lost", pa.array([b"k"]), pa.array([b"v"]), None, offsets)
            assert db["lost"].read_only(COMMITTED, position_bound=AT_41).get(b"k") == b"v"


def test_a_restore_with_positions_moves_the_position_of_the_database(tmp_path):
    path, keys = tmp_path / "db", pa.array([b"k"])
    with hf.open(path, [hf.stores.key_value("kv")]) as db:
        for offset in (20, 41, 30):
            db.restore_batch(
                "kv", keys, keys, None, {LOG: 7}, position=Position({"orders": {0: offset}})
            )
        assert db.position(COMMITTED) == Position({"orders": {0: 41}})
        assert db["kv"].read_only(COMMITTED, position_bound=AT_41).get(b"k") == b"k"
        with pytest.raises(TypeError, match=r"position is a dict; wanted: a Position"):
            db.restore_batch("kv", keys, keys, None, {}, position={"orders": {0: 42}})
    with hf.open(path, [hf.stores.key_value("kv")]) as db:
        assert db.position(COMMITTED) == Position({"orders": {0: 41}})


def test_a_store_meets_its_bound_when_its_restore_is_at_the_position(tmp_path):
    path, keys = tmp_path / "db", pa.array([b"k"])
    with two(path) as db:
        db.observe("orders", 0, 41)
        db.observe("rates", 0, 5)
        db.commit({LOG: 7})
    with two(path) as db:
        restored = Position({"orders": {0: 40}})
        db.restore_batch("lost", keys.slice(0, 0), keys.slice(0, 0), None, {}, position=restored)
        assert_lost(db["lost"])
        restored = Position({"orders": {0: 41}})
        db.restore_batch("lost", keys, keys, None, {LOG: 7}, position=restored)
        assert db["lost"].read_only(COMMITTED, position_bound=AT_41).get(b"k") == b"k"
        assert db.position(COMMITTED) == Position({"orders": {0: 41}, "rates": {0: 5}})


def test_a_store_commits_its_database_and_returns_its_own_offset(bench):
    bench.kv.put(b"k", b"v")
    bench.rates.put(b"EUR", b"1", 10)
    bench.kv.commit({LOG: 3})
    assert bench.rates.read_only(COMMITTED).get(b"EUR").value == b"1"
    assert (bench.kv.committed_offset(LOG), bench.rates.committed_offset(LOG)) == (3, 3)
    assert bench.kv.committed_offset(OTHER) is None
    bench.kv.put(b"k", b"w")
    bench.rates.commit()
    bench.db.rollback()
    assert (bench.kv.get(b"k"), bench.kv.committed_offset(LOG)) == (b"w", 3)
    bench.kv.commit({})
    assert bench.rates.committed_offset(LOG) is None


def test_flush_of_a_store_does_nothing_and_logs_that_once(bench, caplog, monkeypatch):
    monkeypatch.setattr(hf.StateStore, "_flush_has_warned", False)
    bench.kv.put(b"k", b"v")
    with caplog.at_level("WARNING"):
        bench.kv.flush()
        bench.rates.flush()
    assert [record.getMessage() for record in caplog.records] == [
        "StateStore.flush is deprecated and does nothing: a commit needs no flush"
    ]
    assert bench.kv.read_only(COMMITTED).get(b"k") is None
    bench.db.rollback()
    assert bench.kv.get(b"k") is None


def test_each_store_reports_its_uncommitted_bytes(tmp_path):
    stores = [
        hf.stores.key_value("a"),
        hf.stores.versioned("b", history_retention=10),
        hf.stores.key_value("c", transactional=False),
    ]
    with hf.open(tmp_path / "db", stores) as db:
        db["a"].put(b"k", bytes(1_000))
        db["c"].put(b"k", bytes(3_000))
        of_a = db["a"].approximate_num_uncommitted_bytes
        assert 1_000 <= of_a < 2_000
        db["b"].put(b"k", bytes(2_000), 1)
        of_b = db["b"].approximate_num_uncommitted_bytes
        assert 2_000 <= of_b < 3_000
        assert db["a"].approximate_num_uncommitted_bytes == of_a
        assert db["c"].approximate_num_uncommitted_bytes == 0
        assert db.approximate_num_uncommitted_bytes == of_a + of_b
        db.commit()
        assert [
            store.approximate_num_uncommitted_bytes for store in map(db.__getitem__, "abc")
        ] == [
            0,
            0,
            0,
        ]


@pytest.mark.parametrize("offsets", [{LOG: 7}, None], ids=["offsets", "no offsets"])
def test_a_store_added_later_meets_no_bound_until_it_is_restored(tmp_path, offsets):
    with hf.open(tmp_path / "db", [hf.stores.key_value("lasting")]) as db:
        db.observe("orders", 0, 41)
        db.commit(offsets)
    for _ in range(2):
        with hf.open(
            tmp_path / "db", [hf.stores.key_value("lasting"), hf.stores.key_value("new")]
        ) as db:
            assert db["lasting"].read_only(COMMITTED, position_bound=AT_41).get(b"k") is None
            assert_lost(db["new"])
    with hf.open(
        tmp_path / "db", [hf.stores.key_value("lasting"), hf.stores.key_value("new")]
    ) as db:
        db.restore_batch("new", pa.array([b"k"]), pa.array([b"v"]), None, offsets)
        assert db["new"].read_only(COMMITTED, position_bound=AT_41).get(b"k") == b"v"


def test_a_store_that_was_left_out_while_the_position_moved_meets_no_bound_until_it_is_restored(
    tmp_path,
):
    lasting, left_out = hf.stores.key_value("lasting"), hf.stores.key_value("lost")
    with hf.open(tmp_path / "db", [lasting, left_out]) as db:
        db.observe("orders", 0, 40)
        db.commit()
    with hf.open(tmp_path / "db", [lasting]) as db:
        db.observe("orders", 0, 40)  # it does not move the position
        db.commit({LOG: 6})
    with hf.open(tmp_path / "db", [lasting, left_out]) as db:
        at_40 = PositionBound.at(Position({"orders": {0: 40}}))
        assert db["lost"].read_only(COMMITTED, position_bound=at_40).get(b"k") is None
    with hf.open(tmp_path / "db", [lasting]) as db:
        db.observe("orders", 0, 41)
        db.commit({LOG: 7})
    for _ in range(2):
        with hf.open(tmp_path / "db", [lasting, left_out]) as db:
            assert db["lasting"].read_only(COMMITTED, position_bound=AT_41).get(b"k") is None
            assert_lost(db["lost"])
    with hf.open(tmp_path / "db", [lasting, left_out]) as db:
        db.restore_batch("lost", pa.array([b"k"]), pa.array([b"v"]), None, {LOG: 7})
        assert db["lost"].read_only(COMMITTED, position_bound=AT_41).get(b"k") == b"v"


def test_a_topic_that_cannot_be_stored_is_refused_and_changes_nothing(bench):
    bench.kv.put(b"k", b"v")
    with pytest.raises(ValueError, match="NUL"):
        bench.db.commit({("a\0", 0): 1})
    with pytest.raises(ValueError, match="NUL"):
        bench.db.observe("a\0", 0, 1)
    assert bench.kv.get(b"k") == b"v"
    bench.db.commit({("a", 0): 1})
    assert bench.db.committed_offsets() == {("a", 0): 1}
    assert bench.kv.read_only(hf.IsolationLevel.READ_COMMITTED).get(b"k") == b"v"


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 2**70])
@pytest.mark.parametrize(
    ("call", "named"),
    [
        (
            lambda db, number: db.commit({("log", number): 1}),
            "a partition of changelog_offsets",
        ),
        (
            lambda db, number: db.recover({("log", number): 1}),
            "a partition of changelog_offsets",
        ),
        (lambda db, number: db.committed_offset(("log", number)), "partition"),
        (lambda db, number: db["kv"].committed_offset(("log", number)), "partition"),
        (lambda db, number: db.observe("log", number, 1), "partition"),
        (lambda db, number: Position({"log": {number: 1}}), "a partition"),
    ],
)
def test_a_partition_beyond_32_bits_is_named(bench, call, named, number):
    with pytest.raises(ValueError, match=rf"^{named} is {number}, which does not fit 32 bits"):
        call(bench.db, number)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda db, offset: db.commit({LOG: offset}), "an offset of changelog_offsets"),
        (lambda db, offset: db.observe("log", 0, offset), "offset"),
        (lambda db, offset: Position({"log": {0: offset}}), "an offset"),
    ],
)
def test_an_invalid_offset_is_named(bench, call, named):
    with pytest.raises(ValueError, match=rf"^{named} is {2**63}, which does not fit 64 bits"):
        call(bench.db, 2**63)
    with pytest.raises(TypeError, match=rf"^{named} is '7'; wanted: an integer"):
        call(bench.db, "7")


def test_the_least_and_greatest_partitions_and_offsets_are_stored(bench):
    widest = {("log", -(2**31)): -(2**63), ("log", 2**31 - 1): 2**63 - 1}
    bench.db.commit(widest)
    assert bench.db.committed_offsets() == widest
