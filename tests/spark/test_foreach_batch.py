"""Operators inside `foreachBatch`: their epoch, threads, job groups, adaptive execution."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import InheritableThread
from pyspark.errors import PythonException, StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from streams import (
    KEYS,
    Stream,
    in_thread,
    joined_by_sign,
)

import holdfast.spark as hfs
from holdfast.cli import main
from holdfast.errors import HoldfastError


def rows_of(joined: DataFrame) -> dict[int, Any]:
    return {row["x"]: row["v"] for row in joined.collect()}


def three_batches(stream: Stream) -> dict[int, dict[int, Any]]:
    """Writes three micro-batches for `joined_by_sign`; returns their expected results."""
    stream.batch(left=[(key, 1, -1 - n) for n, key in enumerate(KEYS)])
    stream.batch(
        left=[(key, 5, n) for n, key in enumerate(KEYS)]
        + [(key, 6, -11 - n) for n, key in enumerate(KEYS)]
    )
    stream.batch(
        left=[row for n, key in enumerate(KEYS) for row in ((key, 5, n), (key, 7, 10 + n))]
    )
    return {
        0: {},
        1: {n: -1 - n for n in range(8)},
        2: {**{n: -1 - n for n in range(8)}, **{10 + n: -11 - n for n in range(8)}},
    }


def refusal(work) -> str:
    """Returns the error that `work` fails with.

    It does not use pytest.raises, whose failure is no `Exception`: py4j would wait forever.
    """
    try:
        work()
    except (HoldfastError, ValueError, PythonException) as error:
        return f"{type(error).__name__}: {error}"
    return "it was not refused"


def run(stream: Stream, fn) -> None:
    stream.run(stream.source("left"), each=fn)


@pytest.mark.parametrize("wrap", [hfs.foreach_batch, lambda fn: fn], ids=["wrapped", "plain"])
def test_operators_work_inside_foreach_batch(stream: Stream, wrap):
    expected = three_batches(stream)
    got: dict[int, Any] = {}
    state = stream.state()
    run(
        stream,
        wrap(lambda frame, batch: got.__setitem__(batch, rows_of(joined_by_sign(frame, state)))),
    )
    assert got == expected


def test_a_plan_evaluated_twice_gives_equal_results_and_counts_once(stream: Stream):
    expected = three_batches(stream)
    got: dict[int, Any] = {}
    state = stream.state()

    def twice(frame: DataFrame, batch: int) -> None:
        joined = joined_by_sign(frame, state)
        assert joined.count() == len(expected[batch])
        got[batch] = rows_of(joined)
        assert rows_of(joined) == got[batch]

    run(stream, hfs.foreach_batch(twice))
    assert got == expected


def test_an_epoch_without_rows_after_a_filter_is_complete(stream: Stream):
    # Without the observe() in the plan Spark drops the operator's stage here, and the next epoch
    # cannot open.
    three_batches(stream)
    got: dict[int, Any] = {}
    state = stream.state()

    def fn(frame: DataFrame, batch: int) -> None:
        got[batch] = rows_of(joined_by_sign(frame.where("false") if batch == 1 else frame, state))

    run(stream, hfs.foreach_batch(fn))
    assert stream.log() == {0: 2, 1: 2, 2: 2}
    assert got == {0: {}, 1: {}, 2: {x: -1 - x % 10 for x in (*range(8), *range(10, 18))}}


def test_a_full_evaluation_may_follow_take(stream: Stream):
    expected = three_batches(stream)
    got: dict[int, Any] = {}
    state = stream.state()

    def fn(frame: DataFrame, batch: int) -> None:
        joined = joined_by_sign(frame, state)
        joined.take(1)
        got[batch] = rows_of(joined)

    run(stream, hfs.foreach_batch(fn))
    assert got == expected


@pytest.mark.parametrize(
    "part", [lambda joined: joined.take(1), lambda joined: joined.show(1)], ids=["take", "show"]
)
def test_evaluating_only_the_first_rows_is_a_named_error(
    stream: Stream, part: Callable[[DataFrame], Any]
):
    three_batches(stream)
    state = stream.state()

    def fn(frame: DataFrame, batch: int) -> None:
        joined = joined_by_sign(frame, state)
        part(joined) if batch == 1 else joined.collect()

    with pytest.raises(StreamingQueryException, match="has not committed the epoch"):
        run(stream, hfs.foreach_batch(fn))
    assert stream.numbers("commits") == [0]
    # Without the wrapper Spark commits the epoch, and the next epoch reports the error.
    with pytest.raises(StreamingQueryException, match="holdfast rewind"):
        run(stream, fn)
    assert stream.numbers("commits") == [0, 1]
    assert stream.log().get(1, 0) < stream.partitions


def _padded(frame: DataFrame) -> DataFrame:
    """Returns rows that are larger than the sockets' buffers.

    If Spark stops reading after the first one, most are still in the host. Few small rows are all
    sent before that.
    """
    return frame.withColumn("pad", F.repeat("k", 8 << 20))


@pytest.mark.parametrize("wrap", [hfs.foreach_batch, lambda fn: fn], ids=["wrapped", "plain"])
def test_is_empty_is_complete_without_rows_and_an_error_with_many(stream: Stream, wrap):
    stream.partitions = 1
    state = stream.state()
    expected = three_batches(stream)
    got: dict[int, Any] = {}

    def is_empty(frame: DataFrame, batch: int) -> None:
        # Spark reads one row of each task. A task without rows runs to its end.
        rows = _padded(frame) if batch == 1 else frame.withColumn("pad", F.lit(""))
        got[batch] = joined_by_sign(rows, stream.state()).isEmpty()

    with pytest.raises(StreamingQueryException) as caught:
        run(stream, wrap(is_empty))
    assert got == {0: True, 1: False}
    # No task of epoch 1 has ended, so the state does not have its rows.
    assert state.progress(1) is None
    if wrap is hfs.foreach_batch:
        assert "only 0 of its 1 partitions were evaluated" in str(caught.value)
    else:
        assert "was not evaluated" in str(caught.value)
        assert main(["rewind", str(stream.root), "--epoch", "1"]) == 0
    # If the whole result is evaluated, nothing is lost and nothing doubled.
    run(
        stream,
        hfs.foreach_batch(
            lambda frame, batch: got.update({batch: rows_of(joined_by_sign(frame, stream.state()))})
        ),
    )
    assert got == {**expected, 0: True}


def test_an_operator_that_is_not_evaluated_beside_others_is_a_named_error(stream: Stream):
    three_batches(stream)
    state = stream.state()

    def fn(frame: DataFrame, batch: int) -> None:
        joined = joined_by_sign(frame, state)
        hfs.drop_duplicates(frame, by="k", on="t", within="1 day", state=state).collect()
        if batch != 1:
            joined.collect()

    with pytest.raises(StreamingQueryException, match="only 0 of its 2 partitions"):
        run(stream, hfs.foreach_batch(fn))
    with pytest.raises(StreamingQueryException, match="holdfast rewind"):
        run(stream, fn)


@pytest.mark.parametrize("wrap", [hfs.foreach_batch, lambda fn: fn], ids=["wrapped", "plain"])
def test_a_first_epoch_that_is_evaluated_in_part_is_a_named_error(stream: Stream, wrap):
    # A regression test: the other operator was evaluated as a whole, so the next epoch treated this
    # one as new.
    stream.partitions = 1
    state = stream.state()
    for _ in range(2):
        stream.batch(left=[(key, 1, 1) for key in KEYS * 2])

    def fn(frame: DataFrame, batch: int) -> None:
        hfs.drop_duplicates(frame, by="k", on="t", within="1 day", state=state).collect()
        counted = hfs.aggregate(
            _padded(frame),
            by=["k", "pad"],
            aggs={"n": "count"},
            state=state,
            emit="update",
            name="counted",
        )
        counted.take(1) if batch == 0 else counted.collect()

    with pytest.raises(StreamingQueryException, match="counted"):
        run(stream, wrap(fn))


def test_an_operator_that_spark_does_not_run_in_a_streaming_plan_is_a_named_error(stream: Stream):
    # The result has too many columns for generated code. A join with an empty table then ends
    # at once. No task of the operator runs, and Spark commits the epoch.
    values = {f"m{index}": ("max", "x") for index in range(110)}

    def run_with(names: str) -> None:
        stream.batch(left=[("a", 1, 1), ("b", 1, 2)])
        counted = hfs.aggregate(
            stream.source("left"), by="k", aggs=values, state=stream.state(), name="counted"
        )
        table = stream.spark.createDataFrame(
            [(name, 1) for name in names] or [("", 1)], "k string, y int"
        )
        named = table.where(F.col("k") != F.lit(""))
        joined = counted.join(F.broadcast(named), "k")
        stream.run_to_files(joined, "json", stream.base / "sink")

    run_with("ab")
    run_with("")
    assert stream.numbers("commits") == [0, 1]
    with pytest.raises(StreamingQueryException, match="counted was not evaluated"):
        run_with("ab")


def test_a_result_may_be_evaluated_in_another_thread(stream: Stream):
    expected = three_batches(stream)
    got: dict[int, Any] = {}
    state = stream.state()

    def fn(frame: DataFrame, batch: int) -> None:
        joined = joined_by_sign(frame, state)
        got[batch] = in_thread(lambda: rows_of(joined))

    run(stream, hfs.foreach_batch(fn))
    assert got == expected


@pytest.mark.parametrize("evaluate", [lambda work: work(), in_thread], ids=["here", "in a thread"])
def test_operators_above_foreach_batch_are_evaluated_in_any_thread(stream: Stream, evaluate):
    # A regression test: in another thread this failed with "this job belongs to no micro-batch".
    expected = three_batches(stream)
    got: dict[int, Any] = {}

    def fn(frame: DataFrame, batch: int) -> None:
        got[batch] = evaluate(lambda: rows_of(frame))

    joined = joined_by_sign(stream.source("left"), stream.state())
    stream.run(joined, each=hfs.foreach_batch(fn))
    assert got == expected
    assert stream.log() == {0: 2, 1: 2, 2: 2}


def test_operators_above_foreach_batch_ignore_a_user_job_group(stream: Stream):
    expected = three_batches(stream)
    got: dict[int, Any] = {}

    def fn(frame: DataFrame, batch: int) -> None:
        stream.spark.sparkContext.setJobGroup("mine", "a group of my own")
        got[batch] = rows_of(frame)

    joined = joined_by_sign(stream.source("left"), stream.state())
    stream.run(joined, each=hfs.foreach_batch(fn))
    assert got == expected


def test_a_thread_that_outlives_its_micro_batch_gets_an_error(stream: Stream):
    # The frame of batch 1 has no rows, so only its session shows that it is of an earlier batch.
    stream.batch(left=[("a", 1, -1)])
    stream.batch(left=[])
    stream.batch(left=[("a", 5, 5)])
    stream.batch(left=[("a", 6, 6)])
    frames: list[DataFrame] = []
    refusals: list[str] = []
    got: dict[int, Any] = {}

    def fn(frame: DataFrame, batch: int) -> None:
        # In batch 2 an earlier frame still exists. Batch 3 has none, and reuses a session.
        refusals.extend(refusal(lambda old=old: in_thread(old.collect)) for old in frames)
        frames[:] = [frame] if batch < 2 else []
        got[batch] = in_thread(lambda: rows_of(frame))

    joined = joined_by_sign(stream.source("left"), stream.state())
    stream.run(joined, each=hfs.foreach_batch(fn))
    assert len(refusals) == 2
    assert all("join your threads" in message for message in refusals), refusals
    assert got == {0: {}, 1: {}, 2: {5: -1}, 3: {6: -1}}


def test_an_operator_may_be_called_in_another_thread_of_the_wrapper(stream: Stream):
    expected = three_batches(stream)
    got: dict[int, Any] = {}
    state = stream.state()

    def fn(frame: DataFrame, batch: int) -> None:
        got[batch] = in_thread(lambda: rows_of(joined_by_sign(frame, state)))

    run(stream, hfs.foreach_batch(fn))
    assert got == expected


@pytest.mark.parametrize("group", ["mine", "0f0a8f2e-54f2-4d9a-9d9b-2f2b8a0f7a11"])
def test_an_operator_may_be_called_in_a_thread_with_a_job_group(stream: Stream, group: str):
    # InheritableThread copies the micro-batch's properties; the job group replaces the run id in
    # them.
    expected = three_batches(stream)
    got: dict[int, Any] = {}
    state = stream.state()

    def fn(frame: DataFrame, batch: int) -> None:
        def work() -> None:
            frame.sparkSession.sparkContext.setJobGroup(group, "a group of my own")
            got[batch] = rows_of(joined_by_sign(frame, state))

        thread = InheritableThread(target=work, session=frame.sparkSession)
        thread.start()
        thread.join()

    run(stream, hfs.foreach_batch(fn))
    assert got == expected
    assert len(list((stream.root / "runs").glob("[0-9]*"))) == 1


def test_the_job_group_of_a_run_is_restored_after_each_micro_batch(stream: Stream):
    # Spark stops a query by its job group, and sets it once per run.
    three_batches(stream)
    groups: list[str | None] = []

    @hfs.foreach_batch
    def fn(frame: DataFrame, batch: int) -> None:
        context = frame.sparkSession.sparkContext
        groups.append(context.getLocalProperty("spark.jobGroup.id"))
        context.setJobGroup("mine", "a group of my own")

    run(stream, fn)
    assert groups == [str(stream.last.runId)] * 3


def test_a_new_run_uses_no_session_of_the_run_before(stream: Stream):
    # The wrapper outlives its query: the sessions of a run end with it.
    three_batches(stream)
    sessions: list[Any] = []

    @hfs.foreach_batch
    def fn(frame: DataFrame, batch: int) -> None:
        # A later frame of the run finds this one in use, and gets a clone of the session.
        sessions.append((frame, frame.sparkSession._jsparkSession.sessionUUID()))

    run(stream, fn)
    first = {uuid for _, uuid in sessions}
    stream.batch(left=[("a", 9, 100)])
    run(stream, fn)
    assert len(sessions) == 4
    assert len(first) == 3
    assert sessions[-1][1] not in first


def test_one_wrapper_serves_two_queries_and_their_restarts(stream: Stream, tmp_path: Path):
    (tmp_path / "other").mkdir()
    other = Stream(stream.spark, tmp_path / "other")
    got: list[tuple[int, Any]] = []

    @hfs.foreach_batch
    def fn(frame: DataFrame, batch: int) -> None:
        got.append((batch, in_thread(lambda: rows_of(frame))))

    frames = []
    for one in (stream, other):
        expected = three_batches(one)
        frames.append(joined_by_sign(one.source("left"), one.state()))
    queries = [
        frame.writeStream.foreachBatch(fn).option("checkpointLocation", one.checkpoint).start()
        for one, frame in zip((stream, other), frames, strict=True)
    ]
    for query in queries:
        query.processAllAvailable()
        query.stop()
    assert sorted(got, key=lambda found: found[0]) == [
        (batch, expected[batch]) for batch in range(3) for _ in queries
    ]
    stream.batch(left=[("a", 9, 100)])
    stream.run(frames[0], each=fn)
    assert len(got) == 7


def test_an_operator_called_in_another_thread_is_refused(stream: Stream):
    three_batches(stream)
    state = stream.state()
    refusals: list[str] = []

    def fn(frame: DataFrame, batch: int) -> None:
        refusals.append(refusal(lambda: in_thread(lambda: joined_by_sign(frame, state))))

    run(stream, fn)
    assert len(refusals) == 3
    assert all("needs an epoch" in message for message in refusals), refusals


def test_a_user_job_group_is_refused_without_the_wrapper(stream: Stream):
    three_batches(stream)
    state = stream.state()
    refusals: list[str] = []

    def fn(frame: DataFrame, batch: int) -> None:
        for group in ("mine", "0f0a8f2e-54f2-4d9a-9d9b-2f2b8a0f7a11"):
            stream.spark.sparkContext.setJobGroup(group, "a group of my own")
            refusals.append(refusal(lambda: joined_by_sign(frame, state)))

    run(stream, fn)
    assert len(refusals) == 6
    assert all(
        "the job group" in message and "is not the run id" in message for message in refusals
    ), refusals


def test_a_user_job_group_is_ignored_inside_the_wrapper(stream: Stream):
    expected = three_batches(stream)
    got: dict[int, Any] = {}
    state = stream.state()

    def fn(frame: DataFrame, batch: int) -> None:
        stream.spark.sparkContext.setJobGroup("mine", "a group of my own")
        got[batch] = rows_of(joined_by_sign(frame, state))

    run(stream, hfs.foreach_batch(fn))
    assert got == expected
    assert len(list((stream.root / "runs").glob("[0-9]*"))) == 1


def test_one_name_twice_in_an_epoch_is_refused(stream: Stream):
    three_batches(stream)
    state = stream.state()
    refusals: list[str] = []

    def fn(frame: DataFrame, batch: int) -> None:
        joined_by_sign(frame, state).collect()
        refusals.append(refusal(lambda: joined_by_sign(frame, state)))

    run(stream, hfs.foreach_batch(fn))
    assert len(refusals) == 3
    assert all("an operator named 'join' already" in message for message in refusals), refusals


def test_a_result_of_another_epoch_is_refused(stream: Stream):
    three_batches(stream)
    state = stream.state()
    stored: list[DataFrame] = []
    refusals: list[str] = []

    def fn(frame: DataFrame, batch: int) -> None:
        stored.append(joined_by_sign(frame, state))
        stored[-1].collect()
        if batch == 1:
            refusals.append(refusal(stored[0].collect))

    run(stream, hfs.foreach_batch(fn))
    assert len(refusals) == 1
    assert "call it again in every micro-batch" in refusals[0]


@pytest.mark.parametrize("call", [lambda work: work(), in_thread], ids=["here", "in a thread"])
def test_adaptive_execution_after_the_call_is_a_named_error_in_its_epoch(stream: Stream, call):
    # A regression test: Spark dropped the operator's tasks and committed the epoch. The next epoch
    # failed with "was not evaluated".
    three_batches(stream)
    state = stream.state()

    def fn(frame: DataFrame, batch: int) -> None:
        joined = call(lambda: joined_by_sign(frame, state))
        if batch == 1:
            frame.sparkSession.conf.set("spark.sql.adaptive.enabled", "true")
            joined = joined.join(frame.where("x > 1000").select("k"), "k")
        joined.collect()

    with pytest.raises(StreamingQueryException, match="spark.sql.adaptive.enabled"):
        run(stream, hfs.foreach_batch(fn))
    assert stream.numbers("commits") == [0]


def test_adaptive_execution_of_an_operator_above_is_a_named_error(stream: Stream):
    three_batches(stream)

    def fn(frame: DataFrame, batch: int) -> None:
        frame.sparkSession.conf.set("spark.sql.adaptive.enabled", str(batch == 1))
        frame.collect()

    joined = joined_by_sign(stream.source("left"), stream.state())
    with pytest.raises(StreamingQueryException, match=r"is evaluated with spark.sql.adaptive"):
        stream.run(joined, each=hfs.foreach_batch(fn))
    assert stream.numbers("commits") == [0]
