"""Reads of a query that runs: by its state hosts, and while hosts and queries end."""

from __future__ import annotations

import contextlib
import pickle
import shutil
import threading
import time
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from processors import OUT, Hits
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.functions import pandas_udf
from reading import connect, same_value, stored
from streams import KEYS, Stream, at, kill_hosts

import holdfast as hf
import holdfast.spark as hfs
from holdfast._reader.connection import _connected
from holdfast.errors import HoldfastError, NotUpToBoundError, StateMismatchError

DAY = "1 day"


@contextlib.contextmanager
def running(stream: Stream, frame) -> Iterator[Any]:
    """Runs a query that waits for input."""
    writer = frame.writeStream.format("noop").option("checkpointLocation", stream.checkpoint)
    query = writer.trigger(processingTime="0 seconds").start()
    try:
        query.processAllAvailable()
        yield query
    finally:
        query.stop()


def test_an_idle_query_answers_with_its_last_epoch(stream: Stream):
    same_value(stream, 0)
    with running(stream, stored(stream)):
        table = connect(stream, offline="never")["table"]
        # No session follows the first epoch, so a read applies it.
        assert table.get("a")["x"] == 0
        assert table.scan().read_all().num_rows == len(KEYS)


def test_columns_that_a_micro_batch_adds_are_read(stream: Stream):
    """The host has read the operator's tables before, in the same run."""

    def put(rows: DataFrame, epoch: int) -> None:
        frame = rows.selectExpr("k", "x", *["x + 100 AS more"] * epoch)
        hfs.materialize(frame, by="k", state=stream.state(), name="table").count()

    same_value(stream, 1)
    writer = stream.source("left").writeStream.foreachBatch(hfs.foreach_batch(put))
    query = writer.option("checkpointLocation", stream.checkpoint).start()
    try:
        query.processAllAvailable()
        assert connect(stream, offline="never")["table"].scan().read_all().num_rows == len(KEYS)
        same_value(stream, 2)
        query.processAllAvailable()
        found = connect(stream, offline="never")["table"].scan().read_all().to_pylist()
    finally:
        query.stop()
    assert [(row["x"], row["more"]) for row in found] == [(2, 102)] * len(KEYS)


def test_every_answer_is_of_one_epoch_while_epochs_go_on(stream: Stream):
    same_value(stream, 0)
    rounds = 25
    with running(stream, stored(stream)) as query:
        table = connect(stream, offline="never")["table"]
        failed: list[Any] = []
        answers: list[int] = []
        ended = threading.Event()

        def read() -> None:
            before = 0
            try:
                while not ended.is_set():
                    found = set(table.get_batch(list(KEYS))["x"].to_pylist())
                    scanned = set(table.scan().read_all()["x"].to_pylist())
                    one = table.get("a")["x"]
                    if len(found) > 1 or len(scanned) > 1:
                        failed.append((found, scanned))
                    if not before <= max(found) <= max(scanned) <= one:
                        failed.append((before, found, scanned, one))
                    before = one
                    answers.append(one)
            except Exception as error:  # noqa: BLE001 - shown by the test
                failed.append(error)

        readers = [threading.Thread(target=read) for _ in range(4)]
        for reader in readers:
            reader.start()
        for value in range(1, rounds):
            same_value(stream, value)
        query.processAllAvailable()
        ended.set()
        for reader in readers:
            reader.join()
        assert failed == []
        assert len(set(answers)) > 3, "the readers saw almost no epoch"
        # In an object store a reader sees an epoch up to half a second later.
        assert table.get("a", at_least=rounds - 1)["x"] == rounds - 1


def test_at_least_waits_for_an_epoch(stream: Stream):
    same_value(stream, 0)
    with running(stream, stored(stream)):
        table = connect(stream)["table"]
        assert table.get("a")["x"] == 0
        with pytest.raises(NotUpToBoundError, match="has not reached epoch 1 within 0.2 s"):
            table.get("a", at_least=1, timeout=0.2)
        later = threading.Timer(0.5, same_value, (stream, 1))
        later.start()
        assert table.get("a", at_least=1, timeout=60)["x"] == 1
        later.join()
        assert set(table.scan(at_least=1, timeout=60).read_all()["x"].to_pylist()) == {1}


def test_copies_answer_when_the_hosts_are_killed(stream: Stream):
    same_value(stream, 0)
    with running(stream, stored(stream)):
        table = connect(stream)["table"]
        never = connect(stream, offline="never")["table"]
        assert never.get("a")["x"] == 0
        assert kill_hosts()
        assert table.get("a")["x"] == 0
        assert set(table.scan().read_all()["x"].to_pylist()) == {0}
        with pytest.raises(NotUpToBoundError, match="no state host of operator table has"):
            never.get("a", timeout=0.3)
        same_value(stream, 1)
        deadline = time.monotonic() + 60
        while never.get("a", timeout=60)["x"] != 1:
            assert time.monotonic() < deadline
        assert table.get("a")["x"] == 1


