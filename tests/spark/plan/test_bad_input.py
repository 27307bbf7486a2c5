"""Bad input is refused with a message that names it and says what to do."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from processors import OUT, Hits
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import functions as F
from streams import Stream, values

import holdfast as hf
import holdfast.spark as hfs
from holdfast.errors import HoldfastError, UnsupportedOperationError


@pytest.fixture(scope="module")
def frames(spark):
    left = spark.createDataFrame(
        [],
        "k string, t timestamp, x int, f float, m map<string,int>, a array<int>, s struct<b:int>",
    )
    right = spark.createDataFrame(
        [],
        "k string, since timestamp, v string, x long, f float, m map<string,int>, a array<int>, s "
        "struct<b:int>",
    )
    return left, right


def called(options):
    """The options; a callable, whose value needs a session, is replaced by its result."""
    return {name: value() if callable(value) else value for name, value in options.items()}


def join(frames, left=None, right=None, **options):
    asked = {
        "by": "k",
        "left_on": "t",
        "right_on": "since",
        "history_retention": "1 day",
        **called(options),
    }
    left, right = frames[0] if left is None else left, frames[1] if right is None else right
    return hfs.join_asof(left, right, **{"state": hfs.State.scratch(partitions=2), **asked})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "currency"}, r"by: the left frame has no column 'currency'; it has k, t, x, f"),
        ({"by": ["k", "v"]}, r"by: the left frame has no column 'v'"),
        ({"by": "t"}, r"by: the right frame has no column 't'; it has k, since"),
        ({"left_on": "when"}, r"left_on: the left frame has no column 'when'; it has k, t"),
        ({"right_on": "t"}, r"right_on: the right frame has no column 't'; it has k, since"),
        (
            {"order_by": ["nothing"]},
            r"order_by: no frame has a column 'nothing'; .*has k, t.*has k, since",
        ),
        (
            {"left_on": "x"},
            r"left_on: column 'x' of the left frame is int, not a timestamp; cast it",
        ),
        (
            {"right_on": "v"},
            r"right_on: column 'v' of the right frame is string, not a timestamp; cast it",
        ),
        (
            {"by": "x"},
            r"by: key column 'x' is int in the left frame and bigint in the right one; cast",
        ),
        ({"by": "m"}, r"by: column 'm' is map<string,int>, which cannot be a key"),
        ({"by": "a"}, r"by: column 'a' is array<int>, which cannot be a key"),
        ({"by": "s"}, r"by: column 's' is struct<b:int>, which cannot be a key"),
        ({"by": []}, r"by is empty"),
        ({"by": ["k", "K"]}, r"by names a column twice"),
        ({"how": "outer"}, r"how='outer': there are 'inner' and 'left'"),
        ({"suffix": ""}, r"the result would have two columns named 'x', since '' is added"),
        ({"history_retention": timedelta(days=-1)}, r"history_retention is negative"),
        ({"history_retention": "-7 days"}, r"history_retention is negative"),
        ({"history_retention": "7"}, r"history_retention='7' is not an interval"),
        ({"history_retention": "7 fortnights"}, r"no unit 'fortnights'; there are microseconds, "),
        ({"history_retention": "10 s"}, r"no unit 's'; there are microseconds, "),
        ({"history_retention": "1 month"}, r"a month has no fixed length; give it in days"),
        ({"grace": timedelta(seconds=-5)}, r"grace is negative"),
        ({"grace": "2 days"}, r"grace=2 days is longer than history_retention=1 day"),
        ({"tolerance": "-1 second"}, r"tolerance is negative"),
        (
            {"delete_when": "nothing = 1"},
            r"delete_when=nothing = 1 is no condition over the right frame",
        ),
        (
            {"delete_when": "sum(x) > 1"},
            r"delete_when=sum\(x\) > 1 is no condition over the right frame",
        ),
        ({"delete_when": "x + 1"}, r"delete_when=x \+ 1 is bigint: give a condition"),
        ({"name": "a/b"}, r"name='a/b': an operator's name is part of file names"),
        ({"name": ".."}, r"name='..': an operator's name"),
    ],
)
def test_a_wrong_argument_is_named_at_the_call(frames, options, message):
    with pytest.raises(ValueError, match=message):
        join(frames, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"history_retention": 7},
            r"history_retention is a int: give a timedelta or an interval string",
        ),
        ({"order_by": "x"}, r"order_by='x': give a list of columns"),
        ({"order_by": None}, r"order_by is a NoneType: give a list of columns' names"),
        ({"order_by": [1]}, r"order_by has a int: give a list of columns' names"),
        (
            {"order_by": lambda: [F.col("x")]},
            r"order_by has a Column: give a list of columns' names",
        ),
        ({"by": None}, r"by is a NoneType: give the name of a column, or a list of names"),
        (
            {"by": lambda: F.col("k")},
            r"by is a Column: give the name of a column, or a list of names",
        ),
        ({"by": {"k"}}, r"by is a set: give the name of a column, or a list of names"),
        ({"by": ["k", 1]}, r"by takes the name of a column, not a int"),
        (
            {"delete_when": True},
            r"delete_when=True: give a condition over the right frame, as SQL or as a Column",
        ),
        ({"delete_when": 5}, r"delete_when=5: give a condition over the right frame"),
        ({"name": 5}, r"name=5: give a string"),
        ({"left": 7}, r"left is a int: give a DataFrame of Spark"),
        ({"right": "rates"}, r"right is a str: give a DataFrame of Spark"),
        (
            {"right": pa.table({"k": ["a"]})},
            r"right is a pyarrow.lib.Table: give a DataFrame of Spark",
        ),
        ({"state": "/tmp/somewhere"}, r"state is a str: give hfs.State\(root\)"),
    ],
)
def test_a_wrong_type_is_named_at_the_call(frames, options, message):
    with pytest.raises(TypeError, match=message):
        join(frames, **options)


def one_sided(frames, operator: str, **options):
    """Calls an operator of one frame with valid arguments, which `options` replace."""
    wanted = {
        "aggregate": {"aggs": {"n": "count"}},
        "drop_duplicates": {"on": "t", "within": "1 day"},
        "materialize": {"name": "kept"},
        "process": {"processor": Hits(), "schema": OUT},
    }[operator]
    asked = {
        "df": frames[0],
        "by": "k",
        "state": hfs.State.scratch(partitions=2),
        **wanted,
        **called(options),
    }
    return getattr(hfs, operator)(asked.pop("df"), **asked)


@pytest.mark.parametrize(
    ("operator", "options", "message"),
    [
        ("drop_duplicates", {"on": None}, r"on is a NoneType: name the rows' timestamp column"),
        (
            "drop_duplicates",
            {"on": lambda: F.col("t")},
            r"on is a Column: name the rows' timestamp column",
        ),
        ("materialize", {"name": None}, r"name=None: give the table a name, a string"),
        (
            "aggregate",
            {"aggs": {1: "count"}},
            r"aggs has the key 1, a int: the result's columns have strings as names",
        ),
        ("aggregate", {"name": 5}, r"name=5: give a string"),
        ("aggregate", {"by": None}, r"by is a NoneType: give the name of a column"),
        ("aggregate", {"df": None}, r"df is a NoneType: give a DataFrame of Spark"),
        ("process", {"deterministic": "no"}, r"deterministic='no': give True or False"),
    ],
)
def test_a_wrong_type_is_named_by_operators_of_one_frame(frames, operator, options, message):
    with pytest.raises(TypeError, match=message):
        one_sided(frames, operator, **options)


def test_a_schemas_names_are_compared_as_spark_does(frames):
    with pytest.raises(
        ValueError, match=r"schema='k string, K int' has two columns of one name: K, k"
    ):
        one_sided(frames, "process", schema="k string, K int")


def test_names_fold_as_spark_folds_them(spark):
    frame = spark.createDataFrame([], "k string, `straße` int, strasse int, `GRÖSSE` int")
    result = hfs.aggregate(frame, by="K", aggs={"n": ("sum", "grösse")}, state=hfs.State.scratch())
    assert result.columns == ["k", "n"]


def test_time_columns_of_two_types_are_refused(frames):
    with pytest.raises(
        ValueError,
        match=r"left_on 't' is timestamp and right_on 'since' is timestamp_ntz: cast one",
    ):
        join(frames, right=frames[1].withColumn("since", F.col("since").cast("timestamp_ntz")))


def test_a_frame_with_two_columns_of_one_name_is_refused(frames):
    with pytest.raises(ValueError, match=r"the left frame has two columns named 'X'"):
        join(frames, left=frames[0].withColumnRenamed("f", "y").select("*", F.lit(1).alias("X")))


def test_a_column_that_the_state_cannot_store_is_refused(frames):
    with pytest.raises(
        UnsupportedOperationError, match=r"column 'odd' is variant, which the state cannot keep"
    ):
        join(frames, right=frames[1].select("*", F.parse_json(F.lit("{}")).alias("odd")))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("k", "by: column 'k' is varchar.*, which cannot be a key"),
        ("odd", "column 'odd' is varchar.*: cast it or drop it"),
    ],
)
def test_a_varchar_column_is_refused(spark, frames, column: str, message: str):
    spark.conf.set("spark.sql.preserveCharVarcharTypeInfo", "true")
    try:
        given = [frame.withColumn(column, F.lit("a").cast("varchar(9)")) for frame in frames]
    finally:
        spark.conf.unset("spark.sql.preserveCharVarcharTypeInfo")
    with pytest.raises((ValueError, UnsupportedOperationError), match=message):
        join(frames, *given)


def test_a_string_with_a_collation_is_no_key(frames):
    collated = [frame.withColumn("k", F.collate("k", "UTF8_LCASE")) for frame in frames]
    with pytest.raises(
        ValueError, match=r"by: column 'k' is string collate UTF8_LCASE, which cannot be a key"
    ):
        join(frames, *collated)


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
        ({"uncommitted_max_bytes": 1 << 63}, r"uncommitted_max_bytes=9223372036854775808"),
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


def test_a_root_of_no_local_folder_is_refused_as_local_dir():
    with pytest.raises(
        UnsupportedOperationError, match=r"local_dir='s3://b/s': give a local folder$"
    ):
        hfs.State("/tmp/unused", local_dir="s3://b/s")


def test_a_root_that_cannot_be_written_is_refused(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(HoldfastError, match=r"root .*file/state cannot be written"):
        hfs.State(str(tmp_path / "file" / "state"))


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
        ({"max_open_files": "7;atomic_flush=false"}, ValueError, "holds further options"),
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


def test_a_string_that_is_not_utf8_is_named(spark):
    """Spark's strings may have any bytes."""
    frame = spark.sql("select 'a' k, timestamp'2024-01-01' t, cast(x'ff' as string) s")
    state = hfs.State.scratch(partitions=2)
    last = hfs.aggregate(frame, by="k", on="t", aggs={"s": ("last", "s")}, state=state, name="last")
    with pytest.raises(
        PySparkException, match=r"operator last, partition \d: .*not UTF-8: give it make_valid_utf8"
    ):
        last.collect()
    valid = hfs.aggregate(
        frame.selectExpr("k", "t", "make_valid_utf8(s) s"),
        by="k",
        on="t",
        aggs={"s": ("last", "s")},
        state=state,
    )
    assert [row["s"] for row in valid.collect()] == ["\ufffd"]


