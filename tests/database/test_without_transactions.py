"""Stores without transactions, and their state after an unclean stop."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pytest

import holdfast as hf
from holdfast import IsolationLevel, ProcessingGuarantee

COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
ONCE, AT_LEAST_ONCE = ProcessingGuarantee.EXACTLY_ONCE, ProcessingGuarantee.AT_LEAST_ONCE


def opened(path, *, transactional=False, persistent=True, **options):
    stores = [
        hf.stores.key_value("direct", transactional=transactional, persistent=persistent),
        hf.stores.versioned(
            "history", history_retention=1000, transactional=transactional, persistent=persistent
        ),
        hf.stores.key_value("staged"),
    ]
    return hf.open(path, stores, **options)


def crash(
    path: Path, *, transactional: bool = False, guarantee: ProcessingGuarantee = ONCE
) -> None:
    """Another process writes, commits, writes again and dies."""
    script = f"""
        import os
        import holdfast as hf
        stores = [hf.stores.key_value("direct", transactional={transactional}),
                  hf.stores.versioned("history", history_retention=1000,
                  transactional={transactional}),
                  hf.stores.key_value("staged")]
        guarantee = hf.ProcessingGuarantee.{guarantee.name}
        db = hf.open({str(path)!r}, stores, processing_guarantee=guarantee)
        for name in ("direct", "staged"):
            db[name].put(b"k", b"1")
        db["history"].put(b"k", b"1", 5)
        db.commit({{("log", 0): 7}})
        for name in ("direct", "staged"):
            db[name].put(b"k", b"2")
        os.kill(os.getpid(), 9)
    """
    assert (
        subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False).returncode
        == -9
    )


@pytest.mark.parametrize("persistent", [True, False], ids=["files", "memory"])
def test_a_direct_write_is_visible_at_both_levels_and_survives_a_rollback(tmp_path, persistent):
    with opened(tmp_path / "db", persistent=persistent) as db:
        direct, history, staged = db["direct"], db["history"], db["staged"]
        staged.put(b"k", b"v")
        direct.put(b"k", b"v")
        direct.put_batch(pa.array([b"l"]), pa.array([b"w"]))
        assert history.put(b"k", b"v", 5).accepted
        assert history.put(b"k", b"w", 3).valid_to == 5
        for level in (COMMITTED, UNCOMMITTED):
            assert [value for _, value in direct.read_only(level).range()] == [b"v", b"w"]
            assert history.read_only(level).get(b"k", as_of=4).value == b"w"
            assert history.read_only(level).stream_time == 5
        assert staged.read_only(COMMITTED).get(b"k") is None
        assert (direct.transactional, staged.transactional) == (False, True)
        db.rollback()
        assert (direct.get(b"k"), history.get(b"k").value, staged.get(b"k")) == (b"v", b"v", None)
        assert direct.delete(b"k") == b"v"
        assert direct.read_only(COMMITTED).get(b"k") is None


def test_direct_writes_are_not_counted_as_uncommitted(tmp_path):
    with opened(tmp_path / "db") as db:
        db["direct"].put(b"k", b"v" * 1000)
        before = db.approximate_num_uncommitted_bytes
        db["direct"].put_batch(pa.array([b"l"] * 100), pa.array([b"v" * 1000] * 100))
        assert db.approximate_num_uncommitted_bytes == before == 0


def test_a_clean_close_preserves_the_store_and_its_offsets(tmp_path):
    with opened(tmp_path / "db") as db:
        db["direct"].put(b"k", b"v")
        db.commit({("log", 0): 7})
    for transactional in (True, False, True):
        with opened(tmp_path / "db", transactional=transactional) as db:
            assert db["direct"].get(b"k") == b"v"
            assert db["direct"].committed_offset(("log", 0)) == 7


def test_an_unclean_stop_discards_only_that_store_under_exactly_once(tmp_path):
    crash(tmp_path / "db")
    with opened(tmp_path / "db") as db:
        assert db["direct"].get(b"k") is None
        assert db["history"].get(b"k") is None
        assert db["history"].stream_time is None
        assert db["staged"].get(b"k") == b"1"
        assert db["direct"].committed_offset(("log", 0)) is None
        assert db["staged"].committed_offset(("log", 0)) == 7
        db.restore_batch("direct", pa.array([b"k"]), pa.array([b"1"]), None, {("log", 0): 7})
    with opened(tmp_path / "db") as db:
        assert db["direct"].get(b"k") == b"1"


def test_an_open_with_another_serde_changes_nothing(tmp_path):
    def typed(serde, retention):
        return [
            hf.stores.key_value("direct", transactional=False),
            hf.stores.versioned("history", history_retention=retention, transactional=False),
            hf.stores.key_value("staged", value=serde),
        ]

    with hf.open(tmp_path / "db", typed(hf.serde.STRING, 1000)):
        pass
    crash(tmp_path / "db")
    stores = typed(hf.serde.STRING, 1000)
    with hf.open(tmp_path / "db", stores, processing_guarantee=AT_LEAST_ONCE) as db:
        db["history"].put(b"k", b"2", 900)
    crash(tmp_path / "db")
    with pytest.raises(ValueError, match="staged"):
        hf.open(tmp_path / "db", typed(hf.serde.INT64, 10))
    with hf.open(tmp_path / "db", stores, processing_guarantee=AT_LEAST_ONCE) as db:
        assert db["direct"].get(b"k") == b"2"
        assert db["history"].get(b"k").value == b"2"
        # A shorter retention that the failed open had recorded would make this read expired.
        assert db["history"].get(b"k", as_of=5).value == b"1"


def test_an_open_that_fails_discards_no_store(tmp_path):
    crash(tmp_path / "db")
    stores = [
        hf.stores.key_value("direct", transactional=False),
        hf.stores.versioned("staged", history_retention=1000),
    ]
    with pytest.raises(ValueError, match="staged"):
        hf.open(tmp_path / "db", stores)
    with opened(tmp_path / "db", processing_guarantee=AT_LEAST_ONCE) as db:
        assert db["direct"].get(b"k") == b"2"
        assert db["direct"].committed_offset(("log", 0)) == 7


def test_a_close_after_uncommitted_direct_writes_is_an_unclean_stop(tmp_path):
    stores = [
        hf.stores.key_value("written", transactional=False),
        hf.stores.key_value("unchanged", transactional=False),
    ]

    def write_and_fail() -> None:
        with hf.open(tmp_path / "db", stores) as db:
            for name in ("written", "unchanged"):
                db[name].put(b"k", b"1")
            db.commit({("log", 0): 7})
            db["written"].put(b"k", b"2")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_and_fail()
    with hf.open(tmp_path / "db", stores) as db:
        written, unchanged = db["written"], db["unchanged"]
        assert (written.get(b"k"), written.committed_offset(("log", 0))) == (None, None)
        assert (unchanged.get(b"k"), unchanged.committed_offset(("log", 0))) == (b"1", 7)


@pytest.mark.parametrize("rows", [4, 40_000], ids=["memory", "spilled"])
def test_a_restore_of_another_store_does_not_commit_direct_writes(tmp_path, rows):
    spills = {"transaction_mechanism": hf.TransactionMechanism.SECONDARY_STORE}
    with opened(tmp_path / "db", **spills) as db:
        db["direct"].put(b"k", b"5")
        db.commit({("log", 0): 5})
        db["direct"].put(b"k", b"6")
        keys = pa.array([b"%08d" % number for number in range(rows)])
        values = pa.array([b"v" * 100] * rows)
        db.restore_batch("staged", keys, values, None, {("log", 0): 7})
    with opened(tmp_path / "db", **spills) as db:
        assert db["direct"].get(b"k") is None
        assert db["direct"].committed_offset(("log", 0)) is None
        assert db["staged"].committed_offset(("log", 0)) == 7


def test_a_close_after_uncommitted_direct_writes_is_clean_without_offsets(tmp_path):
    for value in (b"1", b"2"):
        with opened(tmp_path / "db") as db:
            db["direct"].put(b"k", value)
        with opened(tmp_path / "db") as db:
            assert db["direct"].get(b"k") == value


def test_an_unclean_stop_discards_rows_that_were_written_before_the_store_had_timestamps(tmp_path):
    script = f"""
        import os
        import holdfast as hf
        store = hf.stores.key_value("direct", transactional=False)
        db = hf.open({str(tmp_path / "db")!r}, [store])
        db["direct"].put(b"k", b"half")
        os.kill(os.getpid(), 9)
    """
    assert (
        subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False).returncode
        == -9
    )
    with hf.open(
        tmp_path / "db", [hf.stores.timestamped_key_value("direct", transactional=False)]
    ) as db:
        assert list(db["direct"].range()) == []


def test_a_checkpoint_is_an_unclean_stop_since_it_may_hold_more_than_the_last_commit(tmp_path):
    with opened(tmp_path / "db") as db:
        for name in ("direct", "staged"):
            db[name].put(b"k", b"1")
        db.commit({("log", 0): 7})
        db["direct"].put(b"k", b"2")
        db.checkpoint(tmp_path / "copy")
    with opened(tmp_path / "copy") as db:
        assert (db["direct"].get(b"k"), db["staged"].get(b"k")) == (None, b"1")
        assert db["direct"].committed_offset(("log", 0)) is None


def test_an_unclean_stop_preserves_the_store_under_at_least_once(tmp_path):
    crash(tmp_path / "db", guarantee=AT_LEAST_ONCE)
    with opened(tmp_path / "db", processing_guarantee=AT_LEAST_ONCE) as db:
        assert db["direct"].get(b"k") == b"2"
        assert db["direct"].committed_offset(("log", 0)) == 7


def test_t19_an_unclean_stop_is_detected_even_if_the_store_is_transactional_now(tmp_path):
    crash(tmp_path / "db")
    for _ in range(2):
        with pytest.raises(hf.errors.StateMismatchError, match="transactional=False"):
            opened(tmp_path / "db", transactional=True)
    with opened(tmp_path / "db") as db:
        assert db["direct"].get(b"k") is None
    with opened(tmp_path / "db", transactional=True) as db:
        assert db["staged"].get(b"k") == b"1"


def test_t19_a_crash_of_transactional_stores_leaves_no_marker(tmp_path):
    crash(tmp_path / "db", transactional=True)
    with opened(tmp_path / "db", transactional=True) as db:
        assert db["direct"].get(b"k") == b"1"


@pytest.mark.parametrize("transactional", [True, False])
def test_exactly_once_requires_a_clean_close(tmp_path, transactional):
    crash(tmp_path / "db", transactional=transactional, guarantee=AT_LEAST_ONCE)
    with pytest.raises(hf.errors.StateMismatchError, match="at-least-once"):
        opened(tmp_path / "db", transactional=transactional)
    opened(tmp_path / "db", transactional=transactional, processing_guarantee=AT_LEAST_ONCE).close()
    with opened(tmp_path / "db", transactional=transactional) as db:
        assert db["staged"].get(b"k") == b"1"


def test_a_store_made_in_files_cannot_be_opened_in_memory(tmp_path):
    opened(tmp_path / "db").close()
    with pytest.raises(ValueError, match="made in files"):
        opened(tmp_path / "db", persistent=False)


def test_a_database_in_memory_leaves_no_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with opened(None) as db:
        db["staged"].put(b"k", b"v")
        db.commit({("log", 0): 7})
        assert not db["staged"].persistent
        assert db.committed_offset(("log", 0)) == 7
        with pytest.raises(hf.errors.UnsupportedOperationError, match="in memory"):
            db.checkpoint(tmp_path / "copy")
        rows = db["staged"].range()
    with pytest.raises(hf.errors.StoreClosedError):
        db["staged"].get(b"k")
    with pytest.raises(hf.errors.StoreClosedError):
        next(rows)
    assert list(tmp_path.iterdir()) == []
