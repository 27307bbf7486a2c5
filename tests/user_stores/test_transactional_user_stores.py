"""Transactional user stores are at the last commit of their database after any failure."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pyarrow as pa
import pytest
from failing_core import InterruptedCore, fail_next_commit, mend
from two_step_store import LOG, TwoStepStore, apply, opened

import holdfast as hf
from holdfast import ProcessingGuarantee
from processes import running

OTHER = hf.TopicPartition("log", 1)
ONCE, AT_LEAST_ONCE = ProcessingGuarantee.EXACTLY_ONCE, ProcessingGuarantee.AT_LEAST_ONCE


def states(db: hf.Database) -> tuple[int, int, int | None]:
    """The sums in both stores, and the offset of the database."""
    built_in = int(db["kv"].get(b"sum") or b"0")
    return built_in, db["totals"].sum, db.committed_offset(LOG)


def test_a_store_commits_with_the_database_and_survives_a_clean_close(tmp_path):
    with opened(tmp_path / "db") as db:
        for offset in range(1, 4):
            apply(db, offset)
    with opened(tmp_path / "db") as db:
        assert states(db) == (6, 6, 3)
        assert db.store_offset("totals", LOG) == 3


def test_a_rollback_drops_the_writes_of_the_store(tmp_path):
    with opened(tmp_path / "db") as db:
        apply(db, 1)
        db["totals"].add(41)
        db.rollback()
        db.commit({LOG: 2})
        assert states(db) == (1, 1, 2)
    with opened(tmp_path / "db") as db:
        assert states(db) == (1, 1, 2)


def test_a_restore_without_the_store_does_not_drop_its_last_commit(tmp_path):
    copy = tmp_path / "copy"
    with opened(tmp_path / "db") as db:
        apply(db, 1)
        db.checkpoint(copy)
        apply(db, 2)
        data = db.directory("totals")
    with hf.open(copy, [hf.stores.key_value("kv")]) as db:
        db.restore_batch("kv", pa.array([b"sum"]), pa.array([b"3"]), None, {LOG: 2})
    shutil.copytree(data, copy / data.relative_to(tmp_path / "db"), dirs_exist_ok=True)
    with opened(copy) as db:
        assert states(db) == (3, 3, 2)


def test_a_store_restored_beside_its_database_stays_at_its_offsets(tmp_path):
    with opened(tmp_path / "db") as db:
        db.commit({LOG: 1, OTHER: 1})
        db.restore_batch("kv", pa.array([b"sum"]), pa.array([b"9"]), None, {LOG: 5, OTHER: 7})
        db["totals"].restore(9, {LOG: 5, OTHER: 7})
        apply(db, 6)
        db.rollback()
        assert states(db) == (15, 15, 6)
    with opened(tmp_path / "db") as db:
        assert states(db) == (15, 15, 6)
        assert db.committed_offset(OTHER) == 7


def test_a_store_restored_to_a_new_partition_stays_there(tmp_path):
    with opened(tmp_path / "db") as db:
        apply(db, 1)
        db.restore_batch("kv", pa.array([b"sum"]), pa.array([b"9"]), None, {LOG: 5, OTHER: 7})
        db["totals"].restore(9, {LOG: 5, OTHER: 7})
        db.rollback()
    with opened(tmp_path / "db") as db:
        assert states(db) == (9, 9, 5)
        apply(db, 6)
    # The commit's record has the partition, so the store keeps that commit.
    with opened(tmp_path / "db") as db:
        assert states(db) == (15, 15, 6)
        assert db["totals"].committed_offset(OTHER) == 7


def test_a_failed_commit_after_a_restore_can_be_rolled_back(tmp_path):
    with opened(tmp_path / "db") as db:
        apply(db, 1)
        db.restore_batch("kv", pa.array([b"sum"]), pa.array([b"9"]), None, {LOG: 5, OTHER: 7})
        db["totals"].restore(9, {LOG: 5, OTHER: 7})
        db["totals"].add(1)
        fail_next_commit(db, after=False)
        with pytest.raises(OSError, match="full"):
            db.commit({OTHER: 8})
        mend(db)
        db.rollback()
        assert states(db) == (9, 9, 5)
        apply(db, 6)
        assert states(db) == (15, 15, 6)


def test_a_commit_at_the_offset_of_a_restore_moves_nothing(tmp_path):
    """If it failed in the database, the store's undecided commit would look decided."""
    with opened(tmp_path / "db") as db:
        apply(db, 1)
        db.restore_batch("kv", pa.array([b"sum"]), pa.array([b"9"]), None, {LOG: 1, OTHER: 7})
        db["totals"].add(8)
        with pytest.raises(ValueError, match="moves no offset"):
            db.commit({OTHER: 7})
        db.commit({OTHER: 8})
        assert states(db) == (9, 9, 1)


