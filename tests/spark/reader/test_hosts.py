"""Reads beside a state host of which each step is known, without Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hosted import JOIN, LAYOUT, Host, Query

import holdfast as hf
from holdfast import _core


def rate(partition: int, currency: str, value: int) -> pa.RecordBatch:
    """A right row of the join at a time that is its value."""
    row = (partition, False, None, value, currency, None, value)
    columns = [[cell] for cell in row]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, LAYOUT, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=LAYOUT)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    (tmp_path / "host").mkdir()
    host = Host(tmp_path / "host")
    yield host
    host.stop()


@pytest.fixture
def query(host: Host, tmp_path: Path) -> Query:
    return Query(host, tmp_path / "state", JOIN, partitions=1)


@pytest.mark.parametrize("offline", ["never", "only"])
def test_an_epoch_is_read_once_it_is_committed(query: Query, offline: str):
    query.epoch([[rate(0, "EUR", 1)]])
    table = hf.connect(query.root, offline=offline)["join"]
    assert table.get("EUR")["rate"] == 1
    query.epoch([[rate(0, "EUR", 2)]], commit=False)
    assert table.get("EUR")["rate"] == 1
    query.epoch([[rate(0, "EUR", 2)]])
    assert table.get("EUR")["rate"] == 2
    assert table.get("EUR", as_of=1)["rate"] == 1


@pytest.mark.parametrize("offline", ["never", "only"])
def test_a_read_of_an_epoch_does_not_change_the_next_one(query: Query, offline: str):
    table = None
    for number in range(5):
        query.epoch([[rate(0, "EUR", number)]])
        table = table or hf.connect(query.root, offline=offline)["join"]
        assert table.get("EUR")["rate"] == number
    decided = [len(list(folder.glob("decided.*"))) for folder in (query.root / "log").iterdir()]
    assert max(decided) == 1


def test_a_host_sends_back_the_bytes_of_a_reader(query: Query):
    query.epoch([[rate(0, "EUR", 1)]])
    reader = _core.StateReader.connect(str(query.root), {}, (None, None))
    assert reader.echo("join", 0, b"same") == b"same"
    assert reader.echo("join", 1, b"same") is None
    assert reader.echo("join", 0, b"") == b""


def test_reads_do_not_keep_an_idle_host_alive(tmp_path: Path):
    (tmp_path / "host").mkdir()
    query = Query(Host(tmp_path / "host", idle=5), tmp_path / "state", JOIN, partitions=1)
    query.epoch([[rate(0, "EUR", 1)]])
    table = hf.connect(query.root)["join"]
    deadline = time.monotonic() + 60
    while query.host.process.poll() is None:
        assert table.get("EUR")["rate"] == 1
        assert time.monotonic() < deadline, "the host serves the reader for ever"
        time.sleep(0.05)
    # The host has ended, so a copy answers.
    assert table.get("EUR")["rate"] == 1


def test_no_epoch_is_read_before_the_first_commit(query: Query):
    query.epoch([[rate(0, "EUR", 1)]], commit=False)
    reader = hf.connect(query.root)
    assert reader.epoch is None
    with pytest.raises(hf.errors.NotUpToBoundError, match="no epoch is final yet"):
        reader["join"].get("EUR")
