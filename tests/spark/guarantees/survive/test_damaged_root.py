"""A root whose checkpoint, state, log or snapshot is older, missing or damaged."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from sequence_query import SequenceQuery
from streams import kill_hosts


def refused(query: SequenceQuery, *words: str, others_stage: bool = False) -> None:
    """Checks that the query fails with these words and leaves the log unchanged.

    `others_stage`: only one partition is refused. Tasks of the others may stage the new epoch, and
    record the decision of the committed one before it.
    """
    log = sorted(query.root.glob("log/*/*"))
    with pytest.raises(StreamingQueryException) as refusal:
        query.run()
    for word in words:
        assert word in str(refusal.value)
    after = sorted(query.root.glob("log/*/*"))
    newest = max((path.parent.name for path in after), default="")
    added = {
        path
        for path in after
        if not others_stage or (path.parent.name != newest and not path.name.startswith("decided"))
    }
    assert added - set(log) == set()
    assert set(log) - set(after) == set()


@pytest.mark.survive
def test_a_restored_older_checkpoint_is_a_named_error(query: SequenceQuery):
    query.arrive(2)
    query.run()
    checkpoint, older, newer = query.root / "query", query.base / "older", query.base / "newer"
    shutil.copytree(checkpoint, older)
    # A checkpoint that is one epoch older looks like a lost commit and gives the same result.
    query.arrive(4)
    query.run()
    checkpoint.rename(newer)
    shutil.copytree(older, checkpoint)
    refused(
        query,
        "an older checkpoint was restored",
        f"holdfast rewind {query.place.address} --epoch 2",
    )
    shutil.rmtree(checkpoint)
    newer.rename(checkpoint)
    query.arrive(1)
    query.run()
    query.check()


@pytest.mark.survive
def test_a_missing_checkpoint_beside_a_state_is_a_named_error(query: SequenceQuery):
    query.arrive(2)
    query.run()
    checkpoint, stored = query.root / "query", query.base / "kept"
    checkpoint.rename(stored)
    refused(query, "put the checkpoint back")
    shutil.rmtree(checkpoint)
    stored.rename(checkpoint)
    query.arrive(1)
    query.run()
    query.check()


@pytest.mark.survive
@pytest.mark.parametrize("host", ["lives", "is killed"])
def test_a_missing_state_beside_a_checkpoint_is_a_named_error(query: SequenceQuery, host: str):
    query.arrive(2)
    query.run()
    if host == "is killed":
        assert kill_hosts()
    stored = query.base / "kept"
    stored.mkdir()
    for part in [part for part in query.root.iterdir() if part.name != "query"]:
        part.rename(stored / part.name)
    query.arrive(1)
    refused(query, "the state was deleted")
    for part in stored.iterdir():
        shutil.rmtree(query.root / part.name, ignore_errors=True)
        part.rename(query.root / part.name)
    query.run()
    query.check()


@pytest.mark.survive
def test_a_missing_log_object_is_a_named_error(query: SequenceQuery):
    query.arrive(2)
    query.run()
    assert kill_hosts()
    shutil.rmtree(query.root / "state")
    victim = sorted(query.root.glob("log/*0/join.*"))[0]
    stored = victim.rename(query.base / "kept")
    query.arrive(1)
    missing = f"{victim.relative_to(query.root)} is missing"
    refused(query, missing, "Restore it from a backup", others_stage=True)
    stored.rename(victim)
    query.run()
    query.check()


def flip_a_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)


def cut_in_half(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


@pytest.mark.survive
@pytest.mark.parametrize("damage", [cut_in_half, flip_a_byte])
def test_a_damaged_newest_snapshot_is_survived(
    query: SequenceQuery, damage: Callable[[Path], None]
):
    query.settings = {"snapshot_interval": "0 seconds", "retain_epochs": 2}

    def snapshots() -> list[tuple[Path, list[Path]]]:
        """The folder of each partition with its snapshots, newest first."""
        folders = query.root.glob("snapshots/*/*")

        def is_snapshot(file: Path) -> bool:
            # A name with a # belongs to a put in progress.
            return "#" not in file.name and file.suffix != ".removal"

        return [
            (folder, sorted(filter(is_snapshot, folder.glob("*.*")), reverse=True))
            for folder in folders
        ]

    # Snapshots run beside the epochs, so the disk decides how many epochs it takes.
    while len(taken := snapshots()) < 4 or min(len(files) for _, files in taken) < 2:
        assert len(query.sequence.batches) < 100, f"no two snapshots of each partition: {taken}"
        query.arrive(8)
        query.run()
    assert kill_hosts()
    shutil.rmtree(query.root / "state")
    for folder, files in snapshots():
        newest, *older = (json.loads(file.read_text())["files"] for file in files)
        shared = {file["digest"] for files in older for file in files}
        # All tables are damaged, because RocksDB reads few bytes of a file when it opens it.
        tables = [
            file
            for file in newest
            if file["name"].endswith(".sst") and file["digest"] not in shared
        ]
        assert tables
        for file in tables:
            # The name ends with the term of the owner that put the file.
            (stored,) = (folder / "files").glob(f"{file['digest']}-{file['bytes']}.*")
            damage(stored)
    query.arrive(1)
    query.run()
    query.check()
