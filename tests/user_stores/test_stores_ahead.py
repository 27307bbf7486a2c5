"""User stores without transactions that have committed more than their database."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from failing_core import fail_next_commit, mend
from one_step_store import OneStepStore
from two_step_store import TwoStepStore, opened

import holdfast as hf
from holdfast import ProcessingGuarantee
from holdfast._user_store import checkpoint_file
from holdfast._user_store.attached import AttachedStore
from processes import running

AT_LEAST_ONCE = ProcessingGuarantee.AT_LEAST_ONCE
LOG, OTHER = ("log", 0), ("other", 0)


def test_a_store_ahead_of_its_database_is_refused_under_exactly_once(tmp_path):
    db = opened(tmp_path / "db", OneStepStore())
    db.commit({LOG: 1})
    fail_next_commit(db)
    with pytest.raises(OSError, match="full"):
        db.commit({LOG: 2})
    mend(db)
    for _ in range(2):
        with pytest.raises(hf.errors.StateMismatchError, match=r"store simple.*not transactional"):
            db.rollback()
        with pytest.raises(hf.errors.HoldfastError, match="store simple"):
            db.commit({LOG: 2})
    db.close()
    with pytest.raises(hf.errors.StateMismatchError, match=r"store simple: it is at offset 2.* 1,"):
        opened(tmp_path / "db", OneStepStore())
    with opened(tmp_path / "db", OneStepStore(), guarantee=AT_LEAST_ONCE) as db:
        assert db.committed_offset(LOG) == 1


@pytest.mark.parametrize("earlier", [[], [OTHER]], ids=["first", "first of its partition"])
def test_a_store_ahead_after_its_first_commit_is_refused_under_exactly_once(tmp_path, earlier):
    db = opened(tmp_path / "db", OneStepStore())
    for partition in earlier:
        db.commit({partition: 1})
    fail_next_commit(db)
    db["simple"].sum = 5
    with pytest.raises(OSError, match="full"):
        db.commit({LOG: 1})
    db.close()
    with opened(tmp_path / "db", OneStepStore()) as db:
        assert db.committed_offset(LOG) is None
        db["kv"].put(b"sum", b"5")
        db["simple"].sum += 5
        for _ in range(2):
            with pytest.raises(
                hf.errors.StateMismatchError, match=r"store simple: it is at offset 1.*no offset"
            ):
                db.commit({LOG: 1})
            db.rollback()
        db.commit({OTHER: 2})
        assert db["kv"].get(b"sum") is None
    with opened(tmp_path / "db", OneStepStore(), guarantee=AT_LEAST_ONCE) as db:
        db.commit({LOG: 1})


def test_an_interrupt_after_a_commit_writes_no_older_checkpoint_file(tmp_path, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    db = opened(tmp_path / "db", OneStepStore(manages_offsets=False))
    db.commit({LOG: 1})
    db["simple"].sum = 3
    with monkeypatch.context() as patch:
        patch.setattr(AttachedStore, "_move_offsets", interrupted)
        with pytest.raises(KeyboardInterrupt):
            db.commit({LOG: 2})
    db.close()
    # The store's files, which are at offset 2, are discarded.
    with opened(tmp_path / "db", OneStepStore(manages_offsets=False)) as db:
        assert (db["simple"].sum, db.store_offset("simple", LOG)) == (0, None)


def test_an_open_that_is_interrupted_keeps_the_store(tmp_path, monkeypatch):
    with opened(tmp_path / "db", OneStepStore(manages_offsets=False)) as db:
        db["simple"].sum = 3
        db.commit({LOG: 1})

    def removed_and_interrupted(file: Path) -> None:
        file.unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_file, "remove", removed_and_interrupted)
        with pytest.raises(KeyboardInterrupt):
            opened(tmp_path / "db", OneStepStore(manages_offsets=False))
    with opened(tmp_path / "db", OneStepStore(manages_offsets=False)) as db:
        assert (db["simple"].sum, db.store_offset("simple", LOG)) == (3, 1)


def test_an_open_that_is_interrupted_at_its_end_keeps_the_store(tmp_path, monkeypatch):
    with opened(tmp_path / "db", OneStepStore(manages_offsets=False)) as db:
        db["simple"].sum = 3
        db.commit({LOG: 1})
    init = hf.Database.__init__

    def opened_and_interrupted(*arguments: object) -> None:
        init(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(hf.Database, "__init__", opened_and_interrupted)
        with pytest.raises(KeyboardInterrupt):
            opened(tmp_path / "db", OneStepStore(manages_offsets=False))
    with opened(tmp_path / "db", OneStepStore(manages_offsets=False)) as db:
        assert (db["simple"].sum, db.store_offset("simple", LOG)) == (3, 1)


def test_a_store_at_the_offset_of_its_restored_database_is_accepted(tmp_path):
    with opened(tmp_path / "db", OneStepStore()) as db:
        keys, values = pa.array([b"sum"]), pa.array([b"5"])
        db.restore_batch("kv", keys, values, None, {LOG: 7})
        db["simple"].restore(5, {LOG: 7})
        db.commit({LOG: 8})
    with opened(tmp_path / "db", OneStepStore()) as db:
        assert db.committed_offset(LOG) == 8
    with opened(tmp_path / "other", OneStepStore()) as db:
        db.restore_batch("kv", keys, values, None, {LOG: 7})
        db["simple"].restore(5, {LOG: 8})
        with pytest.raises(hf.errors.StateMismatchError, match=r"it is at offset 8.* 7,"):
            db.commit({LOG: 9})


def test_a_store_at_the_offset_of_its_database_is_accepted_after_opens_without_it(tmp_path):
    with opened(tmp_path / "db", OneStepStore()) as db:
        db.commit({LOG: 1})
    with hf.open(tmp_path / "db", [hf.stores.key_value("kv")]) as db:
        db.commit({LOG: 5})
    with opened(tmp_path / "db", OneStepStore()) as db:
        assert db.committed_offset(LOG) == 1
        db["simple"].restore(5, {LOG: 5})
    with opened(tmp_path / "db", OneStepStore()) as db:
        assert db.committed_offset(LOG) == 5


def test_an_added_store_that_is_ahead_is_refused_by_the_open(tmp_path):
    with hf.open(tmp_path / "db", [hf.stores.key_value("kv")]) as db:
        db.commit({LOG: 5})
    with opened(tmp_path / "db", OneStepStore()) as db:
        db["simple"].restore(5, {LOG: 6})
    with pytest.raises(hf.errors.StateMismatchError, match=r"store simple: it is at offset 6.* 5,"):
        opened(tmp_path / "db", OneStepStore())


def test_a_store_added_beside_another_one_that_is_ahead_is_refused(tmp_path):
    with opened(tmp_path / "db") as db:
        db.commit({LOG: 1})
    db = opened(tmp_path / "db", TwoStepStore(), OneStepStore())
    fail_next_commit(db)
    with pytest.raises(OSError, match="full"):
        db.commit({LOG: 2})
    db.close()
    with pytest.raises(hf.errors.StateMismatchError, match=r"store simple: it is at offset 2.* 1,"):
        opened(tmp_path / "db", TwoStepStore(), OneStepStore())


def test_an_added_store_is_compared_with_the_offsets_that_a_store_in_memory_has_lost(tmp_path):
    cache = hf.stores.key_value("cache", persistent=False)
    with opened(tmp_path / "db", TwoStepStore(), cache) as db:
        db.commit({LOG: 5})
    with opened(tmp_path / "db", TwoStepStore(), OneStepStore(), cache) as db:
        db["simple"].restore(5, {LOG: 5})
    with opened(tmp_path / "db", TwoStepStore(), OneStepStore(), cache) as db:
        db["simple"].restore(6, {LOG: 6})
    with pytest.raises(hf.errors.StateMismatchError, match=r"store simple: it is at offset 6.* 5,"):
        opened(tmp_path / "db", TwoStepStore(), OneStepStore(), cache)


def test_a_checkpoint_file_with_offsets_that_its_database_lacks_is_refused(tmp_path):
    opened(tmp_path / "db", OneStepStore(manages_offsets=False)).close()
    (tmp_path / "db" / ".checkpoint_simple").write_text("0\n1\nlog 0 100\n")
    with pytest.raises(
        hf.errors.StateMismatchError, match=r"store simple: it is at offset 100.*no offset"
    ):
        opened(tmp_path / "db", OneStepStore(manages_offsets=False))


def test_a_store_that_is_ahead_opens_without_data_after_its_folder_is_deleted(tmp_path):
    with opened(tmp_path / "db", OneStepStore(manages_offsets=False)) as db:
        db.commit({LOG: 10})
    (tmp_path / "db" / ".checkpoint_simple").write_text("0\n1\nlog 0 20\n")
    with pytest.raises(hf.errors.StateMismatchError, match=r"at offset 20.*\.checkpoint_simple"):
        opened(tmp_path / "db", OneStepStore(manages_offsets=False))
    shutil.rmtree(tmp_path / "db" / "simple")
    with opened(tmp_path / "db", OneStepStore(manages_offsets=False)) as db:
        assert (db.store_offset("simple", LOG), db.committed_offset(LOG)) == (None, None)


@pytest.mark.parametrize("guarantee", list(ProcessingGuarantee))
def test_a_store_whose_folder_was_deleted_has_no_offsets(tmp_path, guarantee, caplog):
    with opened(tmp_path / "db", OneStepStore(manages_offsets=False)) as db:
        db.commit({LOG: 10})
    shutil.rmtree(tmp_path / "db" / "simple")
    with opened(tmp_path / "db", OneStepStore(manages_offsets=False), guarantee=guarantee) as db:
        assert (db.store_offset("simple", LOG), db.committed_offset(LOG)) == (None, None)
        assert "store simple: its folder is missing" in caplog.text
    with opened(tmp_path / "db", OneStepStore(manages_offsets=False)) as db:
        assert db.store_offset("simple", LOG) is None


def test_an_open_that_fails_does_not_give_a_new_folder_the_offsets_of_a_deleted_one(tmp_path):
    class Failing(OneStepStore):
        def init(self, db: hf.Database) -> None:
            super().init(db)
            raise OSError("no model server")

    with opened(tmp_path / "db", OneStepStore(manages_offsets=False)) as db:
        db.commit({LOG: 10})
    shutil.rmtree(tmp_path / "db" / "simple")
    with pytest.raises(OSError, match="no model server"):
        opened(tmp_path / "db", Failing(manages_offsets=False))
    with opened(tmp_path / "db", OneStepStore(manages_offsets=False)) as db:
        assert db.store_offset("simple", LOG) is None


def test_a_store_whose_disk_is_not_mounted_keeps_its_offsets(tmp_path):
    folder, disk, unmounted = (tmp_path / name for name in ("db/simple", "disk", "unmounted"))
    with opened(tmp_path / "db", OneStepStore(manages_offsets=False)) as db:
        db.commit({LOG: 10})
    folder.rename(unmounted)
    folder.symlink_to(disk)
    with pytest.raises(OSError, match="simple"):
        opened(tmp_path / "db", OneStepStore(manages_offsets=False))
    unmounted.rename(disk)
    with opened(tmp_path / "db", OneStepStore(manages_offsets=False)) as db:
        assert db.store_offset("simple", LOG) == 10


def test_a_store_without_a_folder_has_its_offsets(tmp_path):
    class Elsewhere(OneStepStore):
        def init(self, db: hf.Database) -> None:
            self.file = tmp_path / "sum"

    with opened(tmp_path / "db", Elsewhere(manages_offsets=False)) as db:
        db.commit({LOG: 10})
    with opened(tmp_path / "db", Elsewhere(manages_offsets=False)) as db:
        assert db.committed_offset(LOG) == 10


STOPPED = """
sys.path.insert(0, sys.argv[2])
from one_step_store import OneStepStore
from two_step_store import TwoStepStore, opened

class Core:
    def __init__(self, core):
        self.core = core
    def __getattr__(self, name):
        if name == sys.argv[3]:
            os._exit(9)
        return getattr(self.core, name)

db = opened(sys.argv[1], OneStepStore(manages_offsets=False), durability=hf.Durability.CHANGELOG)
db["kv"].put(b"sum", b"5")
db["simple"].sum = 5
db.commit({("log", 0): 100})
db._core = db._user_stores._core = Core(db._core)
db.close()
"""


@pytest.mark.parametrize("step", ["flush", "close"])
def test_a_kill_during_a_close_does_not_leave_the_store_ahead_of_its_database(tmp_path, step):
    with running(STOPPED, tmp_path / "db", Path(__file__).parent, step) as process:
        process.communicate(timeout=60)
    assert process.returncode == 9
    store = OneStepStore(manages_offsets=False)
    with opened(tmp_path / "db", store, durability=hf.Durability.CHANGELOG) as db:
        at = db.store_offset("kv", LOG)
        assert db.store_offset("simple", LOG) == at
        assert store.sum == int(db["kv"].get(b"sum") or b"0") == (5 if at == 100 else 0)
