"""A root in an object store, without Spark: what a state checks first, and sessions over S3.

The suites of the root, of sessions and of epochs run on an S3 server with `make s3`.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pytest
import s3_server
from hosted import JOIN, LAYOUT, Host, Query
from s3_job import Job

import holdfast as hf
import holdfast.spark as hfs
from holdfast.errors import HoldfastError, UnsupportedOperationError

RIGHTS = Path(__file__).parents[3] / "docs/spark/object-stores.md"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with s3_server.moto() as port:
        yield port


@pytest.fixture
def job(port: int, tmp_path: Path) -> Iterator[Job]:
    job = Job(port, tmp_path)
    yield job
    job.kill()


def test_epochs_outlive_the_host_and_its_disk(job: Job):
    assert job.run((False, 1, "CHF", 95), (True, 2, "CHF", 1)) == [(1, 95)]
    job.kill()
    assert job.run((False, 3, "CHF", 96), (True, 2, "CHF", 2), (True, 4, "CHF", 3)) == [
        (2, 95),
        (3, 96),
    ]
    job.kill()
    databases = next(job.base.glob("holdfast-*/state/*/join/0"))
    shutil.rmtree(databases.parents[1])
    assert job.run((True, 5, "CHF", 4), (True, 1, "USD", 5)) == [(5, None), (4, 96)]
    assert len(job.heads()) == 3
    names = set(job.names())
    assert {"meta.json", "operators/join.json", "runs/00000000000000000001"} <= names
    assert not any(name.startswith("probe") for name in names)


def test_a_new_disk_restores_a_snapshot_from_the_store(job: Job):
    job.snapshot_interval = 0
    job.run((False, 1, "CHF", 95))
    deadline = time.monotonic() + 30
    while not any(name.startswith("snapshots/join/0/0") for name in job.names()):
        assert time.monotonic() < deadline, (job.base / "log").read_text()
        job.run((False, 1, "USD", job.epoch))
        time.sleep(0.05)
    job.kill()
    shutil.rmtree(next(job.base.glob("holdfast-*/state")))
    assert job.run((True, 5, "CHF", 1)) == [(1, 95)]
    assert "restored the snapshot" in (job.base / "log").read_text()


@pytest.mark.parametrize("refused", [(), ("readers",)])
def test_a_reader_needs_no_right_that_the_page_does_not_list(job: Job, refused: tuple[str, ...]):
    job.snapshot_interval = 0
    job.run((False, 1, "CHF", 95))
    job.run((True, 2, "CHF", 1))
    job.kill()
    rights = RIGHTS.read_text().split("A reader lists or reads these prefixes:")[1]
    allowed = {
        name.rstrip("/")
        for line in rights.splitlines()[4:7]
        for name in re.findall("`(.+?)`", line)
    }
    assert {"meta.json", "query", "readers"} <= allowed
    asked: set[tuple[str, str]] = set()

    def deny(_number: int, method: str, path: str) -> str | None:
        location = urlsplit(path)
        prefix = parse_qs(location.query).get("prefix", [""])[0]
        name = f"/test/{prefix}" if prefix else location.path
        folder = name.removeprefix(job.path("")).split("/")[0]
        asked.add((method, folder))
        is_allowed = method in ("GET", "HEAD") and folder in allowed.difference(refused)
        return None if is_allowed else "denied"

    with s3_server.proxy(job.port, deny) as front:
        options = s3_server.options(front)
        with hf.connect(str(job.state.root), storage_options=options) as reader:
            assert reader["join"].get("CHF", as_of=1)["rate"] == 95
            assert reader["join"].changes().read_all().num_rows == 1
    assert {method for method, _ in asked} <= {"GET", "HEAD"}
    assert {folder for _, folder in asked} <= allowed


def test_a_root_that_was_copied_from_a_folder_is_read(port: int, tmp_path: Path):
    host = Host(tmp_path)
    try:
        query = Query(host, tmp_path / "state", JOIN, 1)
        for epoch in range(2):
            row = [0, False, False, epoch, "CHF", None, 95 + epoch]
            arrays = [pa.array([cell], field.type) for cell, field in zip(row, LAYOUT, strict=True)]
            query.epoch([[pa.RecordBatch.from_arrays(arrays, schema=LAYOUT)]])
    finally:
        host.stop()
    root, options = s3_server.root(), s3_server.options(port)
    for file in sorted((tmp_path / "state").rglob("*")):
        name = file.relative_to(tmp_path / "state")
        if file.is_file() and name.parts[0] != "state":
            path = f"{root.removeprefix('s3:/')}/{name}"
            assert s3_server.request(port, "PUT", path, file.read_bytes())[0] == 200
    with hf.connect(root, storage_options=options) as reader:
        assert reader["join"].get("CHF", as_of=0)["rate"] == 95
        assert reader["join"].get("CHF")["rate"] == 96


def test_secrets_stay_in_memory(job: Job):
    job.run((False, 1, "CHF", 95), (True, 2, "CHF", 1))
    assert s3_server.SECRET not in repr(job.state)
    files = [path for path in job.base.rglob("*") if path.is_file()]
    assert len(files) > 5
    assert not [path for path in files if s3_server.SECRET.encode() in path.read_bytes()]
    for name in job.names():
        assert (
            s3_server.SECRET.encode() not in s3_server.request(job.port, "GET", job.path(name))[2]
        )
    assert job.host is not None
    for part in ("cmdline", "environ"):
        assert s3_server.SECRET.encode() not in Path(f"/proc/{job.host.pid}/{part}").read_bytes()


def test_a_log_object_that_is_missing_is_named(job: Job):
    job.run((False, 1, "CHF", 95))
    job.run((True, 2, "CHF", 1))
    job.kill()
    shutil.rmtree(next(job.base.glob("holdfast-*/state")))
    name = job.heads()[0]
    content = s3_server.request(job.port, "GET", job.path(name))[2]
    s3_server.request(job.port, "DELETE", job.path(name))
    with pytest.raises(HoldfastError, match="epoch 0"):
        job.run((True, 3, "CHF", 2))
    job.put(name, content)
    assert job.attempt((True, 3, "CHF", 2), attempt=2) == [(2, 95)]


def retried(job: Job, rows: Any) -> tuple[list[str], list[tuple[int, int | None]]]:
    """Runs a task as often as Spark would; returns its errors and its result."""
    refusals: list[str] = []
    for attempt in range(4):
        try:
            return refusals, job.attempt(*rows, attempt=attempt)
        except HoldfastError as error:
            refusals.append(str(error))
    pytest.fail(f"four attempts failed: {refusals}")


@pytest.mark.parametrize("fault", ["busy", "late", "lost", "stalls"])
def test_requests_to_a_store_that_fails_one_time_in_ten_are_retried(
    port: int, tmp_path: Path, fault: str
):
    wrong = [0]

    def one_in_ten(number: int, _method: str, _path: str) -> str | None:
        if number % 10 != 7:
            return None
        wrong[0] += 1
        return fault

    with s3_server.proxy(port, one_in_ten) as front:
        job = Job(front, tmp_path, behind=port, **({"timeout": "2s"} if fault == "stalls" else {}))
        try:
            for epoch in range(6):
                job.epoch = epoch
                job.put(f"query/offsets/{epoch}", b"v1\n{}\n0")
                rows = ((False, 10 * epoch, "CHF", epoch), (True, 10 * epoch + 1, "CHF", epoch))
                refusals, got = retried(job, rows)
                assert all("nothing that was committed is lost" in error for error in refusals), (
                    refusals
                )
                assert got == [(epoch, epoch)]
                job.put(f"query/commits/{epoch}", b"v1\n{}")
        finally:
            job.kill()
    assert wrong[0] > 5, "too few requests failed"
    assert len(job.heads()) == 6


def test_a_store_that_stalls_fails_the_task_and_not_the_query(port: int, tmp_path: Path):
    stalled = [0]

    def first_put_of_a_log_object(_number: int, method: str, path: str) -> str | None:
        if method != "PUT" or "/log/00000000000000000001/" not in path or stalled[0]:
            return None
        stalled[0] += 1
        return "stalls"

    with s3_server.proxy(port, first_put_of_a_log_object) as front:
        job = Job(front, tmp_path, behind=port, timeout="1s")
        try:
            job.run((False, 1, "CHF", 95))
            # The put succeeded, but its answer was late: the retry finds its own object.
            assert job.run((True, 2, "CHF", 1)) == [(1, 95)]
            assert stalled[0] == 1
            assert (
                len([name for name in job.names() if name.startswith("log/00000000000000000001/")])
                == 1
            )
        finally:
            job.kill()


def test_a_store_without_conditional_puts_is_refused(port: int):
    with (
        s3_server.proxy(port, lambda _number, _method, _path: "careless") as front,
        pytest.raises(UnsupportedOperationError, match="choose another"),
    ):
        hfs.State(s3_server.root(), storage_options=s3_server.options(front))


@pytest.mark.parametrize(
    ("root", "more", "message"),
    [
        ("s3://absent/x", {}, r"(?s)s3://absent/x/probe.*Make the bucket"),
        (
            "s3://test/x",
            {"endpoint": "http://127.0.0.1:9"},
            r"s3://test/x/probe.*Connection refused.*driver and executors can connect to it",
        ),
        ("s3://test/x", {"allow_http": "false"}, r"s3://test/x/probe.*URL scheme is not allowed"),
    ],
)
def test_an_unusable_store_is_a_named_error(
    port: int, root: str, more: dict[str, str], message: str
):
    with pytest.raises(HoldfastError, match=message) as refused:
        hfs.State(root, storage_options={**s3_server.options(port), **more})
    assert s3_server.SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("root", "options", "message"),
    [
        ("s3://test/x", {"acess_key": "hidden"}, r's3://test/x has no option "acess_key"'),
        ("s3://test/a b", {}, r"a prefix is made of ASCII letters"),
        ("s3://", {}, r"cannot be the name of a bucket"),
        ("az://container/x", {}, r"belongs to a storage account"),
    ],
)
def test_a_wrong_address_or_option_is_named(
    root: str, options: Any, message: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(ValueError, match=message) as refused:
        hfs.State(root, storage_options=options)
    assert "hidden" not in str(refused.value)


def test_a_non_string_option_is_named():
    options: Any = {"timeout": 30}
    with pytest.raises(TypeError, match=r"'timeout' has a int; names and values are strings"):
        hfs.State("s3://test/x", storage_options=options)


@pytest.mark.parametrize(
    ("root", "checkpoint"),
    [
        ("s3://bucket/a/b", "s3a://bucket/a/b/query"),
        ("s3a://bucket/a/", "s3a://bucket/a/query"),
        ("s3://bucket", "s3a://bucket/query"),
        ("gs://bucket/a", "gs://bucket/a/query"),
        ("az://container/a", "abfss://container@account.dfs.core.windows.net/a/query"),
    ],
)
def test_the_checkpoint_location_has_sparks_scheme(
    root: str, checkpoint: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("holdfast._core.check_root", lambda *_: None)
    options = {"account_name": "account"} if root.startswith("az") else {}
    assert hfs.State(root, storage_options=options).checkpoint_location == checkpoint