def left_behind(path: Path) -> None:
    """Makes a database that has been opened without its user store, which lacks record 2."""
    with opened(path) as db:
        apply(db, 1)
    with hf.open(path, [hf.stores.key_value("kv")]) as db:
        db["kv"].put(b"sum", b"3")
        db.commit({LOG: 2})


def test_a_store_restored_after_commits_without_it_stays_there(tmp_path):
    left_behind(tmp_path / "db")
    with opened(tmp_path / "db") as db:
        assert states(db) == (3, 1, 1)
        db["totals"].restore(3, {LOG: 2})
        db.rollback()
        assert states(db) == (3, 3, 2)
        db["totals"].add(1)
        fail_next_commit(db, after=False)
        with pytest.raises(OSError, match="full"):
            db.commit({LOG: 3})
        mend(db)
        db.rollback()
        assert states(db) == (3, 3, 2)
    with opened(tmp_path / "db") as db:
        assert states(db) == (3, 3, 2)
        apply(db, 3)
        assert states(db) == (6, 6, 3)


def test_a_store_that_is_behind_its_database_catches_up_by_commits(tmp_path):
    left_behind(tmp_path / "db")
    with opened(tmp_path / "db") as db:
        db["totals"].add(2)
        db.commit({LOG: 2})
        assert states(db) == (3, 3, 2)
    with opened(tmp_path / "db") as db:
        assert states(db) == (3, 3, 2)


def test_a_restored_store_does_not_move_the_record_of_a_store_that_is_behind(tmp_path):
    def both() -> list[TwoStepStore]:
        return [TwoStepStore("totals"), TwoStepStore("others")]

    with opened(tmp_path / "db", *both()) as db:
        db["others"].add(1)
        apply(db, 1)
    with hf.open(tmp_path / "db", [hf.stores.key_value("kv")]) as db:
        db.commit({LOG: 2})
    with opened(tmp_path / "db", *both()) as db:
        db["totals"].restore(3, {LOG: 2})
        db.commit({OTHER: 7})
    with opened(tmp_path / "db", *both()) as db:
        assert (db["totals"].sum, db["others"].sum) == (3, 1)
        assert db.committed_offset(LOG) == 1


def test_the_offset_of_a_restored_partition_can_be_removed(tmp_path):
    with opened(tmp_path / "db") as db:
        apply(db, 1)
        db.restore_batch("kv", pa.array([b"sum"]), pa.array([b"9"]), None, {OTHER: 7})
        db["totals"].restore(9, {LOG: 1, OTHER: 7})
        db.commit({OTHER: None})
        assert db.committed_offset(OTHER) is None
    with opened(tmp_path / "db") as db:
        assert states(db) == (9, 9, 1)


def test_an_interrupt_after_a_restore_does_not_move_the_record_back(tmp_path):
    with opened(tmp_path / "db") as db:
        db.commit({LOG: 1, OTHER: 1})
        core = db._core

        class Interrupted:
            def __getattr__(self, name):
                return getattr(core, name)

            def restore_batch(self, *args):
                core.restore_batch(*args)
                raise KeyboardInterrupt

        db._core = Interrupted()
        with pytest.raises(KeyboardInterrupt):
            db.restore_batch("kv", pa.array([b"sum"]), pa.array([b"9"]), None, {LOG: 5, OTHER: 7})
        db._core = core
        db["totals"].restore(9, {LOG: 5, OTHER: 7})
        apply(db, 6)
    with opened(tmp_path / "db") as db:
        assert states(db) == (15, 15, 6)
        assert db["totals"].committed_offset(OTHER) == 7


