"""Arguments of State: invalid ones are refused, and valid ones reach the databases."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from streams import Stream

import holdfast as hf
import holdfast.spark as hfs
from holdfast.errors import HoldfastError, UnsupportedOperationError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partitions": 0}, r"partitions=0: give a whole number from 1"),
        ({"partitions": 2.0}, r"partitions=2.0: give a whole number"),
        ({"partitions": True}, r"partitions=True"),
        ({"memory": "lots"}, r"memory='lots': give a size such as"),
        ({"memory": "0m"}, r"memory='0m'"),
        ({"memory": "512"}, r"memory='512': give a size such as \"512m\" or \"2g\", with its unit"),
        ({"uncommitted_max_bytes": 0}, r"uncommitted_max_bytes=0"),
        (
            {"processing_guarantee": "twice"},
            r"processing_guarantee='twice': there are 'exactly_once' and",
        ),
        ({"retain_epochs": 0}, r"retain_epochs=0"),
        ({"snapshot_interval": "-1 day"}, r"snapshot_interval is negative"),
        ({"storage_options": {"region": "x"}}, r"storage_options=\['region'\]: .* is a local root"),
    ],
)
def test_a_wrong_option_of_a_state_is_named(tmp_path: Path, options, message):
    with pytest.raises(ValueError, match=message):
        hfs.State(str(tmp_path), **options)


def test_an_empty_root_is_refused():
    with pytest.raises(ValueError, match="root is empty"):
        hfs.State("")


@pytest.mark.parametrize("root", ["hdfs://host/s", "hdfs:/s", "dbfs:/s", "s3:/bucket/s"])
def test_a_root_of_another_scheme_is_refused(root: str):
    with pytest.raises(
        UnsupportedOperationError,
        match=r"give a local folder or an address of s3://, gs:// or az://",
    ):
        hfs.State(root)


def test_an_address_of_an_object_store_is_refused_as_local_dir():
    with pytest.raises(
        UnsupportedOperationError, match=r"local_dir='s3://b/s': give a local folder$"
    ):
        hfs.State("/tmp/unused", local_dir="s3://b/s")


def test_a_root_that_cannot_be_written_is_refused(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(HoldfastError, match=r"root .*file/state cannot be written"):
        hfs.State(str(tmp_path / "file" / "state"))


def test_the_names_of_new_folders_above_a_root_are_synced(tmp_path: Path, monkeypatch):
    """A loss of power must not remove a folder in which acknowledged epochs are."""
    synced: list[Path] = []
    fsync = os.fsync

    def record(opened: int) -> None:
        fsync(opened)
        synced.append(Path(f"/proc/self/fd/{opened}").readlink())

    monkeypatch.setattr(os, "fsync", record)
    folder = tmp_path.resolve()
    hfs.State(folder / "a" / "b" / "root")
    assert synced == [folder.parent, folder, folder / "a", folder / "a" / "b"]
    synced.clear()
    # The last name may be of a process that was killed before it synced the name.
    hfs.State(folder / "a" / "b" / "root")
    assert synced == [folder / "a" / "b"]


def test_a_root_without_permission_is_refused():
    # Even root may not write here.
    with pytest.raises(HoldfastError, match=r"root /proc/1/state cannot be written"):
        hfs.State("/proc/1/state")


@pytest.mark.parametrize(("argument", "given"), [("root", None), ("root", True), ("local_dir", 7)])
def test_an_argument_that_is_no_folder_is_named(tmp_path: Path, argument, given):
    with pytest.raises(TypeError, match=f"{argument}={given}: give a folder"):
        hfs.State(**{"root": str(tmp_path), argument: given})


def test_a_local_dir_is_checked_by_executors(stream: Stream):
    """The driver need not have the folder; if it cannot be written, the first task fails."""
    stream.root.mkdir(exist_ok=True)
    (stream.root / "file").write_text("in the way")
    stream.options["local_dir"] = str(stream.root / "file")
    stream.batch(left=[("a", 1, 1)])
    with pytest.raises(
        StreamingQueryException,
        match=r"cannot be written .*give State\(local_dir=.*/file/[^/]+/op/",
    ):
        stream.run(hfs.materialize(stream.source("left"), by="k", name="op", state=stream.state()))


def test_an_invalid_isolation_level_is_named(tmp_path: Path):
    with pytest.raises(
        TypeError, match=r"default_isolation_level is 'x'; wanted: one of Isolation"
    ):
        hfs.State(str(tmp_path), default_isolation_level="x")


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"atomic_flush": "false"}, ValueError, "atomic_flush cannot be set"),
        ({" atomic_flush": "false"}, ValueError, "is not the name of an option"),
        ({"max_open_files": "7;atomic_flush=false"}, ValueError, "is not one value"),
        ({"max_open_files": "{7"}, ValueError, "is not one value"),
        ({"no_such_option": "1"}, ValueError, "not known to RocksDB"),
        ({"max_open_files": 7}, TypeError, "rocksdb_options is .* both str"),
    ],
)
def test_rocksdb_options_are_refused_as_by_open(tmp_path: Path, options, error, words):
    for make in (
        lambda: hfs.State(str(tmp_path / "state"), rocksdb_options=options),
        lambda: hf.open(tmp_path / "db", [], rocksdb_options=options),
    ):
        with pytest.raises(error, match=words):
            make()
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("bound", "words"),
    [
        ({"flush_bytes": 0}, "flush_bytes=0: give a number of bytes above zero"),
        ({"flush_bytes": True}, "flush_bytes=True"),
        ({"flush_interval": "soon"}, "flush_interval"),
        ({"flush_interval": "-1 seconds"}, "flush_interval"),
    ],
)
def test_flush_bounds_are_checked(tmp_path: Path, bound, words):
    with pytest.raises(ValueError, match=words):
        hfs.State(str(tmp_path), **bound)


def test_rocksdb_options_and_flush_bounds_reach_the_databases(stream: Stream):
    stream.options |= {"rocksdb_options": {"max_open_files": "77"}, "flush_bytes": 1}
    for time in range(4):
        stream.batch(left=[("a", time, 1)])
    table = hfs.materialize(stream.source("left"), by="k", name="op", state=stream.state())
    stream.run(table)
    options = [file.read_text() for file in stream.root.rglob("OPTIONS-*")]
    assert options
    assert all("max_open_files=77" in text for text in options)
    # Each of the epochs after the first flushes what the one before has committed.
    logs = [file.read_text() for file in stream.root.rglob("LOG")]
    assert max(text.count("flush_finished") for text in logs) >= 3


def test_uncommitted_bytes_are_capped_at_a_quarter_of_the_memory(tmp_path: Path):
    assert hfs.State(str(tmp_path), memory="64m").settings["uncommitted_max_bytes"] == 16 << 20
    assert hfs.State(str(tmp_path), memory="512m").settings["uncommitted_max_bytes"] == 64 << 20


def test_a_root_is_created_and_its_path_made_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    state = hfs.State("some/where")
    assert state.checkpoint_location == str(tmp_path / "some" / "where" / "query")
    assert os.listdir(tmp_path / "some" / "where") == []
    assert hfs.State(f"file://{tmp_path}/some/where").root == state.root


def test_storage_options_that_are_no_dict_are_named(tmp_path: Path):
    with pytest.raises(
        TypeError, match="storage_options is a list: give a dict of names and values"
    ):
        hfs.State(str(tmp_path), storage_options=[("region", "x")])  # type: ignore[arg-type]