def test_a_root_is_created_and_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    state = hfs.State("some/where")
    assert state.checkpoint_location == str(tmp_path / "some" / "where" / "query")
    assert os.listdir(tmp_path / "some" / "where") == []
    assert hfs.State(f"file://{tmp_path}/some/where").root == state.root


def test_two_operators_of_one_name_are_refused(stream: Stream):
    state = stream.state()
    stream.joined(state, name="rates")
    with pytest.raises(
        ValueError,
        match=r"the state at .* has an operator named 'rates' already: give this one another name=",
    ):
        stream.joined(state, name="rates")
    stream.joined(state, name="others")


def test_default_names_contain_the_keys(stream: Stream):
    state = stream.state()
    stream.joined(state, name=None)
    with pytest.raises(ValueError, match="an operator named 'join_asof_k' already"):
        stream.joined(state, name=None)


def test_a_refused_call_takes_no_name(stream: Stream):
    state = stream.state()
    with pytest.raises(ValueError, match="how="):
        stream.joined(state, how="outer")
    stream.joined(state)


def test_a_scratch_state_takes_no_names(frames):
    scratch = hfs.State.scratch(partitions=2)
    assert join(frames, state=scratch).columns == join(frames, state=scratch).columns


def test_a_scratch_state_refuses_streams(stream: Stream):
    with pytest.raises(UnsupportedOperationError, match=r"State.scratch\(\) keeps nothing"):
        stream.joined(hfs.State.scratch(partitions=2))
    with pytest.raises(UnsupportedOperationError, match=r"State.scratch\(\) keeps nothing"):
        _ = hfs.State.scratch(partitions=2).checkpoint_location