@pytest.mark.parametrize("call", ["rollback", "recover"])
@pytest.mark.parametrize("after", [False, True])
def test_after_a_failed_commit_the_store_is_at_the_commit_of_the_database(tmp_path, call, after):
    with opened(tmp_path / "db") as db:
        apply(db, 1)
        fail_next_commit(db, after=after)
        with pytest.raises(OSError, match="full"):
            apply(db, 2)
        mend(db)
        with pytest.raises(hf.errors.HoldfastError, match=r"store totals.*rollback"):
            db.commit({LOG: 2})
        if call == "rollback":
            db.rollback()
        else:
            assert db.recover({LOG: 2}) == {LOG: 2 if after else 1}
        assert states(db) == ((3, 3, 2) if after else (1, 1, 1))
        if not after:
            apply(db, 2)
        apply(db, 3)
        assert states(db) == (6, 6, 3)


@pytest.mark.parametrize("call", ["rollback", "recover"])
@pytest.mark.parametrize("offsets", [{LOG: 2, OTHER: None}, {}])
def test_a_failed_commit_that_removed_offsets_is_the_last_one(tmp_path, call, offsets):
    with opened(tmp_path / "db") as db:
        db["totals"].add(1)
        db["kv"].put(b"sum", b"1")
        db.commit({LOG: 1, OTHER: 1})
        db["totals"].add(2)
        db["kv"].put(b"sum", b"3")
        fail_next_commit(db, after=True)
        with pytest.raises(OSError, match="full"):
            db.commit(offsets)
        mend(db)
        getattr(db, call)(*([] if call == "rollback" else [{LOG: 2}]))
        assert states(db) == (3, 3, offsets.get(LOG))
        assert db.committed_offset(OTHER) is None
        apply(db, 3)
    with opened(tmp_path / "db") as db:
        assert states(db) == (6, 6, 3)


def test_a_failed_commit_without_a_rollback_is_undone_by_the_next_open(tmp_path):
    db = opened(tmp_path / "db")
    apply(db, 1)
    fail_next_commit(db)
    with pytest.raises(OSError, match="full"):
        apply(db, 2)
    db.close()
    with opened(tmp_path / "db") as db:
        assert states(db) == (1, 1, 1)


def test_an_error_of_the_second_store_undoes_the_commit_of_the_first(tmp_path):
    class Refusing(TwoStepStore):
        refuses = False

        def commit(self, changelog_offsets) -> None:
            if self.refuses:
                raise OSError("no space left")
            super().commit(changelog_offsets)

    first, second = TwoStepStore("totals"), Refusing("second")
    with opened(tmp_path / "db", first, second) as db:
        apply(db, 1)
        second.refuses = True
        with pytest.raises(OSError, match="no space"):
            apply(db, 2)
        db.rollback()
        second.refuses = False
        assert states(db) == (1, 1, 1)
        apply(db, 2)
        assert (states(db), second.sum) == ((3, 3, 2), 0)


def test_a_rollback_that_fails_is_repeated_before_the_next_commit(tmp_path):
    class Stuck(TwoStepStore):
        stuck = False

        def rollback(self) -> None:
            if self.stuck:
                raise OSError("network")
            super().rollback()

    store = Stuck("totals")
    with opened(tmp_path / "db", store) as db:
        apply(db, 1)
        store.add(41)
        store.stuck = True
        with pytest.raises(OSError, match="network"):
            db.rollback()
        with pytest.raises(hf.errors.HoldfastError, match="store totals"):
            db.commit({LOG: 2})
        store.stuck = False
        db.rollback()
        db.commit({LOG: 2})
        assert states(db) == (1, 1, 2)


@pytest.mark.parametrize("after_the_database", [True, False])
def test_a_rollback_that_is_interrupted_is_repeated_before_the_next_commit(
    tmp_path, monkeypatch, after_the_database
):
    store = TwoStepStore("totals")
    with opened(tmp_path / "db", store) as db:
        apply(db, 1)
        store.add(41)
        core = InterruptedCore(db._core, rolls_back=after_the_database)
        monkeypatch.setattr(db, "_core", core)
        with pytest.raises(KeyboardInterrupt):
            db.rollback()
        monkeypatch.undo()
        with pytest.raises(hf.errors.HoldfastError, match="store totals"):
            db.commit({LOG: 2})
        db.rollback()
        db.commit({LOG: 2})
        assert states(db) == (1, 1, 2)


