"""What happened in an epoch: `State.progress`, `holdfast epochs`, warnings of the driver."""

from __future__ import annotations

import json
import logging
from importlib import import_module
from types import SimpleNamespace

import pytest
from streams import Stream

import holdfast.spark as hfs
from holdfast._progress import EpochProgress
from holdfast.cli import main
from holdfast.errors import RestoreError, StateMismatchError, UnsupportedOperationError
from holdfast.spark.epoch import Epoch

# `holdfast.spark.foreach_batch` is the function of this name.
foreach_batch = import_module("holdfast.spark.foreach_batch")


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


def test_an_epoch_in_which_no_operator_ran_is_skipped(
    stream: Stream, caplog: pytest.LogCaptureFixture
):
    for time in (1, 11, 21):
        stream.batch(left=[("a", time, time)])
    state, seen = stream.state(), {}

    def each(frame, epoch: int) -> None:
        if epoch != 1:
            seen[epoch] = [tuple(row) for row in counted(stream, frame, state).collect()]

    with caplog.at_level(logging.WARNING, logger="holdfast.spark.foreach_batch"):
        stream.run(stream.source("left"), each=hfs.foreach_batch(each))
    skipped = state.progress(1)
    assert skipped is not None
    assert (skipped.status, skipped.run) == ("skipped", None)
    # The state goes on without the rows of epoch 1.
    assert [len(rows) for rows in seen.values()] == [0, 1]
    [warning] = [record.getMessage() for record in caplog.records]
    assert "no operator ran in epoch 1, so the state does not have its rows" in warning


class _Epochs:
    """A root in which no operator ran in some epochs."""

    def __init__(self, skipped: set[int]) -> None:
        self.skipped = skipped
        self.read: list[int] = []

    def progress(self, root: str, storage_options: object, *, epoch: int) -> list[EpochProgress]:
        self.read.append(epoch)
        status = "skipped" if epoch in self.skipped else "decided"
        return [EpochProgress(epoch, status, None, {})]


def test_the_driver_warns_once_of_each_skipped_epoch(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    epochs = _Epochs(skipped={3, 4, 6})
    monkeypatch.setattr(foreach_batch, "read_progress", epochs.progress)
    monkeypatch.setattr(foreach_batch, "check_evaluated", lambda *_: None)
    monkeypatch.setattr(foreach_batch, "is_adaptive", lambda _: False)
    monkeypatch.setattr(foreach_batch, "_warn_of_unused_rows", lambda *_: None)

    def each(_: object, number: int) -> None:
        if number not in epochs.skipped:
            of = Epoch("query", "run", number)
            foreach_batch.note_operators(
                of, "root", storage_options={}, partitions=1, names=["totals"]
            )

    wrapped, frame = hfs.foreach_batch(each), SimpleNamespace(sparkSession=None)

    def warned(numbers: range) -> list[str]:
        caplog.clear()
        for number in numbers:
            wrapped._call(Epoch("query", "run", number), None, frame)
        return [record.getMessage().split(",")[0] for record in caplog.records]

    # The first one follows a restart.
    assert warned(range(5, 9)) == [f"root: no operator ran in epoch {epoch}" for epoch in (3, 4, 6)]
    assert epochs.read == [4, 3, 2, 6], "nothing is read if no epoch lies between"
    # A rewind has taken the last epochs back.
    assert warned(range(5, 6)) == [f"root: no operator ran in epoch {epoch}" for epoch in (3, 4)]


@pytest.mark.parametrize("last", [None, 7])
def test_the_driver_reads_a_bounded_number_of_skipped_epochs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, last: int | None
):
    epochs = _Epochs(skipped=set(range(1_000)))
    monkeypatch.setattr(foreach_batch, "read_progress", epochs.progress)
    foreach_batch._warn_of_skipped_epochs("root", {}, 1_000, last)
    assert epochs.read == list(range(999, 899, -1))
    more, *each = [record.getMessage() for record in caplog.records]
    assert (
        "in the 100 epochs before epoch 1000; there may be more such epochs before epoch 900"
        in more
    )
    assert len(each) == 100
    # Exactly as many epochs lie between the two.
    caplog.clear()
    foreach_batch._warn_of_skipped_epochs("root", {}, 1_000, 899)
    assert len(caplog.records) == 100


def test_a_status_that_cannot_be_read_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def fail(*_: object, **__: object) -> None:
        raise RestoreError("damaged")

    monkeypatch.setattr(foreach_batch, "read_progress", fail)
    foreach_batch._warn_of_skipped_epochs("root", {}, 5, None)
    [warning] = [record.getMessage() for record in caplog.records]
    assert warning == "epoch 4 of root: its status cannot be read: damaged"


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
