"""Exactly once, when work is repeated, lost, done in part or done by another run."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from streams import (
    KEYS,
    Stream,
    kill_host_of_worker,
    kill_hosts,
    seconds,
    values,
)

from holdfast.cli import main

# --- replay
# --------------------------------------------------------------------------------------------------


def scenario(stream: Stream) -> None:
    stream.batch(right=[(key, 1, f"{key}1") for key in KEYS])
    stream.batch(
        left=[(key, 5, n) for n, key in enumerate(KEYS)],
        right=[(key, 6, f"{key}6") for key in KEYS],
    )


def then(stream: Stream) -> None:
    stream.batch(
        left=[row for n, key in enumerate(KEYS) for row in ((key, 5, n), (key, 7, 10 + n))]
    )


EXPECTED_1 = {n: f"{key}1" for n, key in enumerate(KEYS)}
EXPECTED_2 = {**EXPECTED_1, **{10 + n: f"{key}6" for n, key in enumerate(KEYS)}}


@pytest.mark.parametrize("host", ["lives", "is killed"])
def test_a_new_run_replays_an_epoch_exactly_once(stream: Stream, host: str):
    scenario(stream)
    first = dict(stream.run())
    stream.forget_commit(1)
    if host == "is killed":
        assert kill_hosts()
    then(stream)
    stream.batches = {}
    again = stream.run()
    assert sorted(again) == [1, 2]
    assert again[1] == first[1]
    assert values(again[2]) == EXPECTED_2


@pytest.mark.parametrize("host", ["lives", "is killed"])
def test_a_replayed_epoch_that_the_file_sink_skips_counts_once(stream: Stream, host: str):
    scenario(stream)
    out = stream.base / "out"

    stream.run_to_files(stream.joined(), "parquet", out)
    stream.forget_commit(1)
    if host == "is killed":
        assert kill_hosts()
    then(stream)
    stream.run_to_files(stream.joined(), "parquet", out)
    rows = sorted((row["x"], row["v"]) for row in stream.spark.read.parquet(str(out)).collect())
    assert rows == sorted([*EXPECTED_1.items(), *EXPECTED_2.items()])


def test_a_rewound_query_continues_with_other_code(
    stream: Stream, capsys: pytest.CaptureFixture[str]
):
    scenario(stream)
    then(stream)
    # The databases are then ahead by more epochs than one lost commit can explain.
    then(stream)
    stream.run()
    assert main(["rewind", str(stream.root), "--epoch", "1"]) == 0
    assert "epoch 1 is next" in capsys.readouterr().out
    stream.batches = {}
    later = stream.source("right").withColumn("v", F.concat("v", F.lit("!")))
    again = stream.run(right=later)
    assert sorted(again) == [1, 2]
    # Epoch 0's table rows (such as "a1") come from the old code. Epoch 1 was replayed by the new
    # code, which added "!" to its rows.
    assert values(again[2]) == {n: v if v.endswith("1") else f"{v}!" for n, v in EXPECTED_2.items()}


def test_a_replay_with_other_rows_stops_before_it_is_acknowledged(stream: Stream):
    scenario(stream)
    stream.run()
    stream.forget_commit(1)
    with pytest.raises(StreamingQueryException, match="holdfast epoch drop"):
        stream.run(stream.joined(left=stream.source("left").withColumn("x", F.col("x") + 1)))
    # With the old code the query continues.
    then(stream)
    assert values(stream.run()[2]) == EXPECTED_2


def replay_with_other_code(stream: Stream, guarantee: str) -> dict[int, list[Any]]:
    scenario(stream)
    stream.run(state=stream.state(processing_guarantee=guarantee))
    stream.forget_commit(1)
    assert kill_hosts()
    then(stream)
    stream.batches = {}
    later = stream.source("right").withColumn("v", F.concat("v", F.lit("!")))
    return stream.run(right=later, state=stream.state(processing_guarantee=guarantee))


def test_a_replay_that_changes_the_state_differently_is_refused(stream: Stream):
    with pytest.raises(StreamingQueryException, match="an earlier run"):
        replay_with_other_code(stream, "exactly_once")


def test_at_least_once_continues_from_the_first_of_two_different_replays(
    stream: Stream,
):
    again = replay_with_other_code(stream, "at_least_once")
    assert sorted(again) == [1, 2]
    assert values(again[1]) == EXPECTED_1
    # The state has epoch 1's table rows of the first run, not those of the second.
    assert values(again[2]) == EXPECTED_2


# --- tasks and hosts
# ----------------------------------------------------------------------------------------------


def test_a_task_retried_after_it_staged_counts_once(stream: Stream):
    scenario(stream)
    then(stream)
    marks = stream.base / "marks"
    marks.mkdir()

    def fail_once(batches):
        from pyspark import TaskContext

        rows = list(batches)  # to the end: the operator below has staged its partition
        context = TaskContext.get()
        mark = (
            Path(marks)
            / f"{context.getLocalProperty('streaming.sql.batchId')}-{context.partitionId()}"
        )
        if not mark.exists():
            mark.touch()
            raise RuntimeError("fails once, after everything was consumed")
        yield from rows

    joined = stream.joined()
    batches = stream.run(joined.mapInArrow(fail_once, joined.schema))
    assert len(list(marks.iterdir())) == 3 * stream.partitions
    assert values(batches[1]) == EXPECTED_1
    assert values(batches[2]) == EXPECTED_2


def test_a_host_killed_in_mid_epoch_loses_nothing(stream: Stream):
    scenario(stream)
    many = [(key, 8, 100 + n) for n, key in enumerate(KEYS * 4_000)]
    stream.batch(left=many)
    then(stream)
    marks = stream.base / "marks"
    marks.mkdir()

    def kill_once(batches):
        from pyspark import TaskContext

        context = TaskContext.get()
        mark = Path(marks) / f"{context.getLocalProperty('streaming.sql.batchId')}"
        for batch in batches:
            if batch.num_rows and context.getLocalProperty("streaming.sql.batchId") == "2":
                # Only the first of the two workers kills the host: the other one, at the same
                # moment, would find no host to kill.
                with suppress(FileExistsError), mark.open("x") as file:
                    file.write(str(kill_host_of_worker()))
            yield batch

    joined = stream.joined()
    batches = stream.run(joined.mapInArrow(kill_once, joined.schema))
    assert (marks / "2").read_text() == "1"
    assert values(batches[2]) == {x: f"{key}6" for key, _, x in many}
    assert values(batches[3]) == EXPECTED_2


def test_a_host_killed_with_a_staged_epoch_loses_nothing(stream: Stream):
    scenario(stream)
    then(stream)
    killed: list[int] = []

    def each(frame: DataFrame, batch: int) -> None:
        stream.collect(frame, batch)
        # Staged, not yet committed by Spark.
        killed.extend(kill_hosts())

    batches = stream.run(each=each)
    assert len(killed) == 3
    assert values(batches[1]) == EXPECTED_1
    assert values(batches[2]) == EXPECTED_2


def databases(stream: Stream) -> Path:
    return stream.root / "state"


def test_a_missing_local_directory_is_restored(stream: Stream):
    scenario(stream)
    stream.run()
    assert kill_hosts()
    shutil.rmtree(databases(stream))
    then(stream)
    assert values(stream.run()[2]) == EXPECTED_2


def test_a_root_deleted_and_created_again_begins_empty(stream: Stream):
    """As in a notebook: the state host with the first root's databases continues to run."""
    scenario(stream)
    then(stream)
    first = dict(stream.run())
    assert values(first[2]) == EXPECTED_2
    shutil.rmtree(stream.root)
    stream.batches.clear()
    assert stream.run() == first


