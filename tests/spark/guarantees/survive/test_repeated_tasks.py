"""Results that are evaluated more than once, or in part."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame
from sequence import Sequence
from sequence_query import SequenceQuery
from streams import joined_by_sign

import holdfast.spark as hfs


def test_tasks_repeated_after_a_fetch_failure_count_once(query: SequenceQuery):
    query.arrive(3)
    marks = query.base / "marks"
    marks.mkdir()

    def mark(batches):
        from pyspark import TaskContext

        context = TaskContext.get()
        (marks / f"{context.partitionId()}-{context.taskAttemptId()}").touch()
        yield from batches

    def each(frame: DataFrame, batch: int, joined: DataFrame) -> None:
        if batch != 1:
            query.keep(batch, joined.collect())
            return
        # An RDD reuses its shuffle files, so Spark repeats the tasks whose files are gone.
        shuffled = joined.mapInArrow(mark, joined.schema).repartition(3).rdd
        shuffled.count()
        for file in Path(query.spark.conf.get("spark.local.dir")).glob(
            "blockmgr-*/*/shuffle_*.data"
        ):
            file.unlink()
        query.keep(batch, shuffled.collect())

    query.run(each)
    assert len(list(marks.iterdir())) > 2, "no task ran again"
    query.check(totals=False)


def test_a_task_whose_input_is_broken_off_stages_nothing(query: SequenceQuery):
    query.sequence = Sequence(1, rows=2_000, keys=8)
    query.arrive(2)
    state, broken = query.state(), []

    def fn(frame: DataFrame, batch: int) -> None:
        # Several tasks write the files of the shuffle below the operator.
        joined = joined_by_sign(frame.repartition(3), state)
        if batch != 1:
            query.keep(batch, joined.collect())
            return
        rows = joined.rdd
        # For task 1 Spark writes the shuffle's files. Then the last one is lost: task 0 gets the
        # rows of the others in many batches before Spark finds that out.
        rows.context.runJob(rows, list, [1])
        folder = Path(query.spark.conf.get("spark.local.dir"))
        files = {
            tuple(int(part) for part in file.name.split("_")[1:3]): file
            for file in folder.glob("blockmgr-*/*/shuffle_*.data")
        }
        newest = max(shuffle for shuffle, _ in files)
        of_newest = sorted(number for number in files if number[0] == newest)
        assert len(of_newest) > 1
        files[of_newest[-1]].unlink()
        rows.context.runJob(rows, list, [0])
        broken.append(batch)
        query.keep(batch, rows.collect())

    query.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 10)
    running = query.start(hfs.foreach_batch(fn))
    try:
        running.processAllAvailable()
    finally:
        running.stop()
        query.spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert broken == [1]
    query.check(totals=False)


def test_a_count_and_two_sinks_of_one_result_agree(query: SequenceQuery):
    query.arrive(3)
    out = query.base / "out"

    def each(frame: DataFrame, batch: int, joined: DataFrame) -> None:
        assert joined.count() == len(query.sequence.joined[batch])
        joined.write.parquet(f"{out}/one/{batch}")
        joined.write.json(f"{out}/other/{batch}")

    query.run(each)
    for sink, read in (
        ("one", query.spark.read),
        ("other", query.spark.read.schema("x long, v long").format("json")),
    ):
        for batch in range(3):
            folder = f"{out}/{sink}/{batch}"
            query.keep(
                batch, (read.parquet(folder) if sink == "one" else read.load(folder)).collect()
            )
        query.check(totals=False)
