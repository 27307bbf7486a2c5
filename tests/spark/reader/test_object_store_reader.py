"""Reads of a root in an object store: by the query's state host, and by copies without it.

The server is in memory (moto). `make s3` runs some other tests of readers on a server with files.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import s3_server
from pyspark.sql import DataFrame
from s3_job import Job

import holdfast as hf
import holdfast.spark as hfs
from holdfast.cli import main
from holdfast.errors import HoldfastError, NotUpToBoundError


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with s3_server.moto() as port:
        yield port


@pytest.fixture
def job(port: int, tmp_path: Path) -> Iterator[Job]:
    job = Job(port, tmp_path)
    yield job
    job.kill()


@pytest.fixture(params=["never", "only"], ids=["host", "copies"])
def offline(request: pytest.FixtureRequest) -> str:
    """The option `offline`: the state host answers the reads, or copies do."""
    return request.param


def stop(job: Job) -> None:
    """Leaves only what is in the store."""
    job.kill()
    shutil.rmtree(next(job.base.glob("holdfast-*/state")))


def three_epochs(job: Job, offline: str = "never") -> None:
    """Runs three epochs of a query; stops its host if only copies may answer."""
    job.run((False, 1, "CHF", 95), (False, 1, "USD", 90))
    job.run((False, 3, "CHF", 96))
    job.run((False, 3, "EUR", 100))
    if offline == "only":
        stop(job)


def connect(job: Job, port: int | None = None, **options: Any) -> hf.StateReader:
    given = s3_server.options(job.port if port is None else port)
    return hf.connect(str(job.state.root), storage_options=given, **options)


def rates(table: pa.Table) -> dict[str, int]:
    return dict(zip(table["currency"].to_pylist(), table["rate"].to_pylist(), strict=True))


def test_rows_are_read(job: Job, offline: Any):
    three_epochs(job, offline)
    with connect(job, offline=offline) as reader:
        assert reader.epoch == 2
        table = reader["join"]
        # A host asks the store twice a second whether Spark has committed an epoch.
        assert table.get("CHF", at_least=2)["rate"] == 96
        assert table.get("CHF", as_of=2)["rate"] == 95
        found = table.get_batch(["USD", "JPY", "EUR"])
        assert found["rate"].to_pylist() == [90, None, 100]
        assert found.schema.metadata[b"holdfast.epoch"] == b"2"
        assert rates(table.scan().read_all()) == {"CHF": 96, "EUR": 100, "USD": 90}
        assert table.versions("CHF").read_all()["rate"].to_pylist() == [95, 96]
        changes = table.changes(from_epoch=1).read_all()
        assert list(
            zip(changes["epoch"].to_pylist(), changes["rate"].to_pylist(), strict=True)
        ) == [
            (1, 96),
            (2, 100),
        ]
        one = table.dataset().to_table(filter=ds.field("currency") == "USD")
        assert rates(one) == {"USD": 90}
        assert reader.sql('select sum(rate) from "join"').fetchall() == [(286,)]


def test_a_reader_goes_on_with_copies_and_with_the_next_host(job: Job):
    job.run((False, 1, "CHF", 95))
    with connect(job) as reader:
        table = reader["join"]
        assert table.get("CHF", offline="never")["rate"] == 95
        job.run((False, 2, "CHF", 96))
        assert table.get("CHF", offline="never", at_least=1)["rate"] == 96
        stop(job)
        assert table.get("CHF")["rate"] == 96
        assert rates(table.scan().read_all()) == {"CHF": 96}
        with pytest.raises(NotUpToBoundError, match="no state host of operator join has"):
            table.get("CHF", offline="never", timeout=0.5)
        job.run((False, 3, "CHF", 97))
        assert table.get("CHF", offline="never", at_least=2)["rate"] == 97
        assert table.get("CHF", epoch=0)["rate"] == 95


def test_an_epoch_that_is_not_committed_is_not_read(job: Job, offline: Any):
    three_epochs(job)
    job.epoch += 1
    job.put(f"query/offsets/{job.epoch}", b"v1\n{}\n0")
    job.attempt((False, 9, "CHF", 1))
    with connect(job, offline=offline) as reader:
        table = reader["join"]
        assert table.get("CHF", at_least=2)["rate"] == 96
        staged = table.get("CHF", isolation_level=hf.IsolationLevel.READ_UNCOMMITTED)
        assert staged["rate"] == 1
        job.put(f"query/commits/{job.epoch}", b"v1\n{}")
        assert table.get("CHF", at_least=3)["rate"] == 1


def test_copies_begin_with_a_snapshot(job: Job):
    job.snapshot_interval = 0
    job.run((False, 1, "CHF", 95))
    deadline = time.monotonic() + 30
    while not any(name.startswith("snapshots/join/0/0") for name in job.names()):
        assert time.monotonic() < deadline, (job.base / "log").read_text()
        job.run((False, 1, "USD", job.epoch))
        time.sleep(0.05)
    stop(job)
    asked: list[str] = []

    def note(_number: int, _method: str, path: str) -> None:
        asked.append(path)

    with s3_server.proxy(job.port, note) as front, connect(job, front) as reader:
        assert reader["join"].get("CHF")["rate"] == 95
    assert any("/snapshots/join/0/files/" in path for path in asked), asked
    # The snapshot has the first epoch.
    assert not any("/log/00000000000000000000/join" in path for path in asked), asked


def test_a_reader_changes_nothing_in_the_store(job: Job, offline: Any):
    three_epochs(job, offline)
    methods: set[str] = set()

    def note(_number: int, method: str, _path: str) -> None:
        methods.add(method)

    with (
        s3_server.proxy(job.port, note) as front,
        connect(job, front, offline=offline) as reader,
    ):
        table = reader["join"]
        assert table.get("CHF", at_least=2)["rate"] == 96
        assert table.scan().read_all().num_rows == 3
        assert table.changes().read_all().num_rows == 4
    assert methods - {"HEAD"} == {"GET"}


@pytest.mark.parametrize("fault", ["busy", "lost", "late"])
def test_requests_of_a_reader_are_repeated(job: Job, offline: Any, fault: str):
    three_epochs(job, offline)
    wrong = [0]

    def one_in_five(number: int, _method: str, _path: str) -> str | None:
        if number % 5 != 3:
            return None
        wrong[0] += 1
        return fault

    with s3_server.proxy(job.port, one_in_five) as front:
        while wrong[0] < 4:
            with connect(job, front, offline=offline) as reader:
                table = reader["join"]
                assert table.get("CHF", at_least=2)["rate"] == 96
                assert rates(table.scan().read_all()) == {"CHF": 96, "EUR": 100, "USD": 90}


def test_the_secret_of_a_reader_stays_in_memory(job: Job, tmp_path: Path):
    three_epochs(job, "only")
    (tmp_path / "copies").mkdir()
    with connect(job, cache_dir=tmp_path / "copies") as reader:
        assert reader["join"].get("CHF")["rate"] == 96
        files = [path for path in (tmp_path / "copies").rglob("*") if path.is_file()]
        assert len(files) > 3
        assert not [path for path in files if s3_server.SECRET.encode() in path.read_bytes()]
        assert s3_server.SECRET not in repr(reader)
    with pytest.raises(HoldfastError, match="Connection refused") as refused:
        connect(job, 9)
    assert s3_server.SECRET not in str(refused.value)


def test_the_command_line_reads(job: Job, offline: str, tmp_path: Path, capsys):
    three_epochs(job, offline)
    file = tmp_path / "rates.parquet"

    def holdfast(command: str, *arguments: str) -> list[Any]:
        capsys.readouterr()
        options = s3_server.options(job.port).items()
        given = [f"--storage-option={name}={value}" for name, value in options]
        status = main([command, str(job.state.root), *arguments, "--json", *given])
        shown = capsys.readouterr()
        assert status == 0, shown.err
        assert s3_server.SECRET not in shown.out + shown.err
        return [json.loads(line) for line in shown.out.splitlines()]

    answered = ["--offline", offline, "--at-least", "2"]
    assert [table["table"] for table in holdfast("tables")] == ["join"]
    assert holdfast("get", "join", "CHF", "--columns", "rate", *answered) == [{"rate": 96}]
    scanned = holdfast("scan", "join", "--columns", "currency", *answered)
    assert sorted(row["currency"] for row in scanned) == ["CHF", "EUR", "USD"]
    versions = holdfast("versions", "join", "CHF", "--columns", "rate", *answered)
    assert versions == [{"rate": 95}, {"rate": 96}]
    assert [row["epoch"] for row in holdfast("changes", "join")] == [0, 0, 1, 2]
    assert [row["epoch"] for row in holdfast("epochs")] == [0, 1, 2]
    assert holdfast("sql", 'select max(rate) as n from "join"', *answered) == [{"n": 100}]
    assert holdfast("export", "join", str(file), *answered)[0]["rows"] == 3
    assert rates(pq.read_table(file)) == {"CHF": 96, "EUR": 100, "USD": 90}
    assert holdfast("verify")


def source(job: Job, reader: Any, **options: str) -> DataFrame:
    """The data source, with the options of the store."""
    storage = {f"storage.{name}": value for name, value in s3_server.options(job.port).items()}
    return reader.format("holdfast").options(**options, **storage).load(job.state.root)


def test_the_data_source_reads(job: Job, spark, offline: str):
    three_epochs(job, offline)
    with connect(job, offline=offline) as reader:
        assert reader["join"].get("CHF", at_least=2)["rate"] == 96
    frame = source(job, spark.read, offline=offline)
    assert {row.currency: row.rate for row in frame.collect()} == {
        "CHF": 96,
        "EUR": 100,
        "USD": 90,
    }
    of_key = source(job, spark.read, offline=offline, key="CHF", versions="true", columns="rate")
    assert sorted(row.rate for row in of_key.collect()) == [95, 96]
    old = source(job, spark.read, epoch="0", columns="rate")
    assert sorted(row.rate for row in old.collect()) == [90, 95]


def test_a_stream_follows_the_changes(job: Job, spark, tmp_path: Path):
    three_epochs(job)
    batches: list[list[tuple[Any, ...]]] = []

    def follow() -> list[list[tuple[Any, ...]]]:
        batches.clear()
        changes = source(job, spark.readStream, changes="true")
        writer = changes.select("epoch", "currency", "rate").writeStream.foreachBatch(
            lambda rows, _: batches.append(sorted(map(tuple, rows.collect())))
        )
        writer = writer.option("checkpointLocation", str(tmp_path / "follower"))
        writer.trigger(availableNow=True).start().awaitTermination()
        return [rows for rows in batches if rows]

    (table,) = follow()
    # The versions of the table at its newest epoch.
    assert table == [(2, "CHF", 95), (2, "CHF", 96), (2, "EUR", 100), (2, "USD", 90)]
    job.run((False, 5, "CHF", 97))
    job.run((False, 6, "JPY", 7))
    stop(job)
    assert sum(follow(), []) == [(3, "CHF", 97), (4, "JPY", 7)]
    assert follow() == []
    files = [path for path in (tmp_path / "follower").rglob("*") if path.is_file()]
    assert not [path for path in files if s3_server.SECRET.encode() in path.read_bytes()]


def test_lookup_reads(job: Job, spark, offline: Any):
    three_epochs(job, offline)
    with connect(job, offline=offline) as reader:
        assert reader["join"].get("CHF", at_least=2)["rate"] == 96
    orders = spark.createDataFrame([("CHF",), ("JPY",)], "currency string")
    found = hfs.lookup(
        orders,
        str(job.state.root),
        "join",
        on="currency",
        columns=["rate"],
        storage_options=s3_server.options(job.port),
        offline="never" if offline == "never" else "auto",
    )
    assert {row.currency: row.rate for row in found.collect()} == {"CHF": 96, "JPY": None}