KILLED = """
import sys
sys.path.insert(0, sys.argv[4])
from two_step_store import LOG, Steps, apply, opened

folder, record, step = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
db = opened(folder, uncommitted_max_bytes=int(sys.argv[5]))
Steps.kill_at = step
apply(db, record)
print(Steps.passed)
"""


def kill_at(path: Path, record: int, step: int, uncommitted_max_bytes: int) -> int | None:
    """Applies a record in a process that is killed at a step; returns None.

    If the process ends before that step, returns the number of its steps.
    """
    given = path, record, step, Path(__file__).parent, uncommitted_max_bytes
    with running(KILLED, *given) as child:
        out, _ = child.communicate(timeout=60)
    if child.returncode == 0:
        return int(out)
    assert child.returncode == -signal.SIGKILL
    return None


@pytest.mark.parametrize("uncommitted_max_bytes", [64 << 20, 0], ids=["memory", "spilled"])
def test_a_kill_between_any_two_steps_of_a_commit_loses_and_repeats_nothing(
    tmp_path, uncommitted_max_bytes
):
    path, total, step, outcomes = tmp_path / "db", 0, 0, set()
    with opened(path) as db:
        apply(db, 1)
        total = 1
    record, passed = 2, None
    while passed is None:
        passed = kill_at(path, record, step, uncommitted_max_bytes)
        step += 1
        with opened(path) as db:
            built_in, own, offset = states(db)
            assert (built_in, own) in {(total, total), (total + record, total + record)}
            assert offset == (record if own > total else record - 1)
            outcomes.add(own > total)
            if own == total:
                apply(db, record)
            total += record
            record += 1
            assert states(db) == (total, total, record - 1)
    assert passed == step - 1 >= 8
    assert outcomes == {True, False}


def test_a_kill_during_a_recovery_loses_and_repeats_nothing(tmp_path):
    for step in range(3):
        path = tmp_path / f"db{step}"
        with opened(path) as db:
            apply(db, 1)
            fail_next_commit(db)
            with pytest.raises(OSError, match="full"):
                apply(db, 2)
        script = """
        import sys
        sys.path.insert(0, sys.argv[3])
        from two_step_store import Steps, opened
        Steps.kill_at = int(sys.argv[2])
        opened(sys.argv[1])
        """
        with running(script, path, step, Path(__file__).parent) as child:
            child.communicate(timeout=60)
        assert child.returncode == -signal.SIGKILL
        with opened(path) as db:
            assert states(db) == (1, 1, 1)


def test_the_offsets_that_recover_returns_are_checked(tmp_path):
    class Elsewhere(TwoStepStore):
        def recover(self, changelog_offsets):
            super().recover(changelog_offsets)
            return {LOG: 5}

    with opened(tmp_path / "db") as db:
        apply(db, 1)
    wrong = Elsewhere("totals")
    with pytest.raises(hf.errors.StateMismatchError, match=r"store totals.*log 0: 5.*log 0: 1"):
        opened(tmp_path / "db", wrong)
    assert wrong.is_closed
    with opened(tmp_path / "db", Elsewhere("totals"), guarantee=AT_LEAST_ONCE) as db:
        assert db["totals"].sum == 1


def test_a_store_without_data_is_restored_by_the_caller(tmp_path):
    with hf.open(tmp_path / "db", [hf.stores.key_value("kv")]) as db:
        db["kv"].put(b"sum", b"1")
        db.commit({LOG: 1})
    with opened(tmp_path / "db") as db:
        assert states(db) == (1, 0, None)
        db["totals"].restore(1, {LOG: 1})
        assert states(db) == (1, 1, 1)
        apply(db, 2)
    with opened(tmp_path / "db") as db:
        assert states(db) == (3, 3, 2)


def test_a_store_whose_data_was_deleted_cannot_commit_before_it_is_restored(tmp_path):
    with opened(tmp_path / "db") as db:
        db["totals"].add(1)
        db.commit({LOG: 1, OTHER: 1})
        data = db.directory("totals")
    shutil.rmtree(data)
    with opened(tmp_path / "db") as db:
        db["totals"].add(1)
        with pytest.raises(hf.errors.StateMismatchError, match="at log 1: 1, so it cannot commit"):
            db.commit({LOG: 2})
        db.rollback()
        db["totals"].restore(1, {LOG: 1, OTHER: 1})
        db["totals"].add(1)
        db.commit({LOG: 2})
    with opened(tmp_path / "db") as db:
        assert (db["totals"].sum, db.committed_offset(LOG)) == (2, 2)
    shutil.rmtree(data)
    with opened(tmp_path / "db") as db:
        db.commit({})  # A job that begins again
        db["totals"].add(5)
        db.commit({LOG: 1})
    with opened(tmp_path / "db") as db:
        assert (db["totals"].sum, db.committed_offsets()) == (5, {LOG: 1})