def test_a_scan_stays_at_its_epoch(stream: Stream):
    same_value(stream, 0)
    with running(stream, stored(stream)) as query:
        table = connect(stream, offline="never")["table"]
        scan = table.scan()
        same_value(stream, 1)
        query.processAllAvailable()
        assert table.get("a", at_least=1)["x"] == 1
        assert set(scan.read_all()["x"].to_pylist()) == {0}


def many_keys(stream: Stream, rows: int) -> None:
    """Writes a micro-batch of many keys, more than a host sends ahead of a reader."""
    keys = pa.array([f"{key:08}-{'x' * 100}" for key in range(rows)])
    numbers = pa.array(range(rows), pa.int32())
    times = pa.array([at(0)] * rows, stream.schemas["left"].field("t").type)
    table = pa.Table.from_arrays([keys, times, numbers], schema=stream.schemas["left"])
    pq.write_table(table, stream.base / "left" / "many.parquet")


def test_a_scan_goes_on_with_copies_when_its_host_is_killed(stream: Stream):
    rows = 150_000
    many_keys(stream, rows)
    with running(stream, stored(stream)):
        table = connect(stream)["table"]
        scan, failing = table.scan(columns=["x"]), table.scan(columns=["x"], offline="never")
        found = scan.read_next_batch()["x"].to_pylist()
        failing.read_next_batch()
        assert kill_hosts()
        found += scan.read_all()["x"].to_pylist()
        assert len(found) == rows, "rows are missing, or come twice"
        assert set(found) == set(range(rows))
        with pytest.raises(HoldfastError, match="the state host of a scan has ended .*scan again"):
            failing.read_all()


@pytest.mark.parametrize("offline", ["auto", "only"])
def test_epochs_that_were_taken_back_are_not_read(stream: Stream, offline: str):
    for value in range(3):
        same_value(stream, value)
    stream.run(stored(stream))
    table = connect(stream, offline=offline)["table"]
    assert table.get("a")["x"] == 2
    stream.rewind(2)
    # A reader checks for rewinds twice a second. The host still has the state of epoch 2.
    time.sleep(0.6)
    assert table.get("a")["x"] == 1
    assert set(table.scan().read_all()["x"].to_pylist()) == {1}
    stream.run(stored(stream))
    assert table.get("a")["x"] == 2


def test_the_token_of_a_reader_opens_no_session(stream: Stream):
    import json

    from holdfast._core import HostClient

    same_value(stream, 0)
    with running(stream, stored(stream)):
        files = sorted((stream.root / "readers" / "table" / "0").iterdir())
        address = json.loads(files[-1].read_bytes())
        if "storage_options" not in stream.options:
            assert files[-1].stat().st_mode & 0o077 == 0
        client = HostClient.connect(address["socket"], address["token"], 5)
        wrong = "Open where Read, ReadStored or Echo belongs"
        with pytest.raises(hf.errors.HoldfastError, match=wrong):
            client.open_session(json.dumps({"root": stream.address}))
        assert connect(stream, offline="never")["table"].get("a")["x"] == 0


def test_a_table_is_used_in_a_pandas_udf(stream: Stream, spark):
    stream.batch(left=[("a", 1, 1), ("b", 2, 2), ("a", 3, 3)])
    with running(stream, stored(stream, on="t", history_retention=DAY)):
        table = connect(stream)["table"]

        @pandas_udf("int")
        def value(keys: pd.Series, times: pd.Series) -> pd.Series:
            # Spark gives times of the session's zone without the zone.
            moments = times.dt.tz_localize("UTC")
            return table.get_batch(keys, as_of=moments)["x"].to_pandas()

        rows = spark.createDataFrame(
            [("a", at(2)), ("a", at(5)), ("b", at(5)), ("zz", at(5))], "k string, t timestamp"
        )
        found = rows.select("k", value("k", "t").alias("x")).collect()
        assert [tuple(row) for row in found] == [("a", 1), ("a", 3), ("b", 2), ("zz", None)]


def test_readers_of_one_process_are_shared_when_unpickled(stream: Stream):
    same_value(stream, 0)
    stream.run(stored(stream))
    table = connect(stream)["table"]
    first, second = (pickle.loads(pickle.dumps(table)) for _ in range(2))
    assert first.get("a") == second.get("a") == {"t": at(0), "x": 0}
    assert first._connection is second._connection


