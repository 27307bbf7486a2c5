"""User stores, and their offsets in text files."""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
from pathlib import Path

import pytest

import holdfast as hf
from holdfast import ProcessingGuarantee
from holdfast.errors import StateMismatchError

LOG = ("log", 0)
ONCE, AT_LEAST_ONCE = ProcessingGuarantee.EXACTLY_ONCE, ProcessingGuarantee.AT_LEAST_ONCE


class Totals:
    """A store in one JSON file."""

    persistent = True
    transactional = False

    def __init__(self, name: str = "totals", *, manages_offsets: bool = False) -> None:
        self.name = name
        self.manages_offsets = manages_offsets
        self.totals: dict[str, int] = {}
        self.offsets: dict[str, int] = {}
        self.fails = False

    def init(self, db: hf.Database) -> None:
        self.file = db.directory(self.name) / "totals.json"
        if self.file.exists():
            self.totals, self.offsets = json.loads(self.file.read_text())

    def commit(self, changelog_offsets) -> None:
        if self.fails:
            raise OSError("no space left")
        for (topic, partition), offset in (changelog_offsets or {}).items():
            self.offsets[f"{topic} {partition}"] = offset
        self.file.write_text(json.dumps([self.totals, self.offsets]))

    def committed_offset(self, partition) -> int | None:
        return self.offsets.get(f"{partition[0]} {partition[1]}")

    def close(self) -> None:
        self.totals = {}


def opened(path: Path, store: Totals, guarantee: ProcessingGuarantee = ONCE) -> hf.Database:
    return hf.open(path, [hf.stores.key_value("kv"), store], processing_guarantee=guarantee)


@pytest.mark.parametrize("manages_offsets", [True, False])
@pytest.mark.parametrize("guarantee", [ONCE, AT_LEAST_ONCE])
def test_a_user_store_commits_with_the_database_and_survives_a_clean_close(
    tmp_path, manages_offsets, guarantee
):
    with opened(tmp_path / "db", Totals(manages_offsets=manages_offsets), guarantee) as db:
        assert db.store_names() == ["kv", "totals"]
        db["totals"].totals["a"] = 1
        db["kv"].put(b"a", b"1")
        db.commit({LOG: 7})
        assert db.committed_offset(LOG) == 7
    with opened(tmp_path / "db", Totals(manages_offsets=manages_offsets), guarantee) as db:
        assert db["totals"].totals == {"a": 1}
        assert db.store_offset("totals", LOG) == 7
        assert db.committed_offset(LOG) == 7


def test_one_warning_for_a_store_that_does_not_manage_its_offsets(tmp_path, caplog):
    caplog.set_level(logging.WARNING, "holdfast")
    for _ in range(2):
        opened(tmp_path / "db", Totals("warned")).close()
        opened(tmp_path / "other", Totals("quiet", manages_offsets=True)).close()
    assert [record.message.split(":")[0] for record in caplog.records] == ["store warned"]


def crash(path: Path, guarantee: ProcessingGuarantee) -> None:
    """Leaves an unclean stop: the engine is closed, but not the user store."""
    db = opened(path, Totals(), guarantee)
    db["totals"].totals["a"] = 1
    db["kv"].put(b"a", b"1")
    db.commit({LOG: 7})
    db._core.close()


def test_an_unclean_stop_discards_its_state_under_exactly_once(tmp_path):
    crash(tmp_path / "db", ONCE)
    assert not (tmp_path / "db" / ".checkpoint_totals").exists()
    with opened(tmp_path / "db", Totals()) as db:
        assert db["totals"].totals == {}
        assert db.store_offset("totals", LOG) is None
        assert db.store_offset("kv", LOG) == 7
        assert db.committed_offset(LOG) is None


def test_a_store_that_no_longer_manages_its_offsets_is_discarded_with_the_reason(tmp_path, caplog):
    with opened(tmp_path / "db", Totals(manages_offsets=True)) as db:
        db["totals"].totals["a"] = 1
        db.commit({LOG: 7})
    with opened(tmp_path / "db", Totals()) as db:
        assert db["totals"].totals == {}
    assert "the store managed its offsets itself before" in caplog.text
    with opened(tmp_path / "db", Totals()):
        pass
    assert caplog.text.count("discarded") == 1


