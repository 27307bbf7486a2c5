"""Spark's data source `holdfast` in batch queries, with state hosts and without."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from processors import OUT, Hits
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from reading import counted_windows, stored
from streams import KEYS, Stream, at, seconds

import holdfast as hf
import holdfast.spark as hfs

DAY = "1 day"
PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(params=["auto", "only"], ids=["hosts", "copies"])
def offline(request: pytest.FixtureRequest) -> str:
    """The option `offline`: state hosts answer the reads, or copies do."""
    return request.param


@pytest.fixture
def push_down(spark) -> Iterator[None]:
    spark.conf.set(PUSH_DOWN, "true")
    yield
    spark.conf.unset(PUSH_DOWN)


def read(stream: Stream, **options: Any) -> DataFrame:
    reader = stream.spark.read.format("holdfast").options(**options)
    for name, value in stream.options.get("storage_options", {}).items():
        reader = reader.option(f"storage.{name}", value)
    return reader.load(stream.address)


def versioned(stream: Stream) -> None:
    """Runs a query with three versions of a, one of b, in two epochs."""
    frame = stored(stream, on="t", history_retention=DAY)
    stream.batch(left=[("a", 1, 1), ("b", 2, 2), ("a", 3, 3)])
    stream.batch(left=[("a", 5, 5)])
    stream.run(frame)


def rows(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    found = (frame.select(*columns) if columns else frame).collect()
    plain = [tuple(seconds(c) if isinstance(c, datetime) else c for c in row) for row in found]
    return sorted(plain, key=str)


def test_rows_of_a_table_are_read(stream: Stream, offline: str):
    stream.batch(left=[(key, number, number) for number, key in enumerate(KEYS)])
    stream.run(stored(stream))
    frame = read(stream, table="table", offline=offline)
    assert frame.dtypes == [("k", "string"), ("t", "timestamp"), ("x", "int")]
    assert frame.rdd.getNumPartitions() == stream.partitions
    assert rows(frame) == [(key, float(n), n) for n, key in enumerate(KEYS)]
    assert rows(read(stream, offline=offline), "x") == [(n,) for n in range(len(KEYS))]


def test_versions_and_moments_are_read(stream: Stream, offline: str):
    versioned(stream)
    options = {"table": "table.table", "offline": offline}
    asked = "k", "valid_from", "valid_to", "x"
    assert rows(read(stream, **options), *asked) == [("a", 5.0, None, 5), ("b", 2.0, None, 2)]
    every = [("a", 1.0, 3.0, 1), ("a", 3.0, 5.0, 3), ("a", 5.0, None, 5), ("b", 2.0, None, 2)]
    assert rows(read(stream, versions="true", **options), *asked) == every
    of_one = read(stream, versions="true", key="a", **options)
    assert rows(of_one, *asked) == every[:3]
    text = at(4).isoformat()
    for as_of in (text, text.replace("+00:00", "Z"), str(int(at(4).timestamp() * 1_000_000))):
        assert rows(read(stream, as_of=as_of, **options), "k", "x") == [("a", 3), ("b", 2)]
    assert rows(read(stream, as_of=text, key="a", **options), "x") == [(3,)]


def test_an_epoch_is_read(stream: Stream, offline: str):
    versioned(stream)
    assert rows(read(stream, epoch="0", offline=offline), "k", "x") == [("a", 3), ("b", 2)]
    assert rows(read(stream, epoch="1", offline=offline), "k", "x") == [("a", 5), ("b", 2)]
    with pytest.raises(Exception, match="has not reached epoch 2"):
        read(stream, epoch="2", offline=offline).collect()


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("a", ["a"]),
        ('"a"', ["a"]),
        ('["a", "c", "a", "zz"]', ["a", "c"]),
        ('{"k": "b"}', ["b"]),
        ('[{"k": "b"}, {"k": "d"}]', ["b", "d"]),
        ("zz", []),
        ("[]", []),
    ],
)
def test_the_rows_of_keys_are_read(stream: Stream, offline: str, key: str, found: list[str]):
    stream.batch(left=[(key, number, number) for number, key in enumerate(KEYS)])
    stream.run(stored(stream))
    frame = read(stream, key=key, offline=offline)
    assert rows(frame, "k") == [(key,) for key in found]
    assert frame.rdd.getNumPartitions() <= max(len(found), 1) + 1


def test_keys_of_several_columns_are_read(stream: Stream):
    frame = stream.source("left").selectExpr(
        "k", "x as n", "t as since", "cast(x as decimal(9,2)) d"
    )
    stream.batch(left=[(key, number, number) for number, key in enumerate(KEYS)])
    stream.run(
        hfs.materialize(frame, by=["k", "n", "since", "d"], name="table", state=stream.state())
    )
    of = {f"2024-01-01T00:00:0{n}Z" for n in range(4)}
    assert len(of) == 4
    key = ["c", 2, "2024-01-01T00:00:02Z", "2.00"]
    assert rows(read(stream, key=json.dumps(key)), "k") == [("c",)]
    two = [key, {"d": 3.0, "k": "d", "n": 3, "since": "2024-01-01T00:00:03Z"}]
    assert rows(read(stream, key=json.dumps(two)), "k") == [("c",), ("d",)]
    for wrong in (["c"], ["c", 2, "yesterday", 2], "c"):
        with pytest.raises(Exception, match="key"):
            read(stream, key=json.dumps(wrong)).collect()


def test_columns_are_chosen_by_option_or_schema(stream: Stream):
    versioned(stream)
    assert read(stream, columns="x, k").columns == ["x", "k"]
    assert rows(read(stream, columns='["x"]')) == [(2,), (5,)]
    schema = stream.spark.read.schema("x int").format("holdfast")
    for name, value in stream.options.get("storage_options", {}).items():
        schema = schema.option(f"storage.{name}", value)
    assert rows(schema.load(stream.address)) == [(2,), (5,)]
    with pytest.raises(Exception, match="is int, and the schema says bigint"):
        schema.schema("x long").load(stream.address).collect()
    with pytest.raises(AnalysisException, match="the table has no column 'y'"):
        read(stream, columns="y")


def test_counts_and_joins_need_no_columns(stream: Stream):
    versioned(stream)
    assert read(stream).count() == 2
    orders = stream.spark.createDataFrame([(1, "a"), (2, "zz")], "n int, k string")
    joined = orders.join(read(stream), "k", "left")
    assert rows(joined, "n", "x") == [(1, 5), (2, None)]


def test_filters_of_one_frame_do_not_limit_another(stream: Stream, push_down):
    stream.batch(left=[(key, number, number) for number, key in enumerate(KEYS)])
    stream.run(stored(stream))
    table = read(stream)
    assert rows(table.where("k = 'a'"), "x") == [(0,)]
    assert table.count() == len(KEYS)
    both = table.where("k = 'a'").union(table.where("k = 'b'"))
    assert rows(both, "x") == [(0,), (1,)]
    joined = table.where("x = 2").join(table.withColumnRenamed("x", "y"), "k")
    assert rows(joined, "x", "y") == [(2, 2)]


def test_a_filter_and_the_option_key_are_both_applied(stream: Stream):
    stream.batch(left=[(key, number, number) for number, key in enumerate(KEYS)])
    stream.run(stored(stream))
    assert rows(read(stream, key="a").where("k = 'b'")) == []
    assert rows(read(stream, columns="x").where("x = 3")) == [(3,)]


def test_windows_are_read(stream: Stream, offline: str):
    stream.batch(left=[("a", 5, 1), ("a", 6, 1), ("a", 15, 1), ("b", 5, 1)])
    stream.run(counted_windows(stream))
    asked = "k", "window_start", "window_end", "n"
    every = [("a", 0.0, 10.0, 2), ("a", 10.0, 20.0, 1), ("b", 0.0, 10.0, 1)]
    assert rows(read(stream, offline=offline), *asked) == every
    assert rows(read(stream, key="a", offline=offline), *asked) == every[:2]


def test_stores_of_a_processor_are_read(stream: Stream, offline: str):
    stream.batch(left=[(key, 1, 1) for key in KEYS])
    frame = hfs.process(
        stream.source("left"), Hits(), by="k", schema=OUT, state=stream.state(), name="visits"
    )
    stream.run(frame)
    assert rows(read(stream, offline=offline)) == [(key, 1) for key in KEYS]
    assert rows(read(stream, offline=offline, key='["a", "h", "zz"]')) == [("a", 1), ("h", 1)]


def test_a_root_without_state_is_refused(stream: Stream):
    (stream.root / "query").mkdir(parents=True, exist_ok=True)
    with pytest.raises(AnalysisException, match="there is no state here|no such folder"):
        read(stream)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tabel": "x"}, "'tabel' is no option of the data source holdfast"),
        ({"table": "other"}, "has no table of an operator 'other'"),
        ({"as_of": "yesterday"}, "give epoch microseconds, or a time with its zone"),
        ({"as_of": "2024-01-01T00:00:00"}, "give epoch microseconds, or a time with its zone"),
        ({"versions": "1"}, "give true or false"),
        ({"versions": "true"}, "only a versioned one has versions"),
        ({"epoch": "new"}, "option epoch is 'new'; give a number from 0"),
        ({"offline": "no"}, "offline is 'no'; it is one of"),
        ({"cache_bytes": "-1"}, "option cache_bytes is '-1'; give a number from 0"),
        ({"key": "[1"}, "option key is .* which is no JSON"),
        ({"columns": '["x"'}, "option columns is .* which is no JSON"),
    ],
)
def test_options_that_do_not_fit_are_named(stream: Stream, options: Any, message: str):
    stream.batch(left=[("a", 1, 1)])
    stream.run(stored(stream))
    with pytest.raises(Exception, match=message):
        read(stream, **options).collect()


def test_all_tasks_read_the_epoch_of_the_plan(stream: Stream):
    def same_value(value: int) -> None:
        stream.batch(left=[(key, value, value) for key in KEYS])

    same_value(0)
    writer = stored(stream).writeStream.format("noop")
    writer = writer.option("checkpointLocation", stream.checkpoint)
    query = writer.trigger(processingTime="0 seconds").start()
    try:
        query.processAllAvailable()
        ended = threading.Event()

        def feed() -> None:
            value = 0
            while not ended.wait(0.2):
                value += 1
                same_value(value)

        feeder = threading.Thread(target=feed)
        feeder.start()
        try:
            seen = []
            for _ in range(6):
                found = [x for (x,) in rows(read(stream), "x")]
                assert len(found) == len(KEYS)
                assert len(set(found)) == 1
                seen.append(found[0])
        finally:
            ended.set()
            feeder.join()
        assert seen == sorted(seen)
        assert seen[0] < seen[-1]
        # The hosts no longer have this epoch.
        assert {x for (x,) in rows(read(stream, epoch="0"), "x")} == {0}
    finally:
        query.stop()


def test_tasks_keep_their_copies_within_cache_bytes(stream: Stream, tmp_path):
    stream.batch(left=[(key, 1, 1) for key in KEYS])
    stream.run(stored(stream))
    for cache_bytes, copies in [("0", 0), ("1000000000", 2)]:
        cache = tmp_path / cache_bytes
        cache.mkdir()
        options = {"offline": "only", "cache_dir": str(cache), "cache_bytes": cache_bytes}
        assert len(rows(read(stream, **options), "k")) == len(KEYS)
        # A scan gives its last rows before its thread frees the copy.
        deadline = time.monotonic() + 20
        while (found := len(list(cache.rglob("CURRENT")))) > copies and time.monotonic() < deadline:
            time.sleep(0.01)
        assert found == copies


def test_a_scan_of_one_partition_copies_only_that(stream: Stream, tmp_path):
    stream.batch(left=[(key, 1, 1) for key in KEYS])
    stream.run(stored(stream))
    cache = tmp_path / "cache"
    cache.mkdir()
    options = stream.options.get("storage_options")
    with hf.connect(
        stream.address, offline="only", cache_dir=cache, storage_options=options
    ) as reader:
        table = reader["table"]
        one = table.scan(partition=0).read_all()["k"].to_pylist()
        copies = list(cache.rglob("CURRENT"))
        assert len(copies) == 1
        other = table.scan(partition=1).read_all()["k"].to_pylist()
        assert sorted(one + other) == list(KEYS)
        assert table.partitions_of(list(KEYS)) == [0 if key in one else 1 for key in KEYS]
        assert table.scan(partition=0, prefix=other[0]).read_all().num_rows == 0
        assert table.find([*KEYS, "zz"], columns=["k"])["k"].to_pylist() == list(KEYS)
        with pytest.raises(ValueError, match="there is no partition 2: the state has 2 partitions"):
            table.scan(partition=2)