def test_a_task_that_closes_its_reader_does_not_close_those_of_later_tasks(stream: Stream):
    same_value(stream, 0)
    stream.run(stored(stream))
    pickled = pickle.dumps(connect(stream))
    for _ in range(2):
        with pickle.loads(pickled) as reader:
            assert reader["table"].get("a") == {"t": at(0), "x": 0}


def test_a_table_of_a_closed_reader_pickles(stream: Stream):
    """Spark Connect pickles a function when its plan is sent, after `with connect(...)`."""
    same_value(stream, 0)
    stream.run(stored(stream))
    with connect(stream) as reader:
        table = reader["table"]
    assert pickle.loads(pickle.dumps(table)).get("a") == {"t": at(0), "x": 0}


def test_a_root_that_was_made_again_needs_another_reader(stream: Stream):
    """As in a notebook, which deletes the root of a query and starts the query again."""
    same_value(stream, 0)
    stream.run(stored(stream))
    tables = [connect(stream)["table"], pickle.loads(pickle.dumps(connect(stream)["table"]))]
    for table in tables:
        assert table.get("a") == {"t": at(0), "x": 0}
    shutil.rmtree(stream.root)
    time.sleep(0.6)  # a reader caches what it has read for half a second
    with pytest.raises(StateMismatchError, match="there is no state here"):
        tables[0].get("a")
    assert kill_hosts()
    with pytest.raises(StateMismatchError, match="there is no state here"):
        tables[0].get("a")
    pickled = pickle.dumps(tables[0])
    # The epoch of the new root has the same number as that of the first root.
    stream.batches.clear()
    for file in (stream.base / "left").iterdir():
        file.unlink()
    same_value(stream, 7)
    stream.run(stored(stream))
    for table in tables:
        with pytest.raises(StateMismatchError, match="made again since the reader connected"):
            table.get("a")
    _connected.cache_clear()
    with pytest.raises(StateMismatchError, match="made again since the reader connected"):
        pickle.loads(pickled)
    again = connect(stream)["table"]
    for table in (again, pickle.loads(pickle.dumps(again))):
        assert table.get("a")["x"] == 7


def test_keys_of_a_processors_store_are_found_in_every_partition(stream: Stream):
    stream.batch(left=[(key, 1, 1) for key in KEYS])
    frame = hfs.process(
        stream.source("left"), Hits(), by="k", schema=OUT, state=stream.state(), name="visits"
    )
    with running(stream, frame):
        table = connect(stream, offline="never")["visits"]
        assert table.get_batch([*KEYS, "zz"])["value"].to_pylist() == [1] * len(KEYS) + [None]
        assert table.get("h") == {"value": 1}


def test_lookup_adds_the_row_of_each_key(stream: Stream, spark):
    stream.batch(left=[("a", 1, 1), ("b", 2, 2), ("a", 3, 3)])
    with running(stream, stored(stream, on="t", history_retention=DAY)):
        orders = spark.createDataFrame(
            [(1, "a", at(2)), (2, "a", at(5)), (3, "b", at(1)), (4, None, at(5))],
            "n int, currency string, t timestamp",
        )
        options = stream.options.get("storage_options")
        asked = {"on": "currency", "columns": ["x"], "storage_options": options}
        found = hfs.lookup(orders, stream.address, "table", as_of="t", **asked)
        assert found.columns == ["n", "currency", "t", "x"]
        assert [(row.n, row.x) for row in found.sort("n").collect()] == [
            (1, 1),
            (2, 3),
            (3, None),
            (4, None),
        ]
        now = hfs.lookup(orders, stream.address, "table", **asked)
        assert [row.x for row in now.sort("n").collect()] == [3, 3, 2, None]
        with_key = hfs.lookup(
            orders, stream.address, "table", as_of="t", **asked | {"columns": ["k", "x"]}
        )
        # A row that is not found has a null key, too, as in a left join.
        assert [(row.k, row.x) for row in with_key.sort("n").collect()] == [
            ("a", 1),
            ("a", 3),
            (None, None),
            (None, None),
        ]
        with pytest.raises(ValueError, match="both the frame and the table have a column 'x'"):
            hfs.lookup(orders.withColumnRenamed("n", "x"), stream.address, "table", **asked)
        with pytest.raises(ValueError, match="the table's key is \\['k'\\]"):
            hfs.lookup(orders, stream.address, "table", **{**asked, "on": ["currency", "t"]})
        with pytest.raises(ValueError, match="the frame has no column 'since'"):
            hfs.lookup(orders, stream.address, "table", as_of="since", **asked)
        with pytest.raises(ValueError, match="column 'n' is int, .* 'k' is string: cast"):
            hfs.lookup(orders, stream.address, "table", **{**asked, "on": "n"})
        for kind in ("timestamp_ntz", "date", "bigint"):
            other = orders.withColumn("t", F.col("t").cast(kind))
            with pytest.raises(ValueError, match="as_of: column 't' is .* is timestamp: cast"):
                hfs.lookup(other, stream.address, "table", as_of="t", **asked)
        collated = orders.withColumn("currency", F.collate("currency", "UTF8_LCASE"))
        with pytest.raises(ValueError, match="is string collate UTF8_LCASE"):
            hfs.lookup(collated, stream.address, "table", **asked)