@pytest.mark.parametrize("guarantee", [ONCE, AT_LEAST_ONCE])
def test_a_store_that_managed_its_offsets_for_a_while_loses_its_old_file(tmp_path, guarantee):
    opened(tmp_path / "db", Totals(), guarantee).close()
    assert (tmp_path / "db" / ".checkpoint_totals").exists()
    with opened(tmp_path / "db", Totals(manages_offsets=True), guarantee) as db:
        db["totals"].totals["a"] = 1
        db.commit({LOG: 20})
    assert not (tmp_path / "db" / ".checkpoint_totals").exists()
    # The store's folder is at an offset that the database does not know: it is discarded.
    with opened(tmp_path / "db", Totals()) as db:
        assert (db["totals"].totals, db.store_offset("totals", LOG)) == ({}, None)


class WithoutFolder(Totals):
    """A store whose data is not in the database's directory."""

    def init(self, db: hf.Database) -> None:
        self.file = db.directory("kv").parent.parent / "totals.json"


def test_a_store_that_managed_its_offsets_for_a_while_has_no_mark_of_its_folder(tmp_path):
    opened(tmp_path / "db", Totals(), AT_LEAST_ONCE).close()
    mark = tmp_path / "db" / ".folder_totals"
    assert mark.exists()
    opened(tmp_path / "db", Totals(manages_offsets=True), AT_LEAST_ONCE).close()
    assert not mark.exists()
    shutil.rmtree(tmp_path / "db" / "totals")
    # The store does not use its folder, so a deleted folder does not concern its offsets.
    with opened(tmp_path / "db", WithoutFolder(), AT_LEAST_ONCE) as db:
        db.commit({LOG: 7})
    with opened(tmp_path / "db", WithoutFolder(), AT_LEAST_ONCE) as db:
        assert db.store_offset("totals", LOG) == 7


def test_a_store_whose_file_and_folder_were_deleted_has_no_mark_of_its_folder(tmp_path):
    opened(tmp_path / "db", Totals(), AT_LEAST_ONCE).close()
    shutil.rmtree(tmp_path / "db" / "totals")
    (tmp_path / "db" / ".checkpoint_totals").unlink()
    with opened(tmp_path / "db", WithoutFolder(), AT_LEAST_ONCE) as db:
        db.commit({LOG: 7})
    with opened(tmp_path / "db", WithoutFolder(), AT_LEAST_ONCE) as db:
        assert db.store_offset("totals", LOG) == 7


def test_the_folder_of_a_discarded_store_may_be_a_link(tmp_path, caplog):
    crash(tmp_path / "db", ONCE)
    link, disk = tmp_path / "db" / "totals", tmp_path / "disk"
    link.rename(disk)
    link.symlink_to(disk)
    for _ in range(2):
        with opened(tmp_path / "db", Totals()) as db:
            assert (db["totals"].totals, db.store_offset("totals", LOG)) == ({}, None)
    assert link.is_dir()
    assert not link.is_symlink()
    assert (disk / "totals.json").exists()
    assert f"its folder was a link to {disk}, which stays as it is" in caplog.text


def test_a_folder_that_is_a_mount_point_is_emptied(tmp_path, monkeypatch):
    crash(tmp_path / "db", ONCE)
    rmdir = os.rmdir

    def busy(path, **options):
        if Path(path).name == "totals":
            raise OSError(errno.EBUSY, "busy")
        rmdir(path, **options)

    monkeypatch.setattr(os, "rmdir", busy)
    with opened(tmp_path / "db", Totals()) as db:
        assert (db["totals"].totals, db.store_offset("totals", LOG)) == ({}, None)


@pytest.mark.parametrize("is_new", [True, False])
def test_files_that_are_not_the_stores_are_not_deleted(tmp_path, is_new):
    folder = tmp_path / "db" / "totals"
    if not is_new:
        hf.open(tmp_path / "db", [hf.stores.key_value("kv")]).close()
    folder.mkdir(parents=True)
    (folder / "precious").touch()
    for _ in range(2):
        with pytest.raises(
            StateMismatchError, match="may not be its own.*move them to another place"
        ):
            opened(tmp_path / "db", Totals())
    (folder / "precious").rename(tmp_path / "precious")
    with opened(tmp_path / "db", Totals()) as db:
        db.commit({LOG: 1})


