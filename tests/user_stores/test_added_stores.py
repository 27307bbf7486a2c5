"""Transactional user stores that are added to a database with commits."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from failing_core import fail_next_commit, mend
from two_step_store import LOG, TwoStepStore, opened

import holdfast as hf

OTHER = hf.TopicPartition("log", 1)


def without_store(path: Path, offsets: dict[hf.TopicPartition, int]) -> None:
    """Commits in a session without the user store."""
    with hf.open(path, [hf.stores.key_value("kv")]) as db:
        db.commit(offsets)


def total(path: Path) -> int:
    """The store's sum after an open."""
    with opened(path) as db:
        return db["totals"].sum


@pytest.mark.parametrize("end", ["rollback", "close", "kill"])
def test_the_first_commit_of_an_added_store_survives(tmp_path, end):
    without_store(tmp_path / "db", {LOG: 100, OTHER: 50})
    db = opened(tmp_path / "db")
    db["totals"].add(7)
    db.commit({LOG: 101})
    if end == "rollback":
        db.rollback()
        assert db["totals"].sum == 7
    if end == "kill":
        db._core.close()  # the store is not closed
    db.close()
    assert total(tmp_path / "db") == 7


def test_the_first_commit_survives_sessions_without_the_store(tmp_path):
    opened(tmp_path / "db").close()
    without_store(tmp_path / "db", {OTHER: 1})
    with opened(tmp_path / "db") as db:
        db["totals"].add(7)
        db.commit({LOG: 1})
    assert total(tmp_path / "db") == 7


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("offsets", [{LOG: 101}, {LOG: None}, {}])
def test_a_first_commit_that_fails_survives_if_the_database_has_it(tmp_path, after, offsets):
    without_store(tmp_path / "db", {LOG: 100, OTHER: 50})
    with opened(tmp_path / "db") as db:
        db["totals"].restore(3, {LOG: 100})
        db["totals"].add(4)
        fail_next_commit(db, after=after)
        with pytest.raises(OSError, match="full"):
            db.commit(offsets)
        mend(db)
        db.rollback()
        assert db["totals"].sum == (7 if after else 3)
    assert total(tmp_path / "db") == (7 if after else 3)


def test_an_added_store_that_is_restored_stays_at_its_offsets(tmp_path):
    without_store(tmp_path / "db", {LOG: 100, OTHER: 50})
    with opened(tmp_path / "db") as db:
        db["totals"].restore(3, {LOG: 100, OTHER: 50})
        db.rollback()
        assert db["totals"].sum == 3
    with opened(tmp_path / "db") as db:
        assert db["totals"].sum == 3
        db["totals"].add(4)
        db.commit({OTHER: 51})
    # The commit's record has both partitions, and this session does not change it.
    without_store(tmp_path / "db", {LOG: 101})
    assert total(tmp_path / "db") == 7


def test_an_added_store_with_other_offsets_is_refused(tmp_path):
    without_store(tmp_path / "db", {LOG: 100})
    with opened(tmp_path / "db") as db:
        db["totals"].restore(3, {LOG: 99})
    with pytest.raises(hf.errors.StateMismatchError, match=r"store totals: .* at log 0: 99"):
        opened(tmp_path / "db", TwoStepStore())


def test_a_restore_before_the_first_commit_is_not_taken_for_one(tmp_path):
    with opened(tmp_path / "db") as db:
        db.restore_batch("kv", pa.array([b"sum"]), pa.array([b"9"]), None, {LOG: 5, OTHER: 7})
        db["totals"].add(7)
        db.commit({LOG: 6})
        db.rollback()
        assert db["totals"].sum == 7


def both(path: Path) -> hf.Database:
    """Opens the database with the store `totals` and a second one."""
    return opened(path, TwoStepStore("totals"), TwoStepStore("others"))


def sums(db: hf.Database) -> tuple[int, int]:
    return db["totals"].sum, db["others"].sum


def with_first(path: Path) -> None:
    """Makes a database in which only `totals` has commits."""
    with opened(path) as db:
        db["totals"].add(1)
        db.commit({LOG: 100, OTHER: 50})


@pytest.mark.parametrize("end", ["rollback", "close", "kill"])
def test_the_first_commit_of_a_second_store_survives(tmp_path, end):
    with_first(tmp_path / "db")
    db = both(tmp_path / "db")
    db["others"].add(7)
    db.commit({LOG: 101})
    if end == "rollback":
        db.rollback()
        assert sums(db) == (1, 7)
    if end == "kill":
        db._core.close()  # the stores are not closed
    db.close()
    with both(tmp_path / "db") as db:
        assert sums(db) == (1, 7)
        assert db["totals"].offsets == {LOG: 101, OTHER: 50}
        assert db["others"].offsets == {LOG: 101}


def test_the_first_commit_of_a_store_beside_a_restored_one_survives(tmp_path):
    without_store(tmp_path / "db", {LOG: 100, OTHER: 50})
    with both(tmp_path / "db") as db:
        db["totals"].restore(1, {LOG: 100, OTHER: 50})
        db["others"].add(7)
        db.commit({LOG: 101})
    with both(tmp_path / "db") as db:
        assert sums(db) == (1, 7)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("offsets", [{LOG: 101}, {LOG: 101, OTHER: None}])
def test_a_failed_first_commit_of_a_second_store_follows_the_database(tmp_path, after, offsets):
    with_first(tmp_path / "db")
    for end in ("rollback", "open"):
        with both(tmp_path / "db") as db:
            db["totals"].add(2)
            db["others"].add(7)
            fail_next_commit(db, after=after)
            with pytest.raises(OSError, match="full"):
                db.commit(offsets)
            mend(db)
            if end == "rollback":
                db.rollback()
                assert sums(db) == ((3, 7) if after else (1, 0))
        with both(tmp_path / "db") as db:
            assert sums(db) == ((3, 7) if after else (1, 0))
        if after:
            break