def test_a_persistent_state_needs_an_epoch(stream: Stream, frames):
    with pytest.raises(
        HoldfastError, match=r"needs an epoch.*readStream.*foreach_batch.*State.scratch\(\)"
    ):
        join(frames, state=stream.state())


def test_a_static_left_side_beside_a_stream_is_refused(stream: Stream, spark):
    static = spark.createDataFrame([], "k string, t timestamp, x int")
    with pytest.raises(ValueError, match="left is a static frame and right a stream"):
        stream.joined(left=static)


@pytest.mark.parametrize(
    "kind", ["join_asof", "join_window", "join_table", "join_table by a foreign key"]
)
def test_a_static_right_side_beside_a_stream_is_refused(stream: Stream, spark, kind: str):
    static = spark.createDataFrame([], "k string, since timestamp, v string")
    asked = {"by": "k", "left_on": "t", "right_on": "since", "state": stream.state()}
    call, options = {
        "join_asof": (hfs.join_asof, {"history_retention": "1 day"}),
        "join_window": (hfs.join_window, {"before": "1 day", "after": "1 day"}),
        "join_table": (hfs.join_table, {}),
        "join_table by a foreign key": (hfs.join_table, {"by": "x", "foreign_key": "k"}),
    }[kind]
    said = (
        "right is a static frame and left a stream, so .*: read the right frame with "
        "spark.readStream, too"
    )
    # Only an as-of join gives the same result with a table that is put again in each micro-batch.
    said += (
        r", or call join_asof inside foreachBatch\(hfs.foreach_batch\(fn\)\)"
        if kind == "join_asof"
        else "$"
    )
    with pytest.raises(ValueError, match=said):
        call(stream.source("left"), static, **{**asked, **options})


