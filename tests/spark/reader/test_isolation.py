"""What readers see of an epoch that Spark has not committed, and of copies that are behind."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow.dataset as ds
import pytest
from pyspark.sql import DataFrame
from reading import connect, same_value, stored
from streams import KEYS, Stream

import holdfast as hf
from holdfast._reader.table_calls import TableCalls
from holdfast.errors import UnsupportedOperationError

COMMITTED = hf.IsolationLevel.READ_COMMITTED
UNCOMMITTED = hf.IsolationLevel.READ_UNCOMMITTED


class Held:
    """A sink that stops in an epoch, when all its rows are computed and staged."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.is_staged = threading.Event()
        self.may_end = threading.Event()

    def __call__(self, rows: DataFrame, epoch: int) -> None:
        rows.collect()
        if epoch == self.epoch:
            self.is_staged.set()
            assert self.may_end.wait(120)


@contextlib.contextmanager
def held(stream: Stream, frame: DataFrame, epoch: int) -> Iterator[Any]:
    """Runs a query until an epoch is staged, and keeps it from being committed."""
    sink = Held(epoch)
    writer = frame.writeStream.foreachBatch(sink)
    query = writer.option("checkpointLocation", stream.checkpoint).start()
    try:
        assert sink.is_staged.wait(120), query.exception()
        yield sink, query
    finally:
        sink.may_end.set()
        query.stop()


def values(table: hf.StateTable, **options: Any) -> list[int | None]:
    """Returns the values of all keys, each read in three ways that must agree."""
    one = [(table.get(key, **options) or {"x": None})["x"] for key in KEYS]
    many = table.get_batch(list(KEYS), **options)["x"].to_pylist()
    rows = {row["k"]: row["x"] for row in table.scan(**options).read_all().to_pylist()}
    assert one == many == [rows.get(key) for key in KEYS]
    return one


@pytest.mark.parametrize("offline", ["never", "only"])
def test_read_uncommitted_sees_what_is_staged(stream: Stream, offline: str):
    same_value(stream, 0)
    same_value(stream, 1)
    with held(stream, stored(stream), 1) as (sink, query):
        table = connect(stream, offline=offline)["table"]
        assert set(values(table)) == set(values(table, isolation_level=COMMITTED)) == {0}
        assert set(values(table, isolation_level=UNCOMMITTED)) == {1}
        # Reads at the other level leave the final epoch as it is.
        assert set(values(table)) == {0}
        metadata = table.scan(isolation_level=UNCOMMITTED).schema.metadata
        assert metadata[b"holdfast.epoch"] == b"0"
        assert metadata[b"holdfast.isolation_level"] == b"READ_UNCOMMITTED"
        sink.may_end.set()
        query.processAllAvailable()
        assert set(values(table)) == set(values(table, isolation_level=UNCOMMITTED)) == {1}
        metadata = table.get_batch(["a"]).schema.metadata
        assert metadata[b"holdfast.epoch"] == b"1"
        assert metadata[b"holdfast.isolation_level"] == b"READ_COMMITTED"


def test_read_uncommitted_sees_what_a_stopped_query_has_staged(stream: Stream):
    for value in (0, 1):
        same_value(stream, value)
        stream.run(stored(stream))
    stream.forget_commit(1)
    table = connect(stream, offline="only")["table"]
    assert set(values(table, isolation_level=UNCOMMITTED)) == {1}
    assert set(values(table)) == {0}


def test_the_state_sets_the_default_level_of_readers(stream: Stream):
    same_value(stream, 0)
    same_value(stream, 1)
    with held(stream, stored(stream, state=stream.state(default_isolation_level=UNCOMMITTED)), 1):
        table = connect(stream)["table"]
        assert set(values(table)) == {1}
        assert set(values(table, isolation_level=COMMITTED)) == {0}
        # An exact epoch is a final one.
        assert set(values(table, epoch=0)) == {0}
        with pytest.raises(ValueError, match="leave epoch out"):
            table.get("a", epoch=0, isolation_level=UNCOMMITTED)
        with pytest.raises(TypeError, match="isolation_level is 'x'; wanted: one of Isolation"):
            table.get("a", isolation_level="x")