def test_an_older_local_directory_is_brought_up_to_date(stream: Stream):
    stream.batch(right=[(key, 1, f"{key}1") for key in KEYS])
    stream.run()
    assert kill_hosts()
    shutil.copytree(databases(stream), stream.base / "older")
    stream.batch(
        left=[(key, 5, n) for n, key in enumerate(KEYS)],
        right=[(key, 6, f"{key}6") for key in KEYS],
    )
    stream.run()
    assert kill_hosts()
    shutil.rmtree(databases(stream))
    shutil.copytree(stream.base / "older", databases(stream))
    then(stream)
    assert values(stream.run()[2]) == EXPECTED_2


def test_databases_are_stored_in_local_dir(stream: Stream):
    scenario(stream)
    then(stream)
    elsewhere = stream.base / "elsewhere"
    batches = stream.run(state=stream.state(local_dir=str(elsewhere)))
    assert values(batches[2]) == EXPECTED_2
    query = json.loads((stream.root / "query" / "metadata").read_text())["id"]
    assert sorted(path.name for path in (elsewhere / query / "join").iterdir()) == ["0", "1"]
    assert not databases(stream).exists()


def test_a_truncated_log_object_is_a_named_error(stream: Stream):
    scenario(stream)
    stream.run()
    assert kill_hosts()
    shutil.rmtree(databases(stream))
    victim = stream.objects()[0]
    whole = victim.read_bytes()
    victim.write_bytes(whole[: len(whole) // 2])
    then(stream)
    with pytest.raises(StreamingQueryException, match=victim.name):
        stream.run()
    victim.write_bytes(whole)
    assert values(stream.run()[2]) == EXPECTED_2


def test_every_partition_of_every_epoch_is_in_the_log(stream: Stream):
    stream.batch(left=[("a", 1, 1)])
    stream.batch(right=[("a", 1, "a")])
    stream.batch(left=[("a", 1, 2)])
    stream.run()
    assert stream.log() == {0: 2, 1: 2, 2: 2}


def test_many_partitions_and_rows_give_the_expected_result(stream: Stream):
    stream.partitions = 5
    keys = [f"key{n}" for n in range(200)]
    for batch in range(4):
        stream.batch(
            left=[(key, 100 * batch + 50 + n % 7, 1_000 * batch + n) for n, key in enumerate(keys)],
            right=[(key, 100 * batch + n % 5, f"{batch}") for n, key in enumerate(keys)],
        )
    batches = stream.run()
    for batch in range(4):
        assert values(batches[batch]) == {1_000 * batch + n: f"{batch}" for n in range(200)}
        assert all(seconds(row[3]) == 100 * batch + int(row[0][3:]) % 5 for row in batches[batch])


def test_large_values_pass_through_the_log(spark, tmp_path: Path):
    right = pa.schema(
        [("k", pa.string()), ("since", pa.timestamp("us", "UTC")), ("v", pa.string())]
    )
    stream = Stream(spark, tmp_path, right=right)
    big = "x" * 3_000_000
    stream.batch(right=[(key, 1, key + big) for key in KEYS])
    stream.run()
    assert kill_hosts()
    shutil.rmtree(databases(stream))
    stream.batch(left=[(key, 5, n) for n, key in enumerate(KEYS)])
    batches = stream.run()
    assert {x: value[0] for x, value in values(batches[1]).items()} == dict(enumerate(KEYS))
    assert {len(value) for value in values(batches[1]).values()} == {len(big) + 1}


def test_a_new_disk_restores_a_snapshot_and_the_log_stays_short(stream: Stream):
    def run() -> dict[int, list[Any]]:
        return stream.run(state=stream.state(snapshot_interval="0 seconds", retain_epochs=2))

    # Snapshots run beside the epochs, so the disk decides how many epochs pass until the log is
    # shortened.
    batches = 0
    while not batches or min(stream.log()) == 0:
        assert batches < 200, "no epoch of the log was removed"
        for batch in range(batches, batches + 12):
            stream.batch(right=[(key, 10 * batch, f"{key}{batch}") for key in KEYS])
        batches += 12
        run()
    assert kill_hosts()
    shutil.rmtree(databases(stream))
    # These rows also find values of epochs that are no longer in the log.
    stream.batch(
        left=[
            (key, 10 * batch + 5, 100 * batch + n)
            for batch in range(batches)
            for n, key in enumerate(KEYS)
        ]
    )
    expected = {
        100 * batch + n: f"{key}{batch}" for batch in range(batches) for n, key in enumerate(KEYS)
    }
    assert values(run()[batches]) == expected
