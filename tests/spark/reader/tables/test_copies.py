"""The copies of a reader: how they are made, and what they leave."""

from __future__ import annotations

import pickle

import pytest
from reading import Connect, stored
from streams import KEYS, Stream

import holdfast as hf


def test_a_copy_is_made_from_the_snapshot_when_the_log_is_gone(stream: Stream, connect: Connect):
    state = {"snapshot_interval": "1 microsecond", "retain_epochs": 1}
    model: dict[str, int] = {}
    for number in range(8):
        stream.batch(left=[(KEYS[number % 3], number, number), ("z", number, number)])
        model |= {KEYS[number % 3]: number, "z": number}
        stream.run(stored(stream, state=stream.state(**state)))
    epochs = [int(folder.name) for folder in (stream.root / "log").iterdir()]
    assert min(epochs) > 0, "no epoch was removed"
    table = connect(stream)["table"]
    rows = table.scan().read_all()
    assert dict(zip(rows["k"].to_pylist(), rows["x"].to_pylist(), strict=True)) == model
    with pytest.raises(hf.errors.RestoreError, match=r"epoch \d+ cannot be read any more: the old"):
        table.get("z", epoch=0)
    # The log still has its oldest epoch, but no snapshot is left from which it can be restored.
    left = [int(folder.name) for folder in (stream.root / "log").iterdir()]
    oldest = min(left)
    for snapshot in stream.root.glob("snapshots/table/*/*"):
        if snapshot.is_file() and int(snapshot.name.split(".")[0]) <= oldest:
            snapshot.unlink()
    gone = rf"epoch {oldest} cannot be read any more: .* the oldest that can be read is \d"
    with pytest.raises(hf.errors.RestoreError, match=gone):
        table.get("z", epoch=oldest, offline="only")


def test_a_reader_leaves_nothing_behind_and_writes_nothing(
    stream: Stream, connect: Connect, tmp_path
):
    stream.batch(left=[("a", 1, 1)])
    stream.run(stored(stream))

    def files() -> set[str]:
        return {str(path) for path in stream.root.rglob("*")}

    before, cache = files(), tmp_path / "cache"
    cache.mkdir()
    with connect(stream, cache_dir=cache, offline="only") as reader:
        assert reader["table"].get("a")["x"] == 1
        (folder,) = cache.iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
    del reader
    assert list(cache.iterdir()) == []
    assert files() == before


def test_copies_that_are_not_read_take_at_most_cache_bytes(
    stream: Stream, connect: Connect, tmp_path
):
    stream.batch(left=[("a", 1, 1)])
    stream.run(stored(stream))
    cache = tmp_path / "cache"
    cache.mkdir()
    with connect(stream, cache_dir=cache, cache_bytes=1 << 30, offline="only") as reader:
        assert reader["table"].get("a")["x"] == 1
        assert len(list(cache.rglob("CURRENT"))) == 1
    with connect(stream, cache_dir=cache, cache_bytes=0, offline="only") as reader:
        assert reader["table"].get("a")["x"] == 1
        assert list(cache.rglob("CURRENT")) == []
        other = pickle.loads(pickle.dumps(reader))
        assert other["table"].get("a")["x"] == 1
        assert len(list(cache.iterdir())) == 2, "each reader has a folder"
        assert list(cache.rglob("CURRENT")) == []
        other.close()
        opened, (connection, _, store) = reader["table"].__reduce__()
        with pytest.raises(hf.errors.StateMismatchError, match="no longer has the table 'table'"):
            opened(connection, "gone", store)
    with pytest.raises(ValueError, match="cache_bytes is -1: give 0 or more"):
        connect(stream, cache_bytes=-1)