def test_a_second_store_that_is_restored_stays_at_its_offsets(tmp_path):
    with_first(tmp_path / "db")
    with both(tmp_path / "db") as db:
        db["others"].restore(3, {LOG: 100, OTHER: 50})
        db.rollback()
        assert sums(db) == (1, 3)
        db["others"].add(4)
        db.commit({OTHER: 51})
    with both(tmp_path / "db") as db:
        assert sums(db) == (1, 7)
        assert db["others"].offsets == {LOG: 100, OTHER: 51}


def test_a_store_that_returns_is_at_its_own_last_commit(tmp_path):
    with both(tmp_path / "db") as db:
        db["others"].add(7)
        db.commit({LOG: 1})
    with opened(tmp_path / "db") as db:
        db["totals"].add(2)
        db.commit({LOG: 2, OTHER: 1})
    with both(tmp_path / "db") as db:
        assert sums(db) == (2, 7)
        assert db["others"].offsets == {LOG: 1}
        db["others"].add(1)
        db.commit({LOG: 3})
    with both(tmp_path / "db") as db:
        assert sums(db) == (2, 8)


def test_a_restore_moves_the_offsets_of_the_stores_that_have_the_partition(tmp_path):
    with_first(tmp_path / "db")
    with both(tmp_path / "db") as db:
        db["others"].add(7)
        db.commit({LOG: 101})
        none = pa.array([], pa.binary())
        db.restore_batch("kv", none, none, None, {LOG: 110, OTHER: 60})
        db["totals"].restore(9, {LOG: 110, OTHER: 60})
        db["others"].restore(8, {LOG: 110})
        db.rollback()
        assert sums(db) == (9, 8)
        db["others"].add(1)
        db.commit({LOG: 111})
    with both(tmp_path / "db") as db:
        assert sums(db) == (9, 9)
        assert db["others"].offsets == {LOG: 111}


def test_a_restore_without_the_stores_does_not_drop_their_last_commits(tmp_path):
    copy = tmp_path / "copy"
    with both(tmp_path / "db") as db:
        db.commit({LOG: 1})
        db.checkpoint(copy)
        db["totals"].add(2)
        db["others"].add(7)
        db.commit({LOG: 2})
    with hf.open(copy, [hf.stores.key_value("kv")]) as db:
        none = pa.array([], pa.binary())
        db.restore_batch("kv", none, none, None, {LOG: 2, OTHER: 1})
    for name in ("totals", "others"):
        shutil.copytree(tmp_path / "db" / name, copy / name, dirs_exist_ok=True)
    with both(copy) as db:
        assert sums(db) == (2, 7)


def test_a_store_of_a_database_that_was_restored_to_a_new_partition_can_be_restored(tmp_path):
    """The store's last commit is the first one of the partition, and the checkpoint is older."""
    copy = tmp_path / "copy"
    with opened(tmp_path / "db") as db:
        db.commit({LOG: 1})
        db.checkpoint(copy)
        db["totals"].add(2)
        db.commit({LOG: 2, OTHER: 1})
    with hf.open(copy, [hf.stores.key_value("kv")]) as db:
        none = pa.array([], pa.binary())
        db.restore_batch("kv", none, none, None, {LOG: 2, OTHER: 1})
    shutil.copytree(tmp_path / "db" / "totals", copy / "totals", dirs_exist_ok=True)
    lacks = r"at log 0: 1, .* also at log 1: 1, .* restore the store up to log 0: 2, log 1: 1"
    with pytest.raises(hf.errors.StateMismatchError, match=lacks):
        opened(copy)
    shutil.rmtree(copy / "totals")
    with opened(copy) as db:
        db["totals"].restore(2, {LOG: 2, OTHER: 1})
    with opened(copy) as db:
        assert (db["totals"].sum, db.committed_offset(OTHER)) == (2, 1)
        db["totals"].add(1)
        db.commit({OTHER: 2})
    assert total(copy) == 3


def test_each_commit_must_move_an_offset_of_each_store(tmp_path):
    with_first(tmp_path / "db")
    with both(tmp_path / "db") as db:
        for offsets in ({OTHER: None}, {}):
            with pytest.raises(ValueError, match=r"moves no offset.*\['others'\]"):
                db.commit(offsets)
        db.commit({LOG: 101, OTHER: None})


def test_a_removed_offset_of_a_restored_partition_stays_removed(tmp_path):
    with opened(tmp_path / "db") as db:
        db.commit({LOG: 1})
        db.commit({})
    without_store(tmp_path / "db", {LOG: 100})
    with opened(tmp_path / "db") as db:
        db["totals"].restore(3, {LOG: 100})
        db["totals"].add(4)
        fail_next_commit(db, after=True)
        with pytest.raises(OSError, match="full"):
            db.commit({LOG: None})
        mend(db)
        db.rollback()
        assert db["totals"].sum == 7
    assert total(tmp_path / "db") == 7


def test_an_undecided_commit_of_a_store_that_is_then_left_out_is_dropped(tmp_path):
    with both(tmp_path / "db") as db:
        db.commit({LOG: 1})
        db["others"].add(7)
        fail_next_commit(db)
        with pytest.raises(OSError, match="full"):
            db.commit({LOG: 2})
    with opened(tmp_path / "db") as db:
        db.commit({LOG: 2})
    with both(tmp_path / "db") as db:
        assert db["others"].sum == 0
        assert db["others"].offsets == {LOG: 1}