def test_adaptive_execution_is_refused(stream: Stream):
    stream.spark.conf.set("spark.sql.adaptive.enabled", "true")
    with pytest.raises(
        ValueError, match=r'set spark.conf.set\("spark.sql.adaptive.enabled", "false"\)'
    ):
        stream.joined()


def test_speculation_is_warned_of(stream: Stream, monkeypatch: pytest.MonkeyPatch):
    # Spark fixes this setting at the start of the application.
    monkeypatch.setattr("holdfast.spark.plan.call.is_true", lambda *_, **__: True)
    with pytest.warns(UserWarning, match="a sink that is not idempotent") as warned:
        stream.joined()
    assert warned[0].filename.endswith("streams.py"), "the warning names the caller"


def test_adaptive_execution_is_accepted_with_a_scratch_state(spark, frames):
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    assert join(frames).collect() == []


def test_foreach_batch_wraps_functions_only():
    with pytest.raises(TypeError, match="foreach_batch takes a function"):
        hfs.foreach_batch("not a function")


def test_foreach_batch_outside_a_query_is_refused(spark):
    with pytest.raises(HoldfastError, match="no streaming query is running it"):
        hfs.foreach_batch(lambda frame, batch_id: None)(spark.range(1), 3)


def test_another_partition_count_is_refused(stream: Stream):
    stream.batch(right=[("k", 4, "a")])
    stream.run()
    stream.batch(left=[("k", 5, 1)])
    stream.partitions = 3
    with pytest.raises(StreamingQueryException, match="2 partitions"):
        stream.run()
    stream.partitions = 2
    assert values(stream.run()[1]) == {1: "a"}


