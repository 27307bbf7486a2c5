"""Offsets by store, input positions, and queries that ask for a position."""

from __future__ import annotations

import pyarrow as pa
import pytest

import holdfast as hf
from holdfast import IsolationLevel, Position, PositionBound

LOG, OTHER = ("log", 0), ("log", 1)
COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED


def two(path, **options):
    return hf.open_task(
        path,
        [hf.stores.key_value("kept"), hf.stores.key_value("lost", persistent=False)],
        **options,
    )


def test_a_store_that_lost_its_data_says_so_and_its_neighbours_keep_their_offsets(tmp_path):
    with two(tmp_path / "db") as task:
        task["kept"].put(b"k", b"v")
        task["lost"].put(b"k", b"v")
        task.commit({LOG: 7})
        assert task.committed_offset(LOG) == 7
    with two(tmp_path / "db") as task:
        assert task["kept"].committed_offset(LOG) == 7
        assert task["lost"].committed_offset(LOG) is None
        assert task.committed_offset(LOG) is None
        assert task.committed_offsets() == {}
        assert task["lost"].get(b"k") is None
        task.restore_batch("lost", pa.array([b"k"]), pa.array([b"v"]), None, {LOG: 7})
        assert task["lost"].get(b"k") == b"v"
        assert task.committed_offset(LOG) == 7


def test_the_task_stands_where_its_furthest_behind_store_does(tmp_path):
    with two(tmp_path / "db") as task:
        task.commit({LOG: 9, OTHER: 3})
        task.restore_batch("lost", pa.array([b"k"]), pa.array([b"v"]), None, {LOG: 4})
        assert (task["kept"].committed_offset(LOG), task["lost"].committed_offset(LOG)) == (9, 4)
        assert task.committed_offset(LOG) == 4
        assert task.committed_offsets() == {LOG: 4, OTHER: 3}


def test_a_store_added_later_has_no_offset(tmp_path):
    with hf.open_task(tmp_path / "db", [hf.stores.key_value("kept")]) as task:
        task.commit({LOG: 7})
    with hf.open_task(
        tmp_path / "db", [hf.stores.key_value("kept"), hf.stores.key_value("new")]
    ) as task:
        assert (task["kept"].committed_offset(LOG), task["new"].committed_offset(LOG)) == (7, None)
        # Who goes on from where the task stands must not pass the new store over.
        assert task.committed_offset(LOG) is None
        assert task.committed_offsets() == {}
        task.restore_batch("new", pa.array([b"k"]), pa.array([b"v"]), None, {LOG: 7})
        assert task.committed_offset(LOG) == 7
    with hf.open_task(
        tmp_path / "db",
        [hf.stores.key_value("kept"), hf.stores.key_value("memory", persistent=False)],
    ) as task:
        assert (task["kept"].committed_offset(LOG), task.committed_offset(LOG)) == (7, None)


def test_a_store_that_was_made_while_others_were_left_out_has_no_offset(tmp_path):
    kept, new = hf.stores.key_value("kept"), hf.stores.key_value("new")
    with hf.open_task(tmp_path / "db", [kept]) as task:
        task.commit({LOG: 7})
    with hf.open_task(tmp_path / "db", [new]) as task:
        assert task.committed_offset(LOG) is None
    with hf.open_task(tmp_path / "db", [kept, new]) as task:
        assert (task["kept"].committed_offset(LOG), task["new"].committed_offset(LOG)) == (7, None)
        assert (task.committed_offset(LOG), task.committed_offsets()) == (None, {})


def test_a_store_that_moves_from_memory_to_files_has_no_offset(tmp_path):
    with hf.open_task(tmp_path / "db", [hf.stores.key_value("lost", persistent=False)]) as task:
        task["lost"].put(b"k", b"v")
        task.observe("orders", 0, 41)
        task.commit({LOG: 7})
    for _ in range(2):
        with hf.open_task(tmp_path / "db", [hf.stores.key_value("lost")]) as task:
            assert task.committed_offset(LOG) is None
            assert_lost(task["lost"])
    with hf.open_task(tmp_path / "db", [hf.stores.key_value("lost")]) as task:
        task.restore_batch("lost", pa.array([b"k"]), pa.array([b"v"]), None, {LOG: 7})
    with hf.open_task(tmp_path / "db", [hf.stores.key_value("lost")]) as task:
        assert (task.committed_offset(LOG), task["lost"].get(b"k")) == (7, b"v")


def test_a_position_is_committed_and_rolled_back_with_the_writes(bench):
    bench.task.observe("orders", 3, 41)
    bench.kv.put(b"k", b"v")
    assert bench.task.position(UNCOMMITTED) == Position({"orders": {3: 41}})
    assert bench.task.position(COMMITTED) == Position()
    bench.task.rollback()
    assert bench.task.position(UNCOMMITTED) == Position()
    bench.task.observe("orders", 3, 42)
    bench.task.commit()
    bench.task.observe("orders", 3, 40)
    bench.task.observe("orders", 4, 1)
    assert bench.task.position(UNCOMMITTED) == Position({"orders": {3: 42, 4: 1}})
    bench.task.commit()
    bench.reopen()
    assert bench.task.position() == Position({"orders": {3: 42, 4: 1}})


def test_a_position_is_in_no_data_scan(bench):
    bench.task.observe("orders", 3, 41)
    bench.task.commit({LOG: 1})
    assert list(bench.kv.range()) == []