def test_commits_of_a_store_that_counts_only_decided_ones_may_set_other_partitions(tmp_path):
    class Decided(TwoStepStore):
        def committed_offset(self, partition) -> int | None:
            return self._load(self.current)[1].get(partition) if self.current.exists() else None

    with opened(tmp_path / "db", Decided()) as db:
        for offsets in ({LOG: 1}, {OTHER: 1}, {LOG: 2}):
            db["totals"].add(1)
            db.commit(offsets)
    with opened(tmp_path / "db", Decided()) as db:
        assert db["totals"].sum == 3
        db["totals"].add(1)
        db.commit({OTHER: 2})


def test_each_commit_must_move_an_offset_under_exactly_once(tmp_path):
    with opened(tmp_path / "db") as db:
        apply(db, 1)
        db["totals"].add(2)
        for offsets in (None, {LOG: 1}, {("other", 0): None}):
            with pytest.raises(ValueError, match=r"moves no offset.*\['totals'\]"):
                db.commit(offsets)
        db.commit({LOG: 2})
        assert db["totals"].sum == 3
        db.commit({})
        assert db.store_offset("totals", LOG) is None
    with opened(tmp_path / "other", guarantee=AT_LEAST_ONCE) as db:
        db["totals"].add(2)
        db.commit()
        db.commit()
        assert db["totals"].sum == 2


def test_the_bytes_of_the_store_count_for_commit_requested(tmp_path):
    store = TwoStepStore("totals")
    with opened(tmp_path / "db", store, uncommitted_max_bytes=1_000) as db:
        assert not db.commit_requested
        before = db.approximate_num_uncommitted_bytes
        store.uncommitted = 400
        assert db.approximate_num_uncommitted_bytes == before + 400
        assert not db.commit_requested
        store.uncommitted = 700
        assert db.commit_requested, "another step of 300 would reach the limit"
        store.uncommitted = 0
        db.commit({LOG: 1})
        assert not db.commit_requested


@pytest.mark.parametrize("lacking", ["recover", "rollback", "approximate_num_uncommitted_bytes"])
def test_a_store_that_lacks_a_member_is_refused_under_exactly_once(tmp_path, lacking):
    unusable = {lacking, "__dict__", "__weakref__"}
    members = {name: it for name, it in vars(TwoStepStore).items() if name not in unusable}
    Hidden = type("Hidden", (), members)  # noqa: N806

    with pytest.raises(ValueError, match=rf"store totals.*{lacking}"):
        opened(tmp_path / "db", Hidden())
    assert not (tmp_path / "db").exists()
    opened(tmp_path / "db", Hidden(), guarantee=AT_LEAST_ONCE).close()


def test_a_database_that_can_lose_a_commit_refuses_the_store_under_exactly_once(tmp_path):
    with pytest.raises(ValueError, match=r"store totals.*CHANGELOG"):
        opened(tmp_path / "db", durability=hf.Durability.CHANGELOG)
    with pytest.raises(ValueError, match=r"store totals.*in memory"):
        hf.open(None, [TwoStepStore("totals")])


def test_a_restore_that_lets_another_store_catch_up_does_not_move_the_user_store(tmp_path):
    stores = [hf.stores.key_value("kv"), hf.stores.key_value("cache", persistent=False)]
    none = pa.array([], pa.binary())
    with hf.open(tmp_path / "db", [*stores, TwoStepStore()]) as db:
        db["totals"].add(1)
        db.commit({LOG: 1})
    with hf.open(tmp_path / "db", stores) as db:
        db.commit({LOG: 5})
    with hf.open(tmp_path / "db", stores) as db:
        db.restore_batch("cache", none, none, None, {LOG: 5, OTHER: 100})
    with hf.open(tmp_path / "db", [*stores, TwoStepStore()]) as db:
        assert (db["totals"].sum, db.store_offset("totals", LOG)) == (1, 1)