def test_another_querys_root_is_refused(stream: Stream, tmp_path: Path):
    stream.batch(right=[("k", 4, "a")])
    stream.run()
    stream.batch(left=[("k", 5, 1)])
    with pytest.raises(StreamingQueryException, match="checkpointLocation"):
        stream.run(checkpoint=str(tmp_path / "elsewhere"))
    assert values(stream.run()[1]) == {1: "a"}


def test_another_querys_checkpoint_in_the_root_is_refused(stream: Stream):
    stream.batch(right=[("k", 4, "a")])
    stream.run()
    (stream.root / "query").rename(stream.root / "gone")
    with pytest.raises(StreamingQueryException, match="a root serves one query"):
        stream.run()
    for part in sorted((stream.root / "query").rglob("*"), reverse=True):
        part.rmdir() if part.is_dir() else part.unlink()
    (stream.root / "query").rmdir()
    (stream.root / "gone").rename(stream.root / "query")
    stream.batch(left=[("k", 5, 1)])
    assert values(stream.run()[1]) == {1: "a"}


def test_another_schema_is_refused(stream: Stream):
    stream.batch(right=[("k", 4, "a")])
    stream.run()
    stream.batch(left=[("k", 5, 1)])
    with pytest.raises(StreamingQueryException, match=r"column.*\bn\b"):
        stream.run(right=stream.source("right").withColumn("n", F.col("n").cast("string")))
    assert values(stream.run()[1]) == {1: "a"}


def test_a_union_above_an_operator_is_refused(stream: Stream):
    stream.batch(left=[("k", 5, 1)], right=[("k", 4, "a")])
    other = stream.source("left").select(
        "*", F.lit(None).cast("timestamp"), F.lit("other"), F.lit(0)
    )
    with pytest.raises(
        StreamingQueryException,
        match=r"operator 'join': .*A union or coalesce above the operator moves",
    ):
        stream.run(other.union(stream.joined()))


@pytest.mark.parametrize("keys", ["abcdefgh", ""])
def test_a_coalesce_above_an_operator_is_refused(stream: Stream, keys: str):
    stream.batch(left=[(key, 5, 1) for key in keys])
    said = r"operator join, epoch 0: .*computes partition 0 twice.*coalesce above.*repartition\(\)"
    with pytest.raises(StreamingQueryException, match=said):
        stream.run(stream.joined().coalesce(1))


def test_a_shuffle_between_an_operator_and_a_union_is_accepted(stream: Stream):
    stream.batch(left=[("k", 5, 1)], right=[("k", 4, "a")])
    other = stream.source("left").select(
        "*", F.lit(None).cast("timestamp"), F.lit("other"), F.lit(0)
    )
    assert {row[4] for row in stream.run(other.union(stream.joined().repartition(2)))[0]} == {
        "a",
        "other",
    }


def test_asynchronous_progress_is_refused(stream: Stream):
    for _ in range(2):
        stream.batch(left=[("k", 5, 1)], right=[("k", 4, "a")])
    query = (
        stream.joined()
        .writeStream.format("noop")
        .option("checkpointLocation", stream.state().checkpoint_location)
        .option("asyncProgressTrackingEnabled", "true")
        .option("asyncProgressTrackingCheckpointIntervalMs", "600000")
    )
    with pytest.raises(StreamingQueryException, match="query/(offsets|commits)/"):
        started = query.start()
        try:
            started.processAllAvailable()
        finally:
            started.stop()


def test_storage_options_that_are_no_dict_are_named(tmp_path: Path):
    with pytest.raises(
        TypeError, match="storage_options is a list: give a dict of names and values"
    ):
        hfs.State(str(tmp_path), storage_options=[("region", "x")])  # type: ignore[arg-type]
