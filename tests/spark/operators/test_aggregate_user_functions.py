"""User-defined aggregators with every kind of window, beside built-in functions."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from aggregators import Mean, SumAndList, Wrong
from streams import Stream, at, kill_hosts
from test_aggregate import ROWS, rows_of

import holdfast.spark as hfs
from holdfast.errors import UnsupportedOperationError
from holdfast.spark.operators.aggregator import DeclaredAggregator
from holdfast.spark.worker.aggregator import WorkerAggregator

WINDOWS = {
    "by key": None,
    "hopping": hfs.window("10 seconds", "4 seconds"),
    "session": hfs.session_window("5 seconds"),
    "sliding": hfs.sliding_window("5 seconds"),
}
AGGS: dict[str, Any] = {
    "rows": "count",
    "own": SumAndList(),
    "total": ("sum", "x"),
    "mean": Mean(),
    "avg": ("avg", "y"),
    "keys": ("max", "k"),
}
END = ("end", 10_000, None, 0.0)


@pytest.fixture
def rows(spark, tmp_path) -> Stream:
    stream = Stream(spark, tmp_path, ROWS, ROWS)
    stream.partitions = 1
    return stream


def _check(found: list[Any]) -> None:
    """Checks that in each row the aggregators agree with the built-in functions."""
    for row in found:
        count, own, total, mean, avg, key = row[-6:]
        assert len(own.xs) == count
        assert own.total == (total or 0) == sum(x or 0 for x in own.xs)
        assert mean == pytest.approx(avg)
        assert key == row[0]


def _comparable(found: Any) -> list[str]:
    return sorted(
        repr((*row[:-3], round(row[-3], 9), round(row[-2], 9), row[-1]))
        for row in found
        if row[0] != END[0]
    )


@pytest.mark.parametrize("window", WINDOWS)
def test_an_aggregator_works_with_every_kind_of_window(spark, rows: Stream, window: str):
    drawn = [row for row in rows_of(3, 45, late=8) if row[0] is not None]
    rows.batch(left=drawn[:25])
    rows.batch(left=drawn[25:])
    rows.batch(left=[END])
    options: dict[str, Any] = {"by": "k", "on": "t", "aggs": AGGS, "window": WINDOWS[window]}
    if window != "by key":
        options.update(emit="close", grace="20 seconds")

    def run() -> list[Any]:
        batches = rows.run(
            hfs.aggregate(rows.source("left"), state=rows.state(), name="sums", **options)
        )
        if window == "by key":
            return list(
                {row[0]: row for _, batch in sorted(batches.items()) for row in batch}.values()
            )
        return [row for batch in batches.values() for row in batch]

    found = run()
    _check(found)
    frame = spark.createDataFrame(
        [(k, at(t), x, y) for k, t, x, y in drawn], "k string, t timestamp, x long, y double"
    )
    static = hfs.aggregate(frame, state=hfs.State.scratch(partitions=2), **options).collect()
    _check(static)
    assert _comparable(found) == _comparable(static)


def test_the_states_survive_a_kill_and_a_replay(rows: Stream):
    rows.batch(left=[("a", 0, 1, 1.0), ("a", 8, 2, 2.0)])
    rows.batch(left=[("a", 4, 4, 3.0)])

    def frame() -> Any:
        return hfs.aggregate(
            rows.source("left"),
            by="k",
            on="t",
            aggs=AGGS,
            window=WINDOWS["session"],
            state=rows.state(),
            name="sums",
        )

    first = dict(rows.run(frame()))
    rows.forget_commit(1)
    assert kill_hosts()
    assert rows.run(frame()) == first
    [merged] = first[1]
    assert merged[-5].xs == [1, 4, 2]
    assert merged[-6] == 3


def test_many_rows_are_passed_in_batches(spark):
    frame = spark.range(25_000).selectExpr(
        "'a' k", "timestamp_seconds(id) t", "id x", "id * 0.5D y"
    )
    [row] = hfs.aggregate(
        frame, by="k", on="t", aggs=AGGS, state=hfs.State.scratch(partitions=1)
    ).collect()
    _check([row])
    assert row["own"].xs == list(range(25_000))


@pytest.mark.parametrize(
    ("aggregator", "words"),
    [
        (
            Wrong("update", None),
            "Wrong of column 'n': update gave a NoneType; wanted: a RecordBatch of states",
        ),
        (
            Wrong("update", pa.record_batch({"total": [1.0]})),
            r"update gave the columns \['total'\]; wanted: those of its state",
        ),
        (
            Wrong("update", pa.record_batch({"total": [1.0] * 3, "rows": [1] * 3})),
            "update gave 3 states; wanted: 1, one for each",
        ),
        (
            Wrong("update", pa.record_batch({"total": ["x"], "rows": [1]})),
            "update gave string for total; wanted: double",
        ),
        (
            Wrong("update", pa.record_batch({"total": [1.0], "rows": pa.array([True])})),
            (
                "update gave bool for rows; wanted: int64 .rows is bool, which is not converted to "
                "int64"
            ),
        ),
        (
            Wrong("result", pa.array([1.0, 2.0])),
            "result gave 2 values; wanted: 1, one for each state",
        ),
        (Wrong("result", [1.0]), "result gave a list; wanted: an Array of double"),
        (Wrong("result", pa.array(["x"])), "result gave string for the result; wanted: double"),
    ],
)
@pytest.mark.usefixtures("spark")
def test_an_invalid_result_of_an_aggregator_is_named(aggregator: Any, words: str):
    """Tests the worker code without Spark, which tries a task four times, each in a new worker."""
    declared = DeclaredAggregator("n", aggregator)
    in_worker = WorkerAggregator(*declared.for_worker)
    new = pa.RecordBatch.from_pylist([{"total": None, "rows": None}], schema=declared.states)
    in_worker.answer("states", new)
    rows = pa.record_batch({"group": pa.array([0]), "rows": pa.array([{"k": "a", "y": 1.0}])})
    with pytest.raises((TypeError, ValueError), match=words):
        in_worker.answer("result", in_worker.answer("update", rows) or new)


def test_a_result_that_lacks_a_field_of_the_result_type_is_refused(spark):
    wrong = Wrong("result", pa.array([{"mean": 1.0}]))
    wrong.result_type = "struct<mean: double, rows: bigint>"
    frame = spark.createDataFrame([("a", 1.0)], "k string, y double")
    with pytest.raises(
        Exception, match=r"the result has the fields \['mean'\]; wanted: \['mean', 'rows'\]"
    ):
        hfs.aggregate(
            frame, by="k", aggs={"n": wrong}, state=hfs.State.scratch(partitions=1)
        ).collect()


def _changed(**attributes: Any) -> Any:
    return type("Changed", (Mean,), attributes)()


@pytest.mark.parametrize(
    ("aggregator", "words"),
    [
        (_changed(merge=None), "Changed has no method merge"),
        (_changed(state_schema=None), "Changed.state_schema is a NoneType: write it as SQL does"),
        (
            _changed(state_schema=pa.schema([("x", pa.int64())])),
            "state_schema is a Schema: write it as SQL does",
        ),
        (_changed(state_schema="total doubel"), "is no list of columns and types"),
        (_changed(state_schema=""), "has no columns"),
        (_changed(state_schema="a int, a int"), "two columns of one name"),
        (_changed(state_schema="a interval"), "which the state cannot store"),
        (_changed(result_type="doubel"), "result_type='result doubel' is no list of columns"),
        (_changed(lock=__import__("threading").Lock()), "cannot be pickled"),
    ],
)
def test_an_invalid_declaration_is_refused_at_the_call(spark, aggregator: Any, words: str):
    frame = spark.createDataFrame([("a", 1.0)], "k string, y double")
    with pytest.raises((TypeError, ValueError, UnsupportedOperationError), match=words):
        hfs.aggregate(frame, by="k", aggs={"n": aggregator}, state=hfs.State.scratch())


def test_another_state_under_the_same_name_is_refused(rows: Stream):
    rows.batch(left=[("a", 1, 1, 0.0)])

    def frame(**attributes: Any) -> Any:
        return hfs.aggregate(
            rows.source("left"),
            by="k",
            aggs={"n": _changed(**attributes)},
            state=rows.state(),
            name="sums",
        )

    rows.run(frame())
    rows.batch(left=[("a", 1, 1, 0.0)])
    with pytest.raises(
        Exception,
        match=r'value column "n" was aggregator\(struct<total:double,rows:bigint> -> double\)',
    ):
        rows.run(frame(state_schema="total double, rows bigint, more string"))