def test_a_query_is_answered_from_its_bound_on(bench):
    bench.kv.put(b"k", b"v")
    bench.task.observe("orders", 3, 41)
    bound = PositionBound.at(Position({"orders": {3: 41}}))
    early = bench.kv.read_only(COMMITTED, position_bound=bound)
    with pytest.raises(hf.errors.NotUpToBoundError, match="nothing of orders partition 3"):
        early.get(b"k")
    assert bench.kv.read_only(UNCOMMITTED, position_bound=bound).get(b"k") == b"v"
    bench.task.commit()
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
    with two(tmp_path / "db") as task:
        task.observe("orders", 0, 41)
        for name in ("kept", "lost"):
            task[name].put(b"k", b"v")
        task.commit(offsets)
        assert task["lost"].read_only(COMMITTED, position_bound=AT_41).get(b"k") == b"v"
    for _ in range(2):
        with two(tmp_path / "db") as task:
            assert task["kept"].read_only(COMMITTED, position_bound=AT_41).get(b"k") == b"v"
            assert_lost(task["lost"])
            task.restore_batch("lost", pa.array([b"k"]), pa.array([b"v"]), None, offsets)
            assert task["lost"].read_only(COMMITTED, position_bound=AT_41).get(b"k") == b"v"


@pytest.mark.parametrize("offsets", [{LOG: 7}, None], ids=["offsets", "no offsets"])
def test_a_store_added_later_meets_no_bound_until_it_is_restored(tmp_path, offsets):
    with hf.open_task(tmp_path / "db", [hf.stores.key_value("kept")]) as task:
        task.observe("orders", 0, 41)
        task.commit(offsets)
    for _ in range(2):
        with hf.open_task(
            tmp_path / "db", [hf.stores.key_value("kept"), hf.stores.key_value("new")]
        ) as task:
            assert task["kept"].read_only(COMMITTED, position_bound=AT_41).get(b"k") is None
            assert_lost(task["new"])
    with hf.open_task(
        tmp_path / "db", [hf.stores.key_value("kept"), hf.stores.key_value("new")]
    ) as task:
        task.restore_batch("new", pa.array([b"k"]), pa.array([b"v"]), None, offsets)
        assert task["new"].read_only(COMMITTED, position_bound=AT_41).get(b"k") == b"v"


def test_a_store_that_was_left_out_while_the_position_moved_meets_no_bound_until_it_is_restored(
    tmp_path,
):
    kept, left_out = hf.stores.key_value("kept"), hf.stores.key_value("lost")
    with hf.open_task(tmp_path / "db", [kept, left_out]) as task:
        task.observe("orders", 0, 40)
        task.commit()
    with hf.open_task(tmp_path / "db", [kept]) as task:
        task.observe("orders", 0, 40)  # it moves nothing
        task.commit({LOG: 6})
    with hf.open_task(tmp_path / "db", [kept, left_out]) as task:
        at_40 = PositionBound.at(Position({"orders": {0: 40}}))
        assert task["lost"].read_only(COMMITTED, position_bound=at_40).get(b"k") is None
    with hf.open_task(tmp_path / "db", [kept]) as task:
        task.observe("orders", 0, 41)
        task.commit({LOG: 7})
    for _ in range(2):
        with hf.open_task(tmp_path / "db", [kept, left_out]) as task:
            assert task["kept"].read_only(COMMITTED, position_bound=AT_41).get(b"k") is None
            assert_lost(task["lost"])
    with hf.open_task(tmp_path / "db", [kept, left_out]) as task:
        task.restore_batch("lost", pa.array([b"k"]), pa.array([b"v"]), None, {LOG: 7})
        assert task["lost"].read_only(COMMITTED, position_bound=AT_41).get(b"k") == b"v"


def test_a_topic_that_cannot_be_stored_is_refused_and_changes_nothing(bench):
    bench.kv.put(b"k", b"v")
    with pytest.raises(ValueError, match="NUL"):
        bench.task.commit({("a\0", 0): 1})
    with pytest.raises(ValueError, match="NUL"):
        bench.task.observe("a\0", 0, 1)
    assert bench.kv.get(b"k") == b"v"
    bench.task.commit({("a", 0): 1})
    assert bench.task.committed_offsets() == {("a", 0): 1}
    assert bench.kv.read_only(hf.IsolationLevel.READ_COMMITTED).get(b"k") == b"v"


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 2**70])
@pytest.mark.parametrize(
    ("call", "named"),
    [
        (
            lambda task, number: task.commit({("log", number): 1}),
            "a partition of changelog_offsets",
        ),
        (
            lambda task, number: task.recover({("log", number): 1}),
            "a partition of changelog_offsets",
        ),
        (lambda task, number: task.committed_offset(("log", number)), "partition"),
        (lambda task, number: task["kv"].committed_offset(("log", number)), "partition"),
        (lambda task, number: task.observe("log", number, 1), "partition"),
        (lambda task, number: Position({"log": {number: 1}}), "a partition"),
    ],
)
def test_a_partition_beyond_32_bits_is_named(bench, call, named, number):
    with pytest.raises(ValueError, match=rf"^{named} is {number}, which does not fit 32 bits"):
        call(bench.task, number)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda task, offset: task.commit({LOG: offset}), "an offset of changelog_offsets"),
        (lambda task, offset: task.observe("log", 0, offset), "offset"),
        (lambda task, offset: Position({"log": {0: offset}}), "an offset"),
    ],
)
def test_an_offset_beyond_64_bits_is_named_and_so_is_none(bench, call, named):
    with pytest.raises(ValueError, match=rf"^{named} is {2**63}, which does not fit 64 bits"):
        call(bench.task, 2**63)
    with pytest.raises(TypeError, match=rf"^{named} is '7'; wanted: an integer"):
        call(bench.task, "7")


def test_the_widest_partitions_and_offsets(bench):
    widest = {("log", -(2**31)): -(2**63), ("log", 2**31 - 1): 2**63 - 1}
    bench.task.commit(widest)
    assert bench.task.committed_offsets() == widest
