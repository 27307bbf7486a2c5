"""Directories of other programs are refused, and nothing in them is changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import holdfast as hf

KAFKA = Path(__file__).parents[1] / "fixtures" / "kafka_streams"


def test_a_state_directory_of_kafka_streams_is_refused(tmp_path):
    task = tmp_path / "0_0"
    task.mkdir()
    for name in (".checkpoint", "totals.position"):
        shutil.copy(KAFKA / name, task)
    before = {path.name: path.read_bytes() for path in task.iterdir()}
    with pytest.raises(hf.errors.FormatVersionError, match=r"Kafka Streams.*restore_batch"):
        hf.open(task, [hf.stores.key_value("totals")])
    assert {path.name: path.read_bytes() for path in task.iterdir()} == before


def test_a_text_file_beside_a_database_changes_nothing(tmp_path):
    stores = [hf.stores.key_value("kv")]
    with hf.open(tmp_path / "db", stores) as db:
        db.commit({("log", 0): 100})
    (tmp_path / "db" / ".checkpoint").write_text("0\n1\nlog 0 41\n")
    with hf.open(tmp_path / "db", stores) as db:
        assert db.committed_offset(("log", 0)) == 100
