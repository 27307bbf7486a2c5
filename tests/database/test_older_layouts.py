"""Directories of older layouts: their text files move in, `upgrade_from` writes them back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import holdfast as hf

KAFKA = Path(__file__).parents[1] / "fixtures" / "kafka_streams"
OFFSETS = {
    ("app-totals-changelog", 0): 41,
    ("app-totals-changelog", 1): 0,
    ("app-rates-changelog", 12): 9007199254740993,
}
POSITION = hf.Position({"orders": {3: 99, 4: 7}, "rates.eu_daily-v1": {0: 12345678901}})


def opened(path, **options):
    return hf.open(
        path, [hf.stores.key_value("totals", key=hf.serde.STRING, value=hf.serde.INT64)], **options
    )


def lines(path: Path) -> list[str]:
    version, count, *rows = path.read_text().splitlines()
    assert (version, int(count)) == ("0", len(rows))
    return sorted(rows)


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "db").mkdir()
    for name in (".checkpoint", "totals.position"):
        shutil.copy(KAFKA / name, tmp_path / "db")
    return tmp_path / "db"


def test_files_of_kafka_streams_are_moved_in(directory):
    for _ in range(2):
        with opened(directory) as db:
            assert db.committed_offsets() == OFFSETS
            assert db.position() == POSITION
        assert not (directory / ".checkpoint").exists()
        assert not (directory / "totals.position").exists()


@pytest.mark.parametrize("durability", list(hf.Durability))
def test_upgrade_from_writes_text_files_as_kafka_streams_does(directory, durability):
    with opened(directory, durability=durability, upgrade_from="4.2") as db:
        db["totals"].put("a", 1)
        db.commit()
    # All but the offset that stands for "not known".
    assert lines(directory / ".checkpoint") == sorted(
        set(lines(KAFKA / ".checkpoint")) - {"app-not-known-changelog 3 -4"}
    )
    assert lines(directory / "totals.position") == lines(KAFKA / "totals.position")
    with opened(directory, durability=durability) as db:
        assert db["totals"].get("a") == 1
        assert db.committed_offsets() == OFFSETS
        assert db.position() == POSITION
    with pytest.raises(ValueError, match="durability"):
        opened(
            directory, durability=next(other for other in hf.Durability if other is not durability)
        )
    with pytest.raises(ValueError, match="serde|key"):
        hf.open(
            directory, [hf.stores.key_value("totals", key=hf.serde.INT64)], durability=durability
        )


def test_a_store_in_memory_does_not_change_the_offsets_of_others(directory):
    stores = [
        hf.stores.key_value("totals", key=hf.serde.STRING, value=hf.serde.INT64),
        hf.stores.key_value("m", persistent=False),
    ]
    for _ in range(2):
        with hf.open(directory, stores, upgrade_from="3.9") as db:
            assert db["totals"].committed_offset(("app-totals-changelog", 0)) == 41
            assert db.committed_offsets() == {}
        assert "app-totals-changelog 0 41" in lines(directory / ".checkpoint")
    with opened(directory) as db:
        assert db.committed_offsets() == OFFSETS


def test_a_database_in_memory_writes_no_text_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with opened(None, upgrade_from="3.9") as db:
        db.commit({("log", 0): 1})
    assert not list(tmp_path.iterdir())


def test_a_topic_that_the_files_cannot_hold_is_refused_before_the_commit(directory):
    with opened(directory, upgrade_from="3.9") as db:
        db["totals"].put("a", 1)
        with pytest.raises(ValueError, match="white space"):
            db.commit({("my log", 0): 3})
        with pytest.raises(ValueError, match="white space"):
            db.observe("my orders", 0, 3)
        db.rollback()
        with pytest.raises(ValueError, match="white space"):
            db.restore_batch("totals", pa.array(["b"]), pa.array([2]), None, {("my log", 0): 3})
        db["totals"].put("a", 1)
        db.commit({("log", 0): 3})
    assert lines(directory / ".checkpoint")[-1] == "log 0 3"
    with opened(directory) as db:
        assert db["totals"].get("a") == 1
        db.commit({("my log", 0): 3})
    refused_with_white_space(directory, "my log")
    with opened(directory) as db:
        db.observe("my orders", 0, 3)
        db.commit({("my log", 0): None})
    refused_with_white_space(directory, "my orders")
    with opened(directory) as db:
        assert db["totals"].get("a") == 1


def refused_with_white_space(directory, topic):
    with pytest.raises(ValueError, match=f'topic "{topic}" .*white space'):
        opened(directory, upgrade_from="3.9")
    assert not (directory / ".checkpoint").exists()


@pytest.mark.parametrize("version", ["4.3", "4.4.0", "", "2.9", "latest"])
def test_an_unknown_version_is_refused(tmp_path, version):
    with pytest.raises(ValueError, match=r"upgrade_from .*0\.10\.0.*4\.2"):
        opened(tmp_path / "db", upgrade_from=version)
    assert not (tmp_path / "db").exists()