def test_an_unclean_stop_preserves_the_store_under_at_least_once(tmp_path):
    crash(tmp_path / "db", AT_LEAST_ONCE)
    with opened(tmp_path / "db", Totals(), AT_LEAST_ONCE) as db:
        assert db["totals"].totals == {"a": 1}
        assert db.store_offset("totals", LOG) == 7


def test_a_discarded_store_leaves_its_database_without_offsets(tmp_path):
    crash(tmp_path / "db", ONCE)
    with opened(tmp_path / "db", Totals()) as db:
        assert db.committed_offsets() == {}
        assert db.recover({LOG: 7}) == {}


def test_a_failed_open_is_not_an_unclean_stop(tmp_path):
    class Failing(Totals):
        def init(self, db: hf.Database) -> None:
            raise OSError("network")

    with opened(tmp_path / "db", Totals()) as db:
        db["totals"].totals["a"] = 1
        db.commit({LOG: 7})
    with pytest.raises(OSError, match="network"):
        opened(tmp_path / "db", Failing())
    with opened(tmp_path / "db", Totals()) as db:
        assert db["totals"].totals == {"a": 1}
        assert db.committed_offset(LOG) == 7


@pytest.mark.parametrize("name", ["", ".", "..", "../precious", "a/b", "+commit", "a\\b", "a\0", 7])
def test_a_name_that_folders_cannot_have_is_refused(tmp_path, name):
    (tmp_path / "precious").mkdir()
    with pytest.raises(ValueError, match="a user store's name is"):
        opened(tmp_path / "db", Totals(name))
    assert (tmp_path / "precious").is_dir()


def test_an_error_of_a_user_store_fails_the_commit(tmp_path):
    with opened(tmp_path / "db", Totals()) as db:
        db["totals"].fails = True
        db["kv"].put(b"a", b"1")
        with pytest.raises(OSError, match="no space"):
            db.commit({LOG: 7})
        db.rollback()
        db["totals"].fails = False
        assert db["kv"].get(b"a") is None
        assert db.committed_offset(LOG) is None


def test_an_invalid_store_is_refused_with_the_wanted_types(tmp_path):
    with pytest.raises((TypeError, AttributeError), match="name|UserStateStore"):
        hf.open(tmp_path / "db", [object()])
    named = type("Named", (), {"name": "n"})()
    with pytest.raises(TypeError, match="holdfast.UserStateStore"):
        hf.open(tmp_path / "db", [named])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("1\n0\n", 1),
        ("0\n", 2),
        ("0\ntwo\n", 2),
        ("0\n2\nlog 0 41\n", 2),
        ("0\n1\nlog 0 41 9\n", 3),
        ("0\n2\nlog 0 41\nlog one 7\n", 4),
        ("0\n1\nlog 0 \n", 3),
    ],
)
def test_a_malformed_file_names_its_line_and_stays(tmp_path, text, line):
    opened(tmp_path / "db", Totals()).close()
    file = tmp_path / "db" / ".checkpoint_totals"
    file.write_text(text)
    with pytest.raises(hf.errors.StoreCorruptedError, match=f"line {line} "):
        opened(tmp_path / "db", Totals())
    assert file.read_text() == text


class Logged(Totals):
    """A user store that records the calls on it."""

    def __init__(self, name: str, *, close_fails: bool = False, init_fails: bool = False) -> None:
        super().__init__(name)
        self.calls: list[str] = []
        self.close_fails, self.init_fails = close_fails, init_fails

    def init(self, db: hf.Database) -> None:
        if self.init_fails:
            raise OSError(f"{self.name} cannot be opened")
        self.calls.append("init")
        super().init(db)

    def commit(self, changelog_offsets) -> None:
        self.calls.append("commit")
        super().commit(changelog_offsets)

    def close(self) -> None:
        self.calls.append("close")
        if self.close_fails:
            raise OSError(f"{self.name} cannot be closed")


