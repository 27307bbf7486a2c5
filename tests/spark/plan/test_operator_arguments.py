"""Arguments of operators that do not fit are named at the call."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest
from processors import OUT, Hits
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

import holdfast.spark as hfs
from holdfast.errors import UnsupportedOperationError


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
        # Case J07 of tests/contract/README.md.
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


def test_a_collated_column_does_not_order_rows(frames):
    collated = F.collate(F.lit("x"), "UTF8_LCASE").alias("z")
    left, right = (frame.select("*", collated) for frame in frames)
    with pytest.raises(ValueError, match="order_by: column 'z' is string collate UTF8_LCASE"):
        join((left, right), order_by=["z"])
    with pytest.raises(ValueError, match="order_by: column 'z' is string collate UTF8_LCASE"):
        hfs.materialize(
            left, by="k", order_by=["z"], name="table", state=hfs.State.scratch(partitions=1)
        )


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
        UnsupportedOperationError, match=r"column 'odd' is variant, which the state cannot store"
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


def test_a_string_that_is_not_utf8_is_named(spark):
    """Spark's strings may have any bytes."""
    frame = spark.sql("select 'a' k, timestamp'2024-01-01' t, cast(x'ff' as string) s")
    state = hfs.State.scratch(partitions=2)
    last = hfs.aggregate(frame, by="k", on="t", aggs={"s": ("last", "s")}, state=state, name="last")
    with pytest.raises(
        PySparkException, match=r"operator last, partition \d: .*not UTF-8: use make_valid_utf8"
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
