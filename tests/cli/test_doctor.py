"""`holdfast doctor`: what each check finds."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

import pytest
from roots import run

from holdfast import _core
from holdfast._cli.doctor import disk, limits, programs, store
from holdfast._cli.doctor.finding import Finding
from holdfast._requirements import java


@pytest.fixture(autouse=True)
def _this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.delenv("SPARK_HOME", raising=False)


def named(findings: list[Finding], check: str) -> Finding:
    return next(finding for finding in findings if finding.check == check)


def test_a_root_is_checked_and_left_as_it_was(root: Path, capsys: pytest.CaptureFixture[str]):
    before = sorted(root.iterdir())
    ran = run(capsys, "doctor", root, "--json")
    found = {one["check"]: one for one in map(json.loads, ran.out.splitlines())}
    assert ran.status == int(any(one["status"] == "problem" for one in found.values()))
    for check in ("Java", "PySpark", "Python of Spark's workers", "root", "put-if-absent", "clock"):
        assert found[check]["status"] == "ok", found[check]
    assert "the newest final epoch is 6" in found["root"]["found"]
    assert sorted(root.iterdir()) == before


def test_without_a_root_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    ran = run(capsys, "doctor", "--local-dir", tmp_path / "later")
    assert ran.out.splitlines()[0].split() == ["check", "status", "found", "change"]
    assert "put-if-absent" not in ran.out
    assert list(tmp_path.iterdir()) == []


def test_a_python_without_holdfast_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    plain = tmp_path / "python3"
    plain.write_text(f'#!/bin/sh\nexec "{sys.base_prefix}/bin/python3" -I -S "$@"\n')
    plain.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(plain))
    found = named(programs.check_programs(), "Python of Spark's workers")
    assert found.status == "problem"
    assert "cannot import holdfast" in found.found
    assert f"PYSPARK_PYTHON={sys.executable}" in (found.change or "")
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "none"))
    found = named(programs.check_programs(), "Python of Spark's workers")
    assert (found.status, "which fails" in found.found) == ("problem", True)


def test_a_path_without_java_is_a_problem(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java.shutil, "which", lambda _: None)
    found = named(programs.check_programs(), "Java")
    assert found.status == "problem"
    assert "install one" in (found.change or "")


def test_few_open_files_are_a_problem(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 4096))
    found = named(limits.check_limits(512 << 20), "open files")
    assert (found.status, found.found.split()[0]) == ("problem", "256")
    assert "ulimit -n 1024" in (found.change or "")


@pytest.mark.parametrize(
    ("settings", "status", "mebibytes"),
    [
        ("", "warning", 384),
        ("spark.executor.memoryOverhead 2g", "ok", 2048),
        ("spark.executor.memoryOverhead=600", "ok", 600),
        ("spark.executor.memoryOverhead 629145600b", "ok", 600),
        ("spark.executor.memory 10g\n# a comment", "ok", 1024),
        ("spark.executor.memoryOverhead much", "warning", None),
    ],
)
def test_the_memory_overhead_is_that_of_spark(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: str,
    status: str,
    mebibytes: int | None,
):
    (tmp_path / "spark-defaults.conf").write_text(settings)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    found = named(limits.check_limits(512 << 20), "memory overhead")
    assert found.status == status
    if mebibytes is not None:
        assert f"memoryOverhead is {mebibytes} MiB" in found.found


def test_the_databases_of_a_local_root_are_below_it():
    for root in ("/data/root", "file:///data/root", "file:/data/root"):
        assert disk.default_local_dir(root) == Path("/data/root/state")
    assert disk.default_local_dir("file:///a%20b") == Path("/a b/state")
    for root in ("s3://bucket/root", None):
        assert disk.default_local_dir(root).name == "state"
        assert disk.default_local_dir(root).parts[-2].startswith("holdfast-")


def test_a_full_or_remote_disk_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"disk / ext4 rw 0 0\nserver:/x {tmp_path} nfs4 rw 0 0\n")
    monkeypatch.setattr(disk, "_MOUNTS", mounts)
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 5 << 20}))
    found = disk.check_disk(tmp_path / "state")
    assert named(found, "disk space").status == "problem"
    assert named(found, "file system").status == "warning"
    assert "is on nfs4" in named(found, "file system").found


def test_a_store_without_put_if_absent_and_another_clock_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(_core, "check_store", lambda *_: (False, 1_000))
    found = store.check_root(str(tmp_path), {})
    assert named(found, "put-if-absent").status == "problem"
    assert named(found, "clock").status == "warning"
    assert named(found, "root").status == "warning"
    monkeypatch.undo()
    missing = named(store.check_root(str(tmp_path / "rot"), {}), "put-if-absent")
    assert (missing.status, "no such folder" in missing.found) == ("problem", True)


@pytest.mark.parametrize("memory", ["much", "512", "0m"])
def test_a_size_that_state_refuses_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], memory: str
):
    with pytest.raises(SystemExit) as ended:
        run(capsys, "doctor", "--memory", memory)
    assert ended.value.code == 2
    assert 'give a size such as "512m" or "2g"' in capsys.readouterr().err