@pytest.mark.parametrize(
    ("stored_type", "fitting", "others"),
    [
        ("float", ["float"], ["double", "int"]),
        ("double", ["double", "float"], ["bigint", "decimal(3,1)"]),
        ("bigint", ["bigint", "int", "tinyint"], ["double", "string"]),
        ("int", ["int", "smallint"], ["bigint"]),
        ("timestamp", ["timestamp"], ["timestamp_ntz", "date"]),
    ],
)
def test_lookup_takes_keys_whose_values_are_values_of_the_table(
    stream: Stream, spark, stored_type: str, fitting: list[str], others: list[str]
):
    number = "timestamp_seconds(7)" if stored_type == "timestamp" else "7"
    stream.batch(left=[("a", 1, 1)])
    rows = stream.source("left").selectExpr(f"cast({number} AS {stored_type}) AS k", "t", "x")
    frame = hfs.materialize(rows, by="k", state=stream.state(), name="table")
    with running(stream, frame):
        options = stream.options.get("storage_options")
        asked: dict[str, Any] = {"on": "k", "columns": ["x"], "storage_options": options}
        for kind in fitting:
            keys = spark.range(1).selectExpr(f"cast({number} AS {kind}) AS k")
            found = hfs.lookup(keys, stream.address, "table", **asked)
            assert [row.x for row in found.collect()] == [1]
        for kind in others:
            keys = spark.range(1).selectExpr(f"cast({number} AS {kind}) AS k")
            with pytest.raises(ValueError, match=r"'k' is .*: cast the frame's column"):
                hfs.lookup(keys, stream.address, "table", **asked)


def test_lookup_of_a_null_key_finds_no_group(stream: Stream, spark):
    stream.batch(left=[("a", 1, 1), (None, 2, 2), (None, 3, 3)])
    frame = hfs.aggregate(
        stream.source("left"), by="k", aggs={"n": "count"}, state=stream.state(), name="table"
    )
    with running(stream, frame):
        assert connect(stream)["table"].get(None) == {"n": 2}
        asked = spark.createDataFrame([("a", 1), (None, 2), ("zz", 3)], "k string, x int")
        options = stream.options.get("storage_options")
        found = hfs.lookup(
            asked, stream.address, "table", on="k", columns=["n"], storage_options=options
        )
        assert [row.n for row in found.sort("x").collect()] == [1, None, None]


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_lookup_as_of_a_column_of_the_type_of_the_tables_time(stream: Stream, spark, kind: str):
    stream.batch(left=[("a", 1, 1), ("a", 5, 5)])
    rows = stream.source("left").withColumn("t", F.col("t").cast(kind))
    frame = hfs.materialize(
        rows, by="k", on="t", history_retention="1 hour", state=stream.state(), name="table"
    )
    with running(stream, frame):
        moments = spark.createDataFrame(
            [("a", at(1)), ("a", at(4)), ("a", at(9))], "k string, t timestamp"
        )
        moments = moments.withColumn("t", F.col("t").cast(kind))
        found = hfs.lookup(
            moments,
            stream.address,
            "table",
            on="k",
            as_of="t",
            columns=["x"],
            storage_options=stream.options.get("storage_options"),
        )
        assert [row.x for row in found.sort("t").collect()] == [1, 1, 5]


def test_lookup_in_a_stream_of_another_query(stream: Stream, spark, tmp_path):
    (tmp_path / "other").mkdir()
    same_value(stream, 7)
    with running(stream, stored(stream)):
        other = Stream(spark, tmp_path / "other")
        other.batch(left=[("a", 1, 100), ("zz", 2, 200)])
        left = other.source("left").select("k", F.col("x").alias("n"))
        found: list[Any] = []
        joined = hfs.lookup(
            left,
            stream.address,
            "table",
            on={"k": "k"},
            columns=["x"],
            storage_options=stream.options.get("storage_options"),
        )
        writer = joined.writeStream.foreachBatch(
            lambda frame, _: found.extend(map(tuple, frame.collect()))
        )
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        assert sorted(found) == [("a", 100, 7), ("zz", 200, None)]
