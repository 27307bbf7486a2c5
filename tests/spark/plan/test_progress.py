"""What happened in an epoch: `State.progress`, `holdfast epochs`, warnings of the driver."""

from __future__ import annotations

import json
import logging

import pytest
from streams import Stream

import holdfast.spark as hfs
from holdfast.cli import main
from holdfast.errors import StateMismatchError, UnsupportedOperationError


def counted(stream: Stream, frame, state: hfs.State):
    return hfs.aggregate(
        frame,
        by="k",
        on="t",
        aggs={"n": "count"},
        window=hfs.window("10 seconds"),
        grace="0 seconds",
        emit="close",
        state=state,
        name="totals",
    )


def test_late_and_dropped_rows_are_visible_in_the_root(
    stream: Stream, capsys: pytest.CaptureFixture[str]
):
    stream.batch(left=[("a", 1, 1), ("a", 100, 2)])
    stream.batch(left=[("a", 2, 3), ("b", None, 4), ("a", 102, 5)])
    state = stream.state()
    assert state.progress() is None
    stream.run(counted(stream, stream.source("left"), state))
    newest = state.progress()
    assert newest is not None
    assert (newest.epoch, newest.status, newest.run) == (1, "staged", 1)
    totals = newest.operators["totals"]
    assert (totals.partitions, totals.input_rows) == (2, 3)
    assert (totals.late, totals.dropped, totals.lost_rows) == (1, 1, 2)
    first = state.progress(0)
    assert first is not None
    assert (first.status, first.operators["totals"].lost_rows) == ("decided", 0)
    assert state.progress(7) is None
    options = [f"--storage-option={key}={value}" for key, value in state.storage_options.items()]
    assert main(["epochs", state.root or "", "--json", *options]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [epoch["epoch"] for epoch in shown] == [0, 1]
    assert shown[1]["operators"]["totals"]["late"] == 1
    assert main(["epochs", state.root or "", "--last", "1", *options]) == 0
    titles, row = capsys.readouterr().out.splitlines()
    assert titles.split()[:4] == ["epoch", "status", "run", "operator"]
    cells = row.split()
    assert cells[:5] == ["1", "staged", "1", "totals", "3"]
    assert cells[6:] == ["1", "1", "0", "0"]


def test_the_driver_warns_of_unused_rows_inside_of_foreach_batch(
    stream: Stream, caplog: pytest.LogCaptureFixture
):
    stream.batch(left=[("a", 1, 1), ("a", 100, 2)])
    stream.batch(left=[("a", 2, 3), ("b", None, 4), ("a", 102, 5)])
    state = stream.state()

    def each(frame, epoch: int) -> None:
        counted(stream, frame, state).collect()

    with caplog.at_level(logging.WARNING, logger="holdfast.spark.foreach_batch"):
        stream.run(stream.source("left"), each=hfs.foreach_batch(each))
    [warning] = [record.getMessage() for record in caplog.records]
    assert warning == (
        "operator totals, epoch 1: 1 rows came too late, 1 had no key or no time, 0 are far-future "
        "rows, 0 were before the history"
    )


def test_the_driver_warns_of_both_operators_of_a_foreign_key(
    stream: Stream, caplog: pytest.LogCaptureFixture
):
    stream.batch(left=[("a", 1, 1), ("b", None, 2)], right=[("a", 1, "v"), ("b", None, "w")])
    state = stream.state()

    def each(frame, epoch: int) -> None:
        right = frame.sparkSession.read.parquet(str(stream.base / "right"))
        hfs.join_table(
            frame,
            right,
            by="x",
            left_on="t",
            right_on="since",
            foreign_key="k",
            state=state,
            name="named",
        ).collect()

    with caplog.at_level(logging.WARNING, logger="holdfast.spark.foreach_batch"):
        stream.run(stream.source("left"), each=hfs.foreach_batch(each))
    warned = sorted(record.getMessage().split(", epoch")[0] for record in caplog.records)
    assert warned == ["operator named", "operator named_left"]


def test_an_epoch_in_which_no_operator_ran_is_skipped(stream: Stream):
    for time in (1, 11, 21):
        stream.batch(left=[("a", time, time)])
    state, seen = stream.state(), {}

    def each(frame, epoch: int) -> None:
        if epoch != 1:
            seen[epoch] = [tuple(row) for row in counted(stream, frame, state).collect()]

    stream.run(stream.source("left"), each=hfs.foreach_batch(each))
    skipped = state.progress(1)
    assert skipped is not None
    assert (skipped.status, skipped.run) == ("skipped", None)
    # The state goes on without the rows of epoch 1.
    assert [len(rows) for rows in seen.values()] == [0, 1]


def test_progress_needs_a_root(tmp_path):
    with pytest.raises(UnsupportedOperationError, match="keeps nothing"):
        hfs.State.scratch().progress()
    state = hfs.State(str(tmp_path / "root"))
    (tmp_path / "root").rmdir()
    with pytest.raises(StateMismatchError, match="no such folder"):
        state.progress()


def metrics_of(stream: Stream, name: str) -> list[dict[str, int]]:
    """Returns the metrics in the query's progress, for each epoch that has input rows."""
    found = [
        json.loads(progress.json)["observedMetrics"].get(name)
        for progress in stream.last.recentProgress
        if progress.numInputRows
    ]
    return [{} if metrics is None else metrics for metrics in found]


def test_late_and_dropped_rows_are_in_the_progress_of_the_query(stream: Stream):
    stream.batch(left=[("a", 1, 1), ("a", 100, 2)])
    # No row of this epoch has a result.
    stream.batch(left=[("a", 2, 3), ("b", None, 4), ("a", 102, 5)])
    state = stream.state()
    stream.run(counted(stream, stream.source("left"), state))
    none = {"late": 0, "dropped": 0, "expired": 0, "ahead": 0}
    assert metrics_of(stream, "holdfast:totals:result") == [
        none,
        {**none, "late": 1, "dropped": 1},
    ]


def test_reads_before_the_history_are_in_the_progress_of_the_query(stream: Stream):
    stream.batch(right=[("a", 0, "1"), ("a", 1_000, "2")])
    stream.batch(left=[("a", 10, 1), ("a", 1_001, 2)])
    joined = hfs.join_asof(
        stream.source("left"),
        stream.source("right"),
        by="k",
        left_on="t",
        right_on="since",
        history_retention="10 seconds",
        state=stream.state(),
        name="join",
    )
    rows = stream.run(joined)
    assert [metrics["expired"] for metrics in metrics_of(stream, "holdfast:join:result")] == [0, 1]
    # The row that carries the counts is in no result.
    assert [len(rows[epoch]) for epoch in sorted(rows)] == [0, 2]
    assert "holdfast_counts" not in joined.columns
