"""SQL over the tables of a root."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from counted import count_rows
from processors import OUT, EveryKind, Hits
from pyspark.sql import functions as F
from reading import connect
from streams import Stream, at

import holdfast as hf
import holdfast.spark as hfs
from holdfast._reader.sql import database
from holdfast.errors import NotUpToBoundError, StoreClosedError, UnsupportedOperationError

FIRST = [("a", 1, 10), ("b", 2, 20), ("c", 3, 30)]
SECOND = [("a", 5, 50), ("d", 6, 60)]


def frames(stream: Stream, state: hfs.State) -> list:
    source = stream.source("left")
    options = {"by": "k", "state": state}
    return [
        hfs.materialize(source, on="t", history_retention="1 day", name="prices", **options),
        hfs.materialize(source, name="last-row", **options),
        hfs.process(source, Hits(), schema=OUT, name="visits", **options),
        hfs.process(source, EveryKind(), schema=OUT, name="kinds", **options),
    ]


def run(stream: Stream) -> None:
    ones = (frame.select(F.lit(1)).repartition(1) for frame in frames(stream, stream.state()))
    stream.run(reduce(lambda one, other: one.union(other), ones))


@pytest.fixture(scope="module")
def reader(spark, tmp_path_factory: pytest.TempPathFactory) -> Iterator[hf.StateReader]:
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    stream = Stream(spark, tmp_path_factory.mktemp("sql"))
    stream.batch(left=FIRST)
    stream.batch(left=SECOND)
    run(stream)
    with connect(stream) as found:
        yield found


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT k, x FROM prices ORDER BY k", [("a", 50), ("b", 20), ("c", 30), ("d", 60)]),
        ("""SELECT x FROM "last-row" WHERE k = 'a'""", [(50,)]),
        ("SELECT value FROM visits WHERE key = 'a'", [(2,)]),
        ("SELECT value FROM kinds.kv WHERE key IN ('b', 'z')", [(20,)]),
        (
            """
            SELECT k, p.x, v.value FROM prices p JOIN visits v ON p.k = v.key
            WHERE v.value > 1 ORDER BY k
            """,
            [("a", 50, 2)],
        ),
        ("SELECT x FROM versions.prices WHERE k = 'a' ORDER BY valid_from", [(10,), (50,)]),
        (
            "SELECT k, x FROM as_of('prices', timestamp '2024-01-01 00:00:02.5') ORDER BY k",
            [("a", 10), ("b", 20)],
        ),
        (
            """
            SELECT now.x, before.x FROM prices now
            JOIN as_of('prices', timestamptz '2024-01-01 02:00:04+02') before USING (k)
            WHERE now.x <> before.x
            """,
            [(50, 10)],
        ),
        ("SELECT count(*) FROM as_of('prices', now() - interval 1 hour)", [(4,)]),
        ("SELECT count(*) FROM versions.kinds.v", [(5,)]),
        ("SELECT count(*) > 0 FROM as_of('kinds.v', now())", [(True,)]),
        (
            """
            SELECT n, p.x FROM generate_series(0, 6, 3) s(n) ASOF JOIN versions.prices p
            ON p.k = 'a' AND timestamptz '2024-01-01' + n * interval 1 second >= p.valid_from
            ORDER BY n
            """,
            [(3, 10), (6, 50)],
        ),
    ],
)
def test_tables_have_names(reader: hf.StateReader, statement: str, expected: list):
    assert reader.sql(statement).fetchall() == expected


def test_a_statement_takes_parameters_and_returns_or_writes_rows(reader: hf.StateReader, tmp_path):
    rows = reader.sql("SELECT x FROM prices WHERE k = $k", parameters={"k": "b"})
    assert rows.to_arrow_table() == pa.table({"x": pa.array([20], pa.int32())})
    rows.write_parquet(str(tmp_path / "rows.parquet"))
    assert pq.read_table(tmp_path / "rows.parquet")["x"].to_pylist() == [20]
    moment = {"at": at(4)}
    found = reader.sql("SELECT sum(x) FROM as_of('prices', $at)", parameters=moment).fetchall()
    assert found == [(60,)]
    copied = tmp_path / "copied.parquet"
    count = reader.sql(f"COPY (SELECT k FROM prices) TO '{copied}'")
    assert count.fetchall() == [(4,)]
    assert pq.read_table(copied).num_rows == 4


def test_all_versioned_tables_are_as_of_a_moment(reader: hf.StateReader):
    statement = "SELECT (SELECT sum(x) FROM prices), (SELECT count(*) FROM visits)"
    assert reader.sql(statement, as_of=at(2)).fetchall() == [(30, 4)]


def test_a_statement_reads_only_the_keys_that_it_names(reader: hf.StateReader, monkeypatch):
    counted = count_rows(reader, monkeypatch)
    assert reader.sql("SELECT x FROM prices WHERE k IN ('a', 'zz')").fetchall() == [(50,)]
    assert (counted.rows, counted.columns) == (1, {"k", "x"})
    counted.rows = 0
    rows = reader.sql("SELECT x FROM as_of('prices', '2024-01-01 00:00:04Z') WHERE k = 'a'")
    assert rows.fetchall() == [(10,)]
    assert counted.rows == 1
    counted.rows = 0
    reader.sql("SELECT x FROM versions.prices WHERE k = 'a'").fetchall()
    assert counted.rows == 2


def test_a_statement_reads_all_tables_of_one_epoch(stream: Stream, monkeypatch):
    stream.batch(left=FIRST)
    run(stream)
    reader = connect(stream)
    statement = "SELECT (SELECT sum(x) FROM prices), (SELECT sum(value) FROM visits)"
    first = reader.sql(statement)
    connection = reader.duckdb()
    stream.batch(left=SECOND)
    run(stream)
    # The epoch is the newest one at the call, also if its rows are read later.
    assert first.fetchall() == [(60, 3)]
    assert connection.sql(statement).fetchall() == [(60, 3)]
    counted = count_rows(reader, monkeypatch)
    assert reader.sql(statement).fetchall() == [(160, 5)]
    assert reader.sql(statement, epoch=0).fetchall() == [(60, 3)]
    assert reader.sql(statement, at_least=1).fetchall() == [(160, 5)]
    assert set(counted.epochs[:3]) == {1}
    with pytest.raises(UnsupportedOperationError, match="one final epoch"):
        reader.sql(statement, isolation_level=hf.IsolationLevel.READ_UNCOMMITTED)
    with pytest.raises(NotUpToBoundError):
        reader.sql(statement, at_least=7, timeout=0.1)
    with pytest.raises(duckdb.Error, match="epoch 7"):
        reader.sql(statement, epoch=7).fetchall()


def test_tables_from_before_and_after_a_rewind_are_not_read_together(stream: Stream):
    """A regression test: the query computes another epoch of the same number after a rewind."""
    stream.batch(left=FIRST)
    run(stream)
    reader = connect(stream)
    connection = reader.duckdb()
    stream.rewind()
    run(stream)
    for statement in (
        "SELECT count(*) FROM prices",
        "SELECT key FROM visits LIMIT 1",
        "SELECT x FROM versions.prices WHERE k = 'no such key'",
        "SELECT k FROM as_of('prices', now())",
    ):
        with pytest.raises(duckdb.Error, match="epoch 0 was taken back by a rewind"):
            connection.sql(statement).fetchall()
    assert reader.sql("SELECT count(*) FROM prices").fetchall() == [(3,)]


def test_a_moment_for_each_row_is_refused(reader: hf.StateReader):
    rows = reader.sql(
        "SELECT * FROM generate_series(1, 3) s(n), "
        "as_of('prices', timestamptz '2024-01-01' + n * interval 1 second)"
    )
    with pytest.raises(duckdb.Error, match="same for all rows"):
        rows.fetchall()


def test_variables_of_python_are_no_tables(reader: hf.StateReader):
    local = pa.table({"x": [1]})
    assert local.num_rows == 1
    with pytest.raises(duckdb.CatalogException, match="local"):
        reader.sql("SELECT * FROM local")
    connection = reader.duckdb()
    connection.register("local", local)
    assert connection.sql("SELECT count(*) FROM local, prices").fetchall() == [(4,)]


def test_a_dataset_of_versions_has_no_moment(reader: hf.StateReader):
    with pytest.raises(ValueError, match="not both"):
        reader["prices"].dataset(as_of=at(1), versions=True)
    with pytest.raises(UnsupportedOperationError, match="keeps no versions"):
        reader["last-row"].dataset(versions=True)


def stub(operator: str, value: int, newest_rewind_of: Any = lambda _: 0) -> Any:
    """A table of one row, of a reader that answers `newest_rewind_of`."""
    rows = pa.table({"x": [value]})
    selected = SimpleNamespace(read=lambda _, names: rows.select(names).to_reader())
    return SimpleNamespace(
        operator=operator,
        store="main",
        kind="key_value",
        schema=rows.schema,
        _selected_rows=lambda **_: selected,
        _connection=SimpleNamespace(core=SimpleNamespace(newest_rewind_of=newest_rewind_of)),
    )


def test_names_that_differ_only_in_case_are_left_out(caplog: pytest.LogCaptureFixture):
    tables = [stub("rates", 1), stub("Rates", 2), stub("prices", 3)]
    with database(tables, as_of=None, source={"epoch": 0}) as connection:
        assert connection.execute("SELECT x FROM prices").fetchall() == [(3,)]
        with pytest.raises(duckdb.CatalogException, match="rates"):
            connection.execute("SELECT x FROM rates")
    assert [record.args for record in caplog.records] == [("rates", "main"), ("Rates", "main")]


def test_an_open_scan_continues_after_the_reader_is_closed():
    """A regression test: the check for a rewind asked the closed reader."""
    answers = iter([0])

    def newest_rewind_of(_: int) -> int:
        for answer in answers:
            return answer
        raise StoreClosedError("the reader is closed")

    tables = [stub("prices", 3, newest_rewind_of)]
    with database(tables, as_of=None, source={"epoch": 0}) as connection:
        assert connection.execute("SELECT x FROM prices").fetchall() == [(3,)]
