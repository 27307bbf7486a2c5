"""Interrupts (Ctrl-C) of a close of a database with user stores."""

from __future__ import annotations

import pyarrow as pa
import pytest
from one_step_store import OneStepStore
from two_step_store import opened

import holdfast as hf
from holdfast._user_store.attached_stores import AttachedStores

LOG = ("log", 0)


class CountedStore(OneStepStore):
    """A store without offsets of its own that counts its closes."""

    closes = 0

    def __init__(self) -> None:
        super().__init__(manages_offsets=False)

    def close(self) -> None:
        self.closes += 1


def test_a_close_that_is_interrupted_refuses_commits_and_can_be_repeated(tmp_path, monkeypatch):
    """The checkpoint file is written: a later commit would make it too old."""
    db = opened(tmp_path / "db", store := CountedStore())
    store.sum = 3
    db.commit({LOG: 1})
    close = AttachedStores.close

    def closed_and_interrupted(stores: AttachedStores) -> None:
        close(stores)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(AttachedStores, "close", closed_and_interrupted)
        with pytest.raises(KeyboardInterrupt):
            db.close()
    assert db.is_open
    store.sum = 7
    for refused in (
        lambda: db.commit({LOG: 2}),
        db.rollback,
        lambda: db.recover({LOG: 1}),
        lambda: db.restore_batch("kv", pa.array([b"a"]), pa.array([b"1"]), None, {LOG: 2}),
    ):
        with pytest.raises(hf.errors.StoreClosedError, match=r"call close\(\) again"):
            refused()
    db.close()
    assert not db.is_open
    assert store.closes == 1
    with opened(tmp_path / "db", CountedStore()) as db:
        assert (db["simple"].sum, db.store_offset("simple", LOG)) == (3, 1)
        assert db.store_offset("kv", LOG) == 1