def test_a_failed_close_of_a_user_store_still_closes_the_others(tmp_path):
    stores = [Logged("a", close_fails=True), Logged("b"), Logged("c", close_fails=True)]
    db = hf.open(tmp_path / "db", stores)
    stores[1].totals["x"] = 1
    db.commit({LOG: 7})
    with pytest.raises(OSError, match="a cannot be closed") as raised:
        db.close()
    assert [store.calls[-1] for store in stores] == ["close"] * 3
    assert any("c cannot be closed" in note for note in raised.value.__notes__)
    assert not db.is_open
    db.close()
    with hf.open(tmp_path / "db", [Logged("a"), again := Logged("b"), Logged("c")]) as db:
        assert again.totals == {"x": 1}
        # The content of a store that was not closed is unknown: it is discarded.
        assert [db.store_offset(name, LOG) for name in "abc"] == [None, 7, None]


@pytest.mark.parametrize("guarantee", [ONCE, AT_LEAST_ONCE])
def test_an_open_that_fails_closes_the_stores_that_were_opened(tmp_path, guarantee):
    with hf.open(
        tmp_path / "db", [Logged("a"), Logged("b"), Logged("c")], processing_guarantee=guarantee
    ) as db:
        db.commit({LOG: 7})
    stores = [Logged("a", close_fails=True), Logged("b"), Logged("c", init_fails=True)]
    with pytest.raises(OSError, match="c cannot be opened") as raised:
        hf.open(tmp_path / "db", stores, processing_guarantee=guarantee)
    assert [store.calls for store in stores] == [["init", "close"], ["init", "close"], []]
    assert any("a cannot be closed" in note for note in raised.value.__notes__)
    with hf.open(
        tmp_path / "db", [Logged("a"), Logged("b"), Logged("c")], processing_guarantee=guarantee
    ) as db:
        assert [db.store_offset(name, LOG) for name in "abc"] == [7, 7, 7]


def test_an_invalid_commit_calls_no_user_store(tmp_path):
    store = Logged("a")
    db = hf.open(tmp_path / "db", [store], processing_guarantee=AT_LEAST_ONCE)
    db.commit({LOG: 7})
    file, calls = tmp_path / "db" / ".checkpoint_a", list(store.calls)
    text = file.read_text()
    for wrong, error in [
        ({("my log", 0): 8}, ValueError),
        ({("a\0", 0): 8}, ValueError),
        ({("log", 2**40): 8}, ValueError),
        ({LOG: "8"}, TypeError),
    ]:
        with pytest.raises(error):
            db.commit(wrong)
    db.close()
    with pytest.raises(hf.errors.StoreClosedError):
        db.commit({LOG: 9})
    assert store.calls == [*calls, "close"]
    assert file.read_text() == text


def test_each_user_store_has_a_directory_except_in_memory(tmp_path, monkeypatch):
    with opened(tmp_path / "db", Totals()) as db:
        assert db.directory("totals") == tmp_path / "db" / "totals"
        with pytest.raises(KeyError):
            db.directory("../totals")
    monkeypatch.chdir(tmp_path)
    Path("in memory").mkdir()  # messages show a database in memory as this
    with hf.open(None, [hf.stores.key_value("kv")]) as db:
        assert db.directory("kv") is None


def test_a_topic_with_white_space_is_refused_before_anything_is_written(tmp_path):
    db = opened(tmp_path / "db", store := Totals())
    db["kv"].put(b"a", b"1")
    for topic in ("my log", "my\u00a0log", ""):
        with pytest.raises(ValueError, match="white space"):
            db.commit({(topic, 0): 3})
    db.commit({LOG: 3, ("my log", 0): None})
    db.close()
    with opened(tmp_path / "db", store) as db:
        assert db.committed_offsets() == {LOG: 3}
    with opened(tmp_path / "other", Totals(manages_offsets=True)) as db:
        db.commit({("my log", 0): 3})
        assert db.committed_offsets() == {("my log", 0): 3}


@pytest.mark.parametrize(
    "name",
    ["LOG", "log", "LOG.old.1", "CURRENT", "HOLDER", "IDENTITY", "COMMITTED", "LOCK",
    "MANIFEST-000005", "OPTIONS-7", "000004.log",
     "000012.sst", "archive", "kv.position"],
)  # fmt: skip
def test_a_name_of_the_databases_own_files_is_refused(tmp_path, name):
    with pytest.raises(
        ValueError,
        match=r"a user store's name is .*, and the database has a file of that name beside it",
    ):
        opened(tmp_path / "db", Totals(name))
    assert not (tmp_path / "db").exists()
