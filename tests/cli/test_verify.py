"""`holdfast verify`: the kinds of objects of a root, damaged in several ways."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from roots import copy_of, damage, run
from streams import KEYS, Stream

import holdfast.spark as hfs
from holdfast import _core

RUN = "0" * 19 + "1"


def first(root: Path, pattern: str) -> Path:
    return sorted(file for file in root.glob(pattern) if file.is_file())[0]


def has_no_digest(file: Path) -> bool:
    """Whether the file is JSON, or Arrow IPC without an envelope."""
    return file.suffix == ".arrow" or file.read_bytes()[:1] == b"{"


def unreadable_at(file: Path) -> float:
    """Where a flipped bit makes a file without a digest unreadable."""
    return 1 if file.suffix == ".arrow" else 0


def findings(capsys: pytest.CaptureFixture[str], root: Path) -> list[str]:
    ran = run(capsys, "verify", root, "--json")
    found = [one["object"] for one in json.loads(ran.out)["damage"]]
    assert ran.status == bool(found)
    return found


def test_a_whole_root_has_no_findings(root: Path, capsys: pytest.CaptureFixture[str]):
    ran = run(capsys, "verify", root)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.endswith("all are whole\n")
    assert int(ran.out.split()[0]) > 30


@pytest.mark.parametrize("how", ["flipped", "truncated", "missing"])
@pytest.mark.parametrize(
    "pattern",
    [
        "log/*4/prices.0.1",
        "log/*5/chunks/*.0",
        "log/*5/chunks/*.arrow",
        "log/*4/decided.0",
        "snapshots/prices/0/files/*",
        f"runs/{RUN}",
        "operators/prices.json",
        "query/metadata",
    ],
)
def test_damage_is_found_and_named(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], pattern: str, how: str
):
    copy = copy_of(root, tmp_path / "copy")
    file = first(copy, pattern)
    # Files without a digest: a change is found where it makes the file unreadable.
    damage(file, how, at=unreadable_at(file) if has_no_digest(file) else 0.5)
    assert str(file.relative_to(copy)) in findings(capsys, copy)


@pytest.mark.parametrize("how", ["flipped", "truncated"])
@pytest.mark.parametrize(
    "pattern", ["snapshots/prices/0/*", "ahead/prices/*", "owners/*/*/*", "readers/*/*/*"]
)
def test_an_unreadable_object_is_found(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], pattern: str, how: str
):
    copy = copy_of(root, tmp_path / "copy")
    file = first(copy, pattern)
    damage(file, how, at=unreadable_at(file))
    assert findings(capsys, copy) == [str(file.relative_to(copy))]


def test_an_epoch_that_is_missing_is_found(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    copy = copy_of(root, tmp_path / "copy")
    epoch = first(copy, "log/*4/decided.0").parent
    for file in epoch.rglob("*"):
        if file.is_file():
            file.unlink()
    for folder in [*epoch.iterdir(), epoch]:
        folder.rmdir()
    assert f"log/{epoch.name}" in findings(capsys, copy)


def test_a_partition_that_cannot_be_restored_is_found(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    copy = copy_of(root, tmp_path / "copy")
    oldest = min(int(folder.name) for folder in (copy / "log").iterdir())
    assert oldest > 0, "the log must have been trimmed"
    snapshots = [file for file in (copy / "snapshots/prices/1").iterdir() if file.is_file()]
    assert len(snapshots) >= 2
    snapshots[0].unlink()
    assert findings(capsys, copy) == []
    for file in snapshots[1:]:
        file.unlink()
    assert findings(capsys, copy) == ["snapshots/prices/1"]


def test_a_decision_of_another_history_breaks_the_chain(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    copy = copy_of(root, tmp_path / "copy")
    here, there = first(copy, "log/*4/decided.0"), first(copy, "log/*5/decided.0")
    content = there.read_bytes()
    here.unlink()
    here.write_bytes(content)
    assert "log/00000000000000000004/decided.0" in findings(capsys, copy)


def test_a_root_is_whole_after_a_rewind(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    copy = copy_of(root, tmp_path / "copy")
    assert run(capsys, "rewind", copy, "--epoch", "6").status == 0
    assert findings(capsys, copy) == []
    mark = first(copy, "rewinds/*")
    damage(mark, "truncated")
    assert str(mark.relative_to(copy)) in findings(capsys, copy)


def test_what_garbage_collection_removes_meanwhile_is_no_damage(root: Path, tmp_path: Path):
    copy = copy_of(root, tmp_path / "copy")
    epochs = sorted((copy / "log").iterdir())
    (copy / "trims").mkdir(exist_ok=True)
    removed = threading.Event()

    def remove(_done: int, _total: int, objects: int) -> None:
        # When the first object of the log is read, a host is in the middle of removing the oldest
        # epoch: its mark is there, and of the epoch's objects only the decision is left.
        if objects and not removed.is_set():
            removed.set()
            mark = copy / "trims" / f"{int(epochs[0].name) + 1:020}.1"
            mark.write_text("{}")
            for file in sorted(epochs[0].rglob("*"), reverse=True):
                if file.is_file() and not file.name.startswith("decided"):
                    file.unlink()

    report = json.loads(_core.verify_root(str(copy), {}, remove))
    assert removed.is_set()
    assert report["damage"] == []


def test_a_running_query_has_no_damage(spark, tmp_path: Path):
    stream = Stream(spark, tmp_path)
    for epoch in range(25):
        stream.batch(left=[(key, epoch, epoch) for key in KEYS])
    state = stream.state(snapshot_interval="0 seconds", retain_epochs=1)
    table = hfs.materialize(stream.source("left"), by="k", on="t", name="prices", state=state)
    options = stream.options.get("storage_options", {})
    reports: list[dict[str, Any]] = []
    ended = threading.Event()

    def verify() -> None:
        while not ended.is_set():
            if (stream.root / "meta.json").exists():
                found = _core.verify_root(stream.address, options, lambda *_: None)
                reports.append(json.loads(found))

    verifier = threading.Thread(target=verify)
    verifier.start()
    try:
        stream.run(table)
    finally:
        ended.set()
        verifier.join()
    assert len(reports) > 10
    assert [report["damage"] for report in reports if report["damage"]] == []
    oldest = min(int(folder.name) for folder in (stream.root / "log").iterdir())
    assert oldest > 5, "hosts must have removed epochs"


def test_an_exception_of_the_progress_ends_the_verification(root: Path):
    def stop(*_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _core.verify_root(str(root), {}, stop)


def test_a_folder_without_state_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    ran = run(capsys, "verify", tmp_path)
    assert ran.status == 1
    assert "there is no state here" in ran.err