def test_a_dataset_at_read_uncommitted_is_of_one_epoch(stream: Stream, monkeypatch):
    same_value(stream, 0)
    same_value(stream, 1)
    scan, calls = TableCalls.scan, itertools.count()

    def moving(self: TableCalls, call: Any, bounds: Any, source: hf.ReadSource, *of: Any) -> Any:
        """Scans as if a micro-batch ran meanwhile: every second scan has an older epoch."""
        found, epoch = scan(self, call, bounds, source, *of)
        return found, epoch - (next(calls) % 2 if source.get("epoch") is None else 0)

    with held(stream, stored(stream, by=["k", "x"]), 1):
        rows = connect(stream)["table"].dataset(isolation_level=UNCOMMITTED)
        two_keys = ds.field("k").isin(list(KEYS[:2]))
        assert rows.count_rows(filter=two_keys) == 4
        monkeypatch.setattr(TableCalls, "scan", moving)
        # Only final epochs can be read again.
        assert rows.count_rows(filter=two_keys) == 2
        assert next(calls) == 6


def test_sql_reads_final_epochs(stream: Stream):
    same_value(stream, 0)
    same_value(stream, 1)
    state = stream.state(default_isolation_level=UNCOMMITTED)
    with held(stream, stored(stream, state=state), 1):
        reader = connect(stream)
        statement = 'SELECT DISTINCT x FROM "table"'
        assert reader.sql(statement).fetchall() == [(0,)]
        with pytest.raises(UnsupportedOperationError, match="leave the isolation level out"):
            reader.sql(statement, isolation_level=UNCOMMITTED)
        with pytest.raises(UnsupportedOperationError, match="one final epoch"):
            reader.sql(statement, isolation_level=UNCOMMITTED, epoch=0)
        with pytest.raises(TypeError, match="isolation_level is 'x'"):
            reader.sql(statement, isolation_level="x")
        staged = reader["table"].dataset(isolation_level=UNCOMMITTED)
        assert duckdb.sql("SELECT DISTINCT x FROM staged").fetchall() == [(1,)]
        assert staged.schema.names[0] == "k"


def test_the_level_may_change_between_two_starts(stream: Stream):
    same_value(stream, 0)
    stream.run(stored(stream, state=stream.state(default_isolation_level=UNCOMMITTED)))
    same_value(stream, 1)
    with held(stream, stored(stream), 1):
        assert set(values(connect(stream)["table"])) == {0}


def test_stale_copies_are_read_if_that_is_allowed(stream: Stream):
    same_value(stream, 0)
    stream.run(stored(stream))
    table = connect(stream, offline="only")["table"]
    assert set(values(table, stale_ok=True)) == {0}, "there is no copy yet: one is made"
    for value in (1, 2):
        same_value(stream, value)
        stream.run(stored(stream))
    stale = table.scan(stale_ok=True)
    assert set(stale.read_all()["x"].to_pylist()) == {0}
    assert stale.schema.metadata[b"holdfast.behind"] == b"2"
    assert stale.schema.metadata[b"holdfast.epoch"] == b"0"
    assert set(values(table, stale_ok=True, at_least=1)) == {2}
    assert set(values(table)) == {2}
    newest = table.scan(stale_ok=True).schema.metadata
    assert newest[b"holdfast.behind"] == b"0"


def test_a_read_of_no_keys_has_the_newest_epoch(stream: Stream):
    same_value(stream, 0)
    stream.run(stored(stream))
    same_value(stream, 1)
    stream.run(stored(stream))
    for offline in ("auto", "never", "only"):
        table = connect(stream, offline=offline)["table"]
        table.scan(offline="auto").read_all()
        found = table.get_batch([], timeout=5)
        assert (found.num_rows, found.schema.metadata[b"holdfast.epoch"]) == (0, b"1")
        assert table.get_batch([], epoch=0).schema.metadata[b"holdfast.epoch"] == b"0"


def test_an_old_epoch_is_refused_at_once_if_only_hosts_may_answer(stream: Stream):
    for value in (0, 1, 2):
        same_value(stream, value)
    with held(stream, stored(stream), 2):
        table = connect(stream, offline="never")["table"]
        with pytest.raises(ValueError, match="hosts have epoch 1, and no longer epoch 0: offline="):
            table.get("a", epoch=0, timeout=600)
