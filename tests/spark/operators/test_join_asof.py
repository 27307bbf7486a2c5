"""`join_asof` in streaming plans and on static frames."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from streams import EPOCH, Stream, at, seconds, values

import holdfast.spark as hfs


def test_the_contracts_case_holds_without_grace(stream: Stream):
    # Case J01 of tests/contract/README.md, each step in a micro-batch of its own.
    stream.batch(right=[("k", 4, "a")])
    stream.batch(left=[("k", 5, 1)])
    stream.batch(right=[("k", 6, "b")])
    stream.batch(right=[("k", 8, None)])
    stream.batch(right=[("k", 10, "c")])
    stream.batch(right=[("k", 13, None)])
    stream.batch(right=[("k", 7, "d")])
    stream.batch(left=[("k", 6, 2), ("k", 9, 3), ("k", 7.5, 4), ("k", 12, 5), ("k", 13, 6)])
    batches = stream.run(delete_when="v IS NULL")
    assert values(batches[1]) == {1: "a"}
    assert values(batches[7]) == {2: "b", 3: None, 4: "d", 5: "c", 6: None}


def test_the_contracts_case_holds_with_grace(stream: Stream):
    # Case J04 of tests/contract/README.md, then J06: a left row that is late by more than the grace
    # is joined at once and releases no other row.
    stream.batch(right=[("k", n, f"y{n}") for n in range(4)])
    stream.batch(left=[("k", n, n) for n in range(4)])
    stream.run(grace="2 seconds")
    stream.batch(left=[("k", 0, 9)])
    stream.batch(right=[("k", 2.5, "late")], left=[("k", 5, 5)])
    batches = stream.run(grace="2 seconds")
    assert [values(batches[epoch]) for epoch in range(4)] == [
        {},
        {0: "y0", 1: "y1"},
        {9: "y0"},
        {2: "y2", 3: "y3"},
    ]


def test_grace_delays_no_rows_of_static_frames(spark):
    left = spark.createDataFrame([("k", at(10), 1)], "k string, t timestamp, x int")
    right = spark.createDataFrame([("k", at(9), "a")], "k string, since timestamp, v string")
    joined = hfs.join_asof(
        left,
        right,
        by="k",
        left_on="t",
        right_on="since",
        history_retention="1 day",
        grace="1 hour",
        tolerance="1 second",
        state=hfs.State.scratch(partitions=2),
    )
    assert values(list(map(tuple, joined.collect()))) == {1: "a"}


def test_inner_leaves_out_left_rows_without_a_match(stream: Stream):
    stream.batch(left=[("k", 3, 1), ("k", 4, 2), ("other", 9, 3)], right=[("k", 4, "a")])
    assert values(stream.run(how="inner")[0]) == {2: "a"}


def test_right_columns_whose_names_are_taken_get_the_suffix(stream: Stream):
    stream.batch(left=[("k", 5, 1)], right=[("k", 4, "a", 7)])
    frame = stream.joined(
        right=stream.source("right").withColumnRenamed("n", "x").withColumnRenamed("since", "t"),
        right_on="t",
    )
    assert frame.columns == ["k", "t", "x", "t_right", "v", "x_right"]
    assert [
        (row[0], seconds(row[1]), row[2], seconds(row[3]), row[4], row[5])
        for row in stream.run(frame)[0]
    ] == [("k", 5, 1, 4, "a", 7)]


def test_a_late_left_row_is_joined_as_of_its_own_time(stream: Stream):
    stream.batch(right=[("k", 1, "old"), ("k", 100, "new")])
    stream.batch(left=[("k", 200, 1)])
    stream.batch(left=[("k", 50, 2), ("k", 0, 3)])
    batches = stream.run()
    assert values(batches[1]) == {1: "new"}
    assert values(batches[2]) == {2: "old", 3: None}


def test_a_late_right_row_counts_from_its_arrival(stream: Stream):
    stream.batch(left=[("k", 60, 1)], right=[("k", 1, "old"), ("k", 100, "new")])
    stream.batch(right=[("k", 50, "late")])
    stream.batch(left=[("k", 60, 2), ("k", 49, 3), ("k", 100, 4)])
    batches = stream.run()
    assert values(batches[0]) == {1: "old"}
    assert values(batches[2]) == {2: "late", 3: "old", 4: "new"}


def test_no_row_sees_a_later_one_of_its_micro_batch(stream: Stream):
    stream.batch(
        left=[("k", second, second) for second in range(6)], right=[("k", 2, "b"), ("k", 4, "c")]
    )
    assert values(stream.run()[0]) == {0: None, 1: None, 2: "b", 3: "b", 4: "c", 5: "c"}


def test_order_by_decides_between_right_rows_of_one_time(stream: Stream):
    stream.batch(left=[("k", 5, 1)], right=[("k", 4, "a", 3), ("k", 4, "z", 1), ("k", 4, "m", 2)])
    stream.batch(left=[("k", 5, 2)], right=[("k", 4, "newer batch", 0)])
    batches = stream.run(order_by=["n"])
    assert values(batches[0]) == {1: "a"}
    assert values(batches[1]) == {2: "newer batch"}


def test_without_order_by_content_decides_between_right_rows_of_one_time(stream: Stream):
    rows = [("k", 4, name, n) for n, name in enumerate("qazwsx")]
    for seed in range(3):
        random.Random(seed).shuffle(rows)
        stream.batch(left=[("k", 5, seed)], right=list(rows))
    assert set(values(sum(stream.run().values(), [])).values()) == {"z"}


def test_delete_when_takes_a_column_too(stream: Stream):
    stream.batch(left=[("k", 5, 1), ("k", 7, 2)], right=[("k", 4, "a", 0), ("k", 6, "gone", 1)])
    assert values(stream.run(delete_when=F.col("n") == 1)[0]) == {1: "a", 2: None}


def test_a_condition_that_is_null_deletes_nothing(stream: Stream):
    stream.batch(left=[("k", 5, 1)], right=[("k", 4, "a", None)])
    assert values(stream.run(delete_when="n = 1")[0]) == {1: "a"}


def test_a_right_row_of_nulls_is_a_value(stream: Stream):
    stream.batch(left=[("k", 5, 1)], right=[("k", 1, "a"), ("k", 4, None)])
    (row,) = stream.run(how="inner")[0]
    assert (seconds(row[3]), row[4]) == (4, None)


def test_rows_with_a_null_key_or_time_match_nothing(stream: Stream):
    # Case J08 of tests/contract/README.md, a left join.
    stream.batch(
        left=[(None, 5, 1), ("k", None, 2), (None, None, 3), ("k", 5, 4)],
        right=[(None, 4, "no key"), ("k", None, "no time"), ("k", 4, "a")],
    )
    assert values(stream.run()[0]) == {1: None, 2: None, 3: None, 4: "a"}


def test_an_inner_join_leaves_out_null_keys_and_times(stream: Stream):
    # Case J08 of tests/contract/README.md, an inner join.
    stream.batch(
        left=[(None, 5, 1), ("k", None, 2), ("k", 5, 4)], right=[(None, 4, "no key"), ("k", 4, "a")]
    )
    assert values(stream.run(how="inner")[0]) == {4: "a"}


def test_times_before_1970_are_joined(stream: Stream):
    before = [datetime(year, 7, 1, tzinfo=UTC) for year in (1900, 1950, 1969)]
    stream.batch(
        left=[
            ("k", datetime(1899, 1, 1, tzinfo=UTC), 0),
            *(("k", time + timedelta(microseconds=1), 1 + n) for n, time in enumerate(before)),
        ],
        right=[("k", time, str(time.year)) for time in before],
    )
    stream.batch(left=[("k", datetime(1955, 1, 1, tzinfo=UTC), 9)])
    batches = stream.run(history_retention=timedelta(days=200 * 366))
    assert values(batches[0]) == {0: None, 1: "1900", 2: "1950", 3: "1969"}
    assert values(batches[1]) == {9: "1950"}


def test_right_rows_older_than_history_retention_are_dropped(stream: Stream):
    stream.batch(right=[("k", 1_000, "new"), ("k", 2_000, "newest")])
    stream.batch(right=[("k", 100, "too old")])
    stream.batch(left=[("k", 1_500, 1), ("k", 2_500, 2), ("k", 500, 3)])
    assert values(stream.run(history_retention="1000 seconds")[2]) == {
        1: "new",
        2: "newest",
        3: None,
    }


def test_the_row_in_force_at_the_edge_of_the_history_is_found(stream: Stream):
    # "old" is 200 seconds older than the newest row, but in force until then. A store that expires
    # rows by their own times would find nothing here.
    stream.batch(right=[("k", 0, "old")])
    stream.batch(right=[("k", 200, "new")])
    stream.batch(left=[("k", 170, 1), ("k", 199, 2)])
    assert values(stream.run(history_retention="50 seconds")[2]) == {1: "old", 2: "old"}


def test_tolerance_is_the_greatest_age_of_a_match(stream: Stream):
    stream.batch(left=[("k", 5, 1), ("k", 5.000001, 2), ("k", 0, 3)], right=[("k", 0, "a")])
    (rows,) = stream.run(tolerance="5 seconds").values()
    assert values(rows) == {1: "a", 2: None, 3: "a"}
    assert [row[3] for row in rows if row[2] == 2] == [None]


def test_tolerance_drops_rows_of_an_inner_join(stream: Stream):
    stream.batch(left=[("k", 5, 1), ("k", 6, 2)], right=[("k", 0, "a")])
    assert values(stream.run(tolerance=timedelta(seconds=5), how="inner")[0]) == {1: "a"}


@pytest.mark.parametrize("nothing", ["empty files", "false", "nothing passes"])
def test_a_micro_batch_without_rows_has_all_its_tasks(stream: Stream, nothing: str):
    condition = {"empty files": "true", "false": "false", "nothing passes": "x > 1000 OR x < 0"}[
        nothing
    ]
    rows: list[tuple[Any, ...]] = [] if nothing == "empty files" else [("k", 5, 1)]
    for _ in range(3):
        stream.batch(left=rows)
    frame = stream.joined(
        left=stream.source("left").where(condition), right=stream.source("right").where("false")
    )
    assert stream.run(frame) == {0: [], 1: [], 2: []}
    assert stream.log() == dict.fromkeys(range(3), stream.partitions)


def test_state_is_found_after_a_restart(stream: Stream):
    stream.batch(right=[("k", 1, "a"), ("m", 1, "b")])
    stream.run()
    stream.batch(left=[("k", 2, 1)], right=[("m", 3, "c")])
    stream.run()
    stream.batch(left=[("k", 2, 2), ("m", 2, 3), ("m", 3, 4)])
    batches = stream.run()
    assert values(batches[1]) == {1: "a"}
    assert values(batches[2]) == {2: "a", 3: "b", 4: "c"}


def test_a_restart_in_another_time_zone_finds_its_state(stream: Stream):
    stream.batch(right=[("k", 1, "a")])
    stream.run()
    stream.spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    stream.batch(left=[("k", 2, 1)])
    (row,) = stream.run()[1]
    assert (seconds(row[1]), seconds(row[3]), row[4]) == (2, 1, "a")


def test_times_without_a_zone_are_joined(spark, tmp_path):
    left = pa.schema([("k", pa.string()), ("t", pa.timestamp("us")), ("x", pa.int32())])
    right = pa.schema([("k", pa.string()), ("since", pa.timestamp("us")), ("v", pa.string())])
    stream = Stream(spark, tmp_path, left, right)
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    # New York's clocks skip this hour; without a zone it is like any other.
    stream.batch(
        left=[("k", datetime(2024, 3, 10, 3, 30), 1)],
        right=[("k", datetime(2024, 3, 10, 2, 30), "a")],
    )
    assert stream.run(tolerance="1 hour")[0] == [
        ("k", datetime(2024, 3, 10, 3, 30), 1, datetime(2024, 3, 10, 2, 30), "a")
    ]


def test_several_key_columns_are_compared(spark, tmp_path):
    left = pa.schema(
        [("k", pa.string()), ("y", pa.int64()), ("t", pa.timestamp("us", "UTC")), ("x", pa.int32())]
    )
    right = pa.schema(
        [
            ("k", pa.string()),
            ("y", pa.int64()),
            ("since", pa.timestamp("us", "UTC")),
            ("v", pa.string()),
        ]
    )
    stream = Stream(spark, tmp_path, left, right)
    stream.batch(
        left=[("a", 1, 5, 1), ("a", 2, 5, 2), ("a", None, 5, 3), ("", 1, 5, 4)],
        right=[("a", 1, 4, "a1"), ("a", 2, 4, "a2"), ("a", None, 4, "null"), ("", 1, 4, "empty")],
    )
    assert {row[3]: row[5] for row in stream.run(by=["k", "y"])[0]} == {
        1: "a1",
        2: "a2",
        3: None,
        4: "empty",
    }


def test_floating_keys_are_compared_by_value_and_returned_unchanged(spark, tmp_path):
    left = pa.schema([("k", pa.float64()), ("t", pa.timestamp("us", "UTC")), ("x", pa.int32())])
    right = pa.schema(
        [("k", pa.float64()), ("since", pa.timestamp("us", "UTC")), ("v", pa.string())]
    )
    stream = Stream(spark, tmp_path, left, right)
    stream.batch(
        left=[(-0.0, 5, 1), (0.0, 5, 2), (float("nan"), 5, 3)],
        right=[(0.0, 4, "zero"), (float("nan"), 4, "nan")],
    )
    rows = stream.run()[0]
    assert values(rows) == {1: "zero", 2: "zero", 3: "nan"}
    assert {row[2]: str(row[0]) for row in rows} == {1: "-0.0", 2: "0.0", 3: "nan"}


def test_all_kinds_of_columns_pass_unchanged(spark):
    columns = (
        "cast(1 as tinyint) a, cast(2 as smallint) b, 3 c, 4L d, cast(1.5 as float) e, 2.5D f, "
        "12.34BD g, true h, 's' i, "
        "cast('b' as binary) j, date'1999-12-31' l, timestamp'2020-01-01 00:00:01' m, "
        "timestamp_ntz'2020-01-01 00:00:02' n, "
        "array(1, null, 3) o, named_struct('p', 1, 'q', array('x')) q, map('y', 1) r, interval '1 "
        "02:03:04' day to second s, "
        "cast(null as string) u"
    )
    left = spark.sql(f"select 1 k, timestamp'2024-01-02' t, {columns}")
    right = spark.sql(f"select 1 k, timestamp'2024-01-01' since, {columns}")
    joined = hfs.join_asof(
        left,
        right,
        by="k",
        left_on="t",
        right_on="since",
        history_retention="1 day",
        state=hfs.State.scratch(partitions=2),
    )
    (row,), (expected,) = joined.collect(), left.drop("k", "t").collect()
    names = left.drop("k", "t").columns
    assert [row[name] for name in names] == list(expected)
    assert [row[f"{name}_right"] for name in names] == list(expected)
    assert joined.schema["g_right"].dataType == left.schema["g"].dataType


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("cast(id % 3 as tinyint)", 1),
        ("cast(id % 3 as smallint)", 1),
        ("cast(id % 3 as decimal(30, 2))", Decimal("1.00")),
        ("id % 3 = 1", True),
        ("cast(cast(id % 3 as string) as binary)", b"1"),
        ("date_add(date'1969-12-31', cast(id % 3 as int))", date(1970, 1, 1)),
        ("timestamp_seconds(id % 3)", datetime(1970, 1, 1, 0, 0, 1)),
        ("cast(timestamp_seconds(id % 3) as timestamp_ntz)", datetime(1970, 1, 1, 0, 0, 1)),
    ],
)
def test_all_kinds_of_keys_are_compared(spark, expression: str, value: Any):
    left = spark.range(6).select(
        F.expr(expression).alias("k"), F.expr("timestamp_seconds(100 + id)").alias("t"), "id"
    )
    right = spark.range(3).select(
        F.expr(expression).alias("k"),
        F.expr("timestamp_seconds(50)").alias("since"),
        F.col("id").alias("v"),
    )
    joined = hfs.join_asof(
        left,
        right,
        by="k",
        left_on="t",
        right_on="since",
        history_retention="1 day",
        state=hfs.State.scratch(partitions=3),
    )
    rows = joined.collect()
    assert len(rows) == 6
    assert [row["k"] for row in rows if row["id"] == 1] == [value]
    if not isinstance(value, bool):
        assert {(row["id"] % 3) == row["v"] for row in rows} == {True}


def test_static_frames_with_a_scratch_state_equal_polars(spark):
    rng = random.Random(7)
    rights = sorted(
        {(rng.choice("abcdef"), rng.randrange(2_000)) for _ in range(600)}, key=lambda row: row[1]
    )
    right = pl.DataFrame(
        {
            "k": [k for k, _ in rights],
            "since": [at(t) for _, t in rights],
            "v": list(range(len(rights))),
        }
    )
    left = pl.DataFrame(
        {
            "k": [rng.choice("abcdefg") for _ in range(3_000)],
            "t": [at(rng.randrange(-50, 2_100)) for _ in range(3_000)],
            "x": list(range(3_000)),
        }
    )
    joined = hfs.join_asof(
        spark.createDataFrame(left.to_arrow()),
        spark.createDataFrame(right.to_arrow()),
        by="k",
        left_on="t",
        right_on="since",
        history_retention="365 days",
        state=hfs.State.scratch(partitions=3),
    )
    expected = (
        left.sort("t")
        .join_asof(right, left_on="t", right_on="since", by="k", check_sortedness=False)
        .sort("x")
    )
    assert {row["x"]: row["v"] for row in joined.collect()} == dict(
        expected.select("x", "v").iter_rows()
    )
    # Each evaluation starts empty, so results are equal.
    assert joined.count() == left.height


def test_two_operators_run_in_one_query(stream: Stream):
    stream.batch(left=[("k", 5, 1), ("m", 5, 2)], right=[("k", 4, "a")])
    stream.batch(left=[("k", 6, 3), ("m", 6, 4)], right=[("m", 4, "b")])
    state = stream.state()
    once = stream.joined(state, name="first")
    twice = stream.joined(state, left=once, name="second")
    assert twice.columns == ["k", "t", "x", "since", "v", "n", "since_right", "v_right", "n_right"]
    rows = sum(stream.run(twice).values(), [])
    assert {row[2]: (row[4], row[7]) for row in rows} == {
        1: ("a", "a"),
        2: (None, None),
        3: ("a", "a"),
        4: ("b", "b"),
    }
    assert stream.log("first") == stream.log("second") == {0: 2, 1: 2}


def test_a_watermark_of_the_left_side_is_passed_on(stream: Stream):
    for minute in range(4):
        stream.batch(
            left=[("k", 60 * minute, minute)], right=[("k", 0, "a")] if minute == 0 else []
        )
    joined = stream.joined(left=stream.source("left").withWatermark("t", "0 seconds"))
    counts = joined.groupBy(F.window("t", "1 minute"), "v").count()
    rows = sum(
        stream.run(
            counts.select(F.unix_timestamp("window.start") - int(EPOCH.timestamp()), "v", "count")
        ).values(),
        [],
    )
    assert sorted(rows)[:3] == [(0, "a", 1), (60, "a", 1), (120, "a", 1)]


def test_left_rows_that_wait_have_no_watermark_and_may_be_null(stream: Stream):
    """With a watermark, Spark would treat rows that have waited like late rows, and drop them.

    Rows that wait since an earlier start have nulls in columns that were added later.
    """
    left = stream.source("left").withWatermark("t", "0 seconds").withColumn("always", F.lit(1))
    for joined, waits in (
        (stream.joined(left=left), False),
        (stream.joined(left=left, grace="1 minute", name="held"), True),
    ):
        assert ("spark.watermarkDelayMs" in joined.schema["t"].metadata) is not waits
        assert joined.schema["always"].nullable is waits
    paired = hfs.join_window(
        left,
        stream.source("right"),
        by="k",
        left_on="t",
        right_on="since",
        before="1 minute",
        after="1 minute",
        state=stream.state(),
    )
    assert not paired.schema["t"].metadata
    assert paired.schema["always"].nullable


def test_progress_counts_rows(stream: Stream):
    stream.batch(left=[("k", 5, 1), ("k", 6, 2)], right=[("k", 4, "a")])
    stream.run()
    counted = [
        progress["observedMetrics"]
        for progress in stream.last.recentProgress
        if progress["numInputRows"]
    ]
    assert [
        (row["left_rows"], row["right_rows"])
        for row in (metrics["holdfast:join"] for metrics in counted)
    ] == [(2, 1)]
