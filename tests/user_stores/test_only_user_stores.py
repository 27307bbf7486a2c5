"""Databases that are opened with user stores only, also between opens with built-in stores."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from failing_core import fail_next_commit, mend
from one_step_store import OneStepStore
from two_step_store import LOG, TwoStepStore

import holdfast as hf

NONE = pa.array([], pa.binary())


def opened(path: Path, *stores: object, kv: bool = False) -> hf.Database:
    """Opens the database with user stores, and with a key-value store if `kv` is true."""
    return hf.open(path, [hf.stores.key_value("kv")] * kv + list(stores))


def without_own_offsets() -> OneStepStore:
    return OneStepStore(manages_offsets=False)


STORES = pytest.mark.parametrize("store", [TwoStepStore, OneStepStore, without_own_offsets])


def at(db: hf.Database) -> int | None:
    """The database's offset, which is the same by each method."""
    offset = db.committed_offset(LOG)
    wanted = {} if offset is None else {LOG: offset}
    assert db.committed_offsets() == db.recover({LOG: 0}) == wanted
    return offset


@STORES
def test_the_offset_is_that_of_the_store_after_commits_with_a_built_in_store(tmp_path, store):
    with opened(tmp_path / "db", store(), kv=True) as db:
        db.commit({LOG: 20})
    with opened(tmp_path / "db", store()) as db:
        assert at(db) == 20
        db.commit({LOG: 21})
        assert at(db) == 21


@STORES
def test_an_older_offset_without_built_in_stores_does_not_return(tmp_path, store):
    with opened(tmp_path / "db", store()) as db:
        db.commit({LOG: 10})
    with opened(tmp_path / "db", store(), kv=True) as db:
        db.restore_batch("kv", NONE, NONE, None, {LOG: 10})
        db.commit({LOG: 20})
    with opened(tmp_path / "db", store()) as db:
        assert at(db) == 20


@STORES
def test_a_commit_that_moves_backwards_is_the_offset(tmp_path, store):
    with opened(tmp_path / "db", store()) as db:
        db.commit({LOG: 30})
    with opened(tmp_path / "db", store(), kv=True) as db:
        db.commit({LOG: 10})
    with opened(tmp_path / "db", store()) as db:
        assert at(db) == 10
        db.commit({LOG: 5})
        assert at(db) == 5


def test_a_partition_that_was_removed_beside_a_built_in_store_is_new_again(tmp_path):
    with opened(tmp_path / "db", TwoStepStore()) as db:
        db.commit({LOG: 10})
    with opened(tmp_path / "db", TwoStepStore(), kv=True) as db:
        db.commit({LOG: None})
    with opened(tmp_path / "db", TwoStepStore()) as db:
        assert at(db) is None
        db.commit({LOG: 10})
        assert at(db) == 10


def test_the_offset_is_the_least_of_the_stores(tmp_path):
    with opened(tmp_path / "db", TwoStepStore(), without_own_offsets()) as db:
        db.commit({LOG: 1})
    with opened(tmp_path / "db", TwoStepStore()) as db:
        db.commit({LOG: 2})
    with opened(tmp_path / "db", TwoStepStore(), without_own_offsets()) as db:
        assert at(db) == 1
    with opened(tmp_path / "db", TwoStepStore(), TwoStepStore("new")) as db:
        assert at(db) is None


def test_a_store_that_is_added_to_the_others_stays_at_the_offset_of_its_restore(tmp_path):
    with opened(tmp_path / "db", TwoStepStore()) as db:
        db.commit({LOG: 10})
    with opened(tmp_path / "db", TwoStepStore(), kv=True) as db:
        db.commit({LOG: 20})
    stores = TwoStepStore(), TwoStepStore("new")
    with opened(tmp_path / "db", *stores) as db:
        db["new"].restore(5, {LOG: 20})
    with opened(tmp_path / "db", *stores) as db:
        assert (at(db), db["new"].sum) == (20, 5)


@STORES
@pytest.mark.parametrize("after", [False, True])
def test_a_commit_that_failed_counts_only_if_the_database_has_it(tmp_path, store, after):
    with opened(tmp_path / "db", store()) as db:
        db.commit({LOG: 1})
        fail_next_commit(db, after=after)
        with pytest.raises(OSError, match="full"):
            db.commit({LOG: 2})
        mend(db)
        assert db.committed_offset(LOG) == (2 if after else 1)
        assert db.committed_offsets() == {LOG: 2 if after else 1}


def test_a_first_commit_that_failed_does_not_count(tmp_path):
    with opened(tmp_path / "db", TwoStepStore()) as db:
        fail_next_commit(db)
        with pytest.raises(OSError, match="full"):
            db.commit({LOG: 2})
        mend(db)
        assert db.committed_offset(LOG) is None
        db.rollback()
        assert at(db) is None


def test_a_greater_offset_of_a_closed_store_does_not_hide_that_a_store_is_ahead(tmp_path):
    closed = TwoStepStore()
    closed.name = "closed"
    with opened(tmp_path / "db", OneStepStore(), TwoStepStore(), closed) as db:
        db.commit({LOG: 100})
    with opened(tmp_path / "db", OneStepStore(), TwoStepStore()) as db:
        db.commit({LOG: 5})
        ahead = OneStepStore()
        ahead.init(db)
        ahead.commit({LOG: 6})  # and the process is killed before the database commits
    with pytest.raises(hf.errors.StateMismatchError, match="it is at offset 6"):
        opened(tmp_path / "db", OneStepStore(), TwoStepStore())
