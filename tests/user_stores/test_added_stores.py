"""Transactional user stores that are added to a database with commits."""

from __future__ import annotations

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
