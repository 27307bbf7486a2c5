"""Streams of a table's changes."""

from __future__ import annotations

import json
import random
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from drivers import Driver, wait
from processors import OUT, Latest, LatestOfStruct
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from streams import KEYS, Stream, at

import holdfast as hf
import holdfast.spark as hfs
from holdfast._reader.pinned_epoch import PinnedEpoch
from holdfast.errors import StateMismatchError
from holdfast.spark.source.batch_reader import StateBatchReader
from holdfast.spark.source.changes_reader import ChangesBatchReader, TableChanges
from holdfast.spark.source.changes_span import ChangesSpan
from holdfast.spark.source.source_options import SourceOptions
from holdfast.spark.source.spark_types import spark_schema
from holdfast.spark.source.stream_reader import ChangesStreamReader

FOLLOWER = Path(__file__).parents[2] / "support" / "follower.py"


def latest(stream: Stream, **options: Any) -> DataFrame:
    return hfs.process(
        stream.source("left"),
        Latest(),
        by="k",
        on="t",
        schema=OUT,
        state=stream.state(**options),
        name="keys",
    )


def epochs(stream: Stream, *batches: list[tuple[str, int]], first: int = 0) -> None:
    """Writes a micro-batch for each list of (key, value), at rising times."""
    for number, rows in enumerate(batches, first):
        stream.batch(left=[(key, number, value) for key, value in rows])


def source(stream: Stream, reader: Any, **options: Any) -> DataFrame:
    asked = {"table": "keys.latest", "changes": "true", **options}
    reader = reader.format("holdfast").options(**asked)
    for name, value in stream.options.get("storage_options", {}).items():
        reader = reader.option(f"storage.{name}", value)
    return reader.load(stream.address)


class Follower:
    """A query that collects the changes in lists, one list for each micro-batch."""

    def __init__(self, stream: Stream, checkpoint: Path, **options: Any) -> None:
        self.stream, self.checkpoint, self.options = stream, str(checkpoint), options
        self.batches: list[list[tuple[Any, ...]]] = []

    def run(self) -> list[list[tuple[Any, ...]]]:
        """Reads what is there; returns the rows of each new micro-batch that has some."""
        self.batches.clear()
        frame = source(self.stream, self.stream.spark.readStream, **self.options)

        def collect(rows: DataFrame, _: int) -> None:
            found = sorted(map(tuple, rows.collect()), key=str)
            if found:
                self.batches.append(found)

        writer = frame.writeStream.foreachBatch(collect)
        writer = writer.option("checkpointLocation", self.checkpoint).trigger(availableNow=True)
        writer.start().awaitTermination()
        return list(self.batches)


THREE = [[("a", 1), ("b", 2)], [("a", 3), ("c", 4)], [("b", -1), ("d", 5)]]


def test_a_stream_begins_with_the_table_and_goes_on_with_changes(stream: Stream, tmp_path):
    epochs(stream, *THREE)
    stream.run(latest(stream))
    follower = Follower(stream, tmp_path / "follower")
    table = [(2, "a", 3, False), (2, "c", 4, False), (2, "d", 5, False)]
    assert follower.run() == [table]
    assert follower.run() == []
    epochs(stream, [("a", -1)], [("e", 6), ("c", 7)], first=3)
    stream.run(latest(stream))
    assert sum(follower.run(), []) == [
        (3, "a", None, True),
        (4, "c", 7, False),
        (4, "e", 6, False),
    ]


CHANGES = [
    [(0, "a", 1, False), (0, "b", 2, False)],
    [(1, "a", 3, False), (1, "c", 4, False)],
    [(2, "b", None, True), (2, "d", 5, False)],
]


@pytest.mark.parametrize(
    ("start", "expected"),
    [("earliest", CHANGES), ("0", CHANGES), ("1", CHANGES[1:]), ("3", []), ("latest", [])],
)
def test_a_stream_starts_at_the_epoch_of_its_option(
    stream: Stream, tmp_path, start: str, expected: list[list[tuple[Any, ...]]]
):
    epochs(stream, *THREE)
    stream.run(latest(stream))
    follower = Follower(stream, tmp_path / "follower", startingEpoch=start, maxEpochsPerTrigger="1")
    assert follower.run() == expected
    epochs(stream, [("e", 6)], first=3)
    stream.run(latest(stream))
    assert follower.run() == [[(3, "e", 6, False)]]


def test_latest_begins_with_the_first_epoch_if_none_is_final():
    def partitions(span: ChangesSpan, _: PinnedEpoch) -> list[int]:
        return list(range(span.first, span.last + 1))

    state = SimpleNamespace(epoch=None, newest_rewind_of=lambda _: 0)
    options = SimpleNamespace(starting_epoch="latest", max_epochs=None, follower=None)
    reads = ChangesStreamReader(
        SimpleNamespace(reader=state, options=options, partitions=partitions)
    )
    begin = reads.initialOffset()
    first = reads.latestOffset(begin)
    assert reads.partitions(begin, first) == []
    assert reads.latestOffset(first) == first
    state.epoch = 5
    second = reads.latestOffset(first)
    assert reads.partitions(first, second) == [0, 1, 2, 3, 4, 5]


def test_the_versions_of_a_table_come_with_their_deletes(stream: Stream, tmp_path):
    epochs(stream, *THREE, [("b", 8), ("a", 9)])
    stream.run(latest(stream))
    rows = {"table": "keys.versions"}
    first = Follower(stream, tmp_path / "first", **rows).run()
    by_epoch = Follower(stream, tmp_path / "second", startingEpoch="earliest", **rows).run()
    expected = [
        ("a", at(0), 1, False),
        ("a", at(1), 3, False),
        ("a", at(3), 9, False),
        ("b", at(0), 2, False),
        ("b", at(2), None, True),
        ("b", at(3), 8, False),
        ("c", at(1), 4, False),
        ("d", at(2), 5, False),
    ]

    def without_epochs(batches: list[list[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
        found = [row[1:] for batch in batches for row in batch]
        return sorted(((k, t.astimezone(at(0).tzinfo), v, d) for k, t, v, d in found), key=str)

    assert without_epochs(first) == without_epochs(by_epoch) == sorted(expected, key=str)


def test_the_versions_of_nested_keys_come_with_their_deletes(stream: Stream, tmp_path):
    epochs(stream, *THREE, [("b", 8)])
    frame = hfs.process(
        stream.source("left"),
        LatestOfStruct(),
        by="k",
        on="t",
        schema=OUT,
        state=stream.state(),
        name="keys",
    )
    stream.run(frame)
    # Some partitions have one version, others have several.
    (found,) = Follower(stream, tmp_path / "follower", table="keys.versions").run()
    of_b = [(t.astimezone(at(0).tzinfo), value) for _, key, t, value, _ in found if key.of.k == "b"]
    assert sorted(of_b) == [(at(0), 2), (at(2), None), (at(3), 8)]
    key = F.struct(F.struct("k", F.lit(float("nan")).alias("n")).alias("of"))
    orders = stream.spark.createDataFrame([("d",), ("zz",)], "k string").withColumn("key", key)
    joined = hfs.lookup(
        orders,
        stream.address,
        "keys",
        on="key",
        columns=["value"],
        storage_options=stream.options.get("storage_options"),
    )
    assert {row.k: row.value for row in joined.collect()} == {"d": 5, "zz": None}


def test_the_first_micro_batch_is_repeated_as_it_was(stream: Stream, tmp_path):
    epochs(stream, *THREE)
    stream.run(latest(stream))
    follower = Follower(stream, tmp_path / "follower")
    (table,) = follower.run()
    for name in ("0", ".0.crc"):
        (tmp_path / "follower" / "commits" / name).unlink(missing_ok=True)
    epochs(stream, [("e", 6)], first=3)
    stream.run(latest(stream))
    assert follower.run() == [table, [(3, "e", 6, False)]]


def test_changes_that_are_lost_end_the_stream(stream: Stream, tmp_path):
    options = {"snapshot_interval": "1 microsecond", "retain_epochs": 1}
    epochs(stream, *THREE)
    stream.run(latest(stream, **options))
    follower = Follower(stream, tmp_path / "follower")
    assert follower.run()
    for number in range(3, 10):
        epochs(stream, [("a", number), ("z", number)], first=number)
        stream.run(latest(stream, **options))
    with pytest.raises(
        Exception, match=r"no longer holds the changes of epoch 3: the oldest epoch that it holds"
    ):
        follower.run()
    with pytest.raises(Exception, match="ChangesLostError"):
        Follower(stream, tmp_path / "other", startingEpoch="1").run()
    with pytest.raises(Exception, match="ChangesLostError"):
        source(stream, stream.spark.read, endingEpoch="1").collect()
    (table,) = Follower(stream, tmp_path / "another").run()
    assert [row[1:3] for row in table] == [("a", 9), ("c", 4), ("d", 5), ("z", 9)]


def test_a_named_follower_holds_the_log_back(
    stream: Stream, tmp_path, capsys: pytest.CaptureFixture[str]
):
    from holdfast.cli import main

    options = {"snapshot_interval": "1 microsecond", "retain_epochs": 1, "max_follower_lag": 8}
    epochs(stream, *THREE)
    stream.run(latest(stream, **options))
    follower = Follower(stream, tmp_path / "follower", follower="billing")
    assert follower.run()

    def run(*numbers: int) -> None:
        for number in numbers:
            epochs(stream, [("a", number)], first=number)
            stream.run(latest(stream, **options))

    def command(*arguments: str) -> str:
        for name, value in stream.options.get("storage_options", {}).items():
            arguments += ("--storage-option", f"{name}={value}")
        assert main(["followers", *arguments]) == 0
        return capsys.readouterr().out

    run(*range(3, 10))
    shown = json.loads(command("list", stream.address, "--json"))
    assert shown == {"follower": "billing", "epoch": 3, "behind": 7}
    assert sum(follower.run(), []) == [(number, "a", number, False) for number in range(3, 10)]
    shown = json.loads(command("list", stream.address, "--json"))
    assert shown == {"follower": "billing", "epoch": 10, "behind": 0}
    # Further behind than State(max_follower_lag=).
    run(*range(10, 24))
    with pytest.raises(Exception, match="no longer holds the changes of epoch 10"):
        follower.run()
    command("remove", stream.address, "billing")
    assert command("list", stream.address, "--json") == ""


def test_epochs_that_were_taken_back_end_the_stream(stream: Stream, tmp_path):
    epochs(stream, *THREE)
    stream.run(latest(stream))
    follower = Follower(stream, tmp_path / "follower")
    assert follower.run()
    stream.rewind(2)
    with pytest.raises(
        Exception, match="epoch 2 is in the stream.s checkpoint, and it was taken back"
    ):
        follower.run()
    # The query computes epoch 2 again, with other rows, and goes on.
    epochs(stream, [("z", 9)], [("y", 9)], first=3)
    stream.run(latest(stream))
    with pytest.raises(
        Exception, match="epoch 2 is in the stream.s checkpoint, and it was taken back"
    ):
        follower.run()
    later = Follower(stream, tmp_path / "later").run()
    assert ("z", 9) in [(key, value) for _, key, value, _ in later[0]]


def test_tasks_notice_that_the_epoch_of_their_plan_was_taken_back(stream: Stream):
    epochs(stream, *THREE)
    stream.run(latest(stream))
    options = SourceOptions.parse({"path": stream.address, "changes": "true"})
    reader = hf.connect(stream.address, storage_options=stream.options.get("storage_options"))
    table = reader["keys"]["latest"]
    changes = TableChanges(options, reader, table, spark_schema(table.changes_schema))
    plans = [
        (reads, reads.partitions()[0])
        for reads in (
            StateBatchReader(options, reader, table, spark_schema(table.schema)),
            ChangesBatchReader(changes),
        )
    ]
    for reads, task in plans:
        list(reads.read(task))
    stream.rewind(2)
    epochs(stream, [("z", 9)], [("y", 9)], first=3)
    stream.run(latest(stream))
    for reads, task in plans:
        with pytest.raises(StateMismatchError, match="epoch 2 was taken back by a rewind"):
            list(reads.read(task))


def test_changes_are_read_in_a_batch_query(stream: Stream):
    epochs(stream, *THREE)
    stream.run(latest(stream))

    def read(**options: Any) -> list[tuple[Any, ...]]:
        return sorted(map(tuple, source(stream, stream.spark.read, **options).collect()), key=str)

    assert read() == sum(CHANGES, [])
    assert read(startingEpoch="1", endingEpoch="1") == CHANGES[1]
    assert read(startingEpoch="2") == CHANGES[2]
    assert read(startingEpoch="2", columns="key,deleted") == [("b", True), ("d", False)]
    assert read(startingEpoch="2", endingEpoch="1") == []
    for options, message in (
        ({"startingEpoch": "latest"}, "which is for streams"),
        ({"startingEpoch": "soon"}, "give snapshot, earliest, latest or a number"),
        ({"key": "a"}, "option key is for the table; changes is true"),
        ({"changes": "false", "endingEpoch": "1"}, "option endingEpoch is for its changes"),
        ({"endingEpoch": "3"}, "epoch 3"),
        ({"follower": "billing"}, "option follower is for streams"),
    ):
        with pytest.raises(Exception, match=message):
            read(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"changes": "false"}, "set the option changes to true"),
        ({"endingEpoch": "1"}, "option endingEpoch is for batch queries"),
        ({"maxEpochsPerTrigger": "0"}, "give a number from 1"),
        ({"follower": "a.b"}, "option follower is 'a.b'; give 1 to 100 ASCII letters"),
    ],
)
def test_options_that_do_not_fit_a_stream_are_named(
    stream: Stream, tmp_path, options: Any, message: str
):
    epochs(stream, *THREE)
    stream.run(latest(stream))
    with pytest.raises(Exception, match=message):
        Follower(stream, tmp_path / "follower", **options).run()


def test_a_stream_is_right_if_pyspark_asks_for_the_latest_offset_first(stream: Stream):
    """PySpark 4.0 and 4.1 call `latestOffset()` before they pass the start of the stream."""
    epochs(stream, *THREE)
    stream.run(latest(stream))
    options = SourceOptions.parse(
        {"path": stream.address, "changes": "true", "maxepochspertrigger": "1"}
    )
    reader = hf.connect(stream.address, storage_options=stream.options.get("storage_options"))
    table = reader["keys"]["latest"]
    changes = TableChanges(options, reader, table, spark_schema(table.changes_schema))
    new, restarted = ChangesStreamReader(changes), ChangesStreamReader(changes)
    end = new.latestOffset()
    assert ChangesSpan.between(new.initialOffset(), end) == ChangesSpan(
        first=3, last=2, table_epoch=2
    )
    assert len(new.partitions(new.initialOffset(), end)) == stream.partitions
    assert new.latestOffset() == end
    assert ChangesSpan.between({"epoch": 0}, restarted.latestOffset()) == ChangesSpan(
        first=1, last=2
    )
    assert restarted.partitions({"epoch": 2, "rewind": 0}, restarted.latestOffset()) == []
    first = {"epoch": 0, "rewind": 0}
    assert restarted.partitions(first, first) == []
    with pytest.raises(
        StateMismatchError,
        match="epoch 3 is in the stream.s checkpoint, and the newest final epoch is 2. After a",
    ):
        another = ChangesStreamReader(changes)
        another.partitions({"epoch": 3, "rewind": 0}, another.latestOffset())
    # `partitions` has passed the start of the stream.
    assert restarted.latestOffset() == {"epoch": 1, "rewind": 0}


# The follower starts three times.
@pytest.mark.timeout(1_200)
def test_every_change_is_written_once_though_the_follower_is_killed(stream: Stream, tmp_path):
    random_ = random.Random(7)
    folder = tmp_path / "follower"
    folder.mkdir()
    epochs(stream, *THREE)
    writer = latest(stream).writeStream.format("noop")
    writer = writer.option("checkpointLocation", stream.checkpoint)
    query = writer.trigger(processingTime="0 seconds").start()
    query.processAllAvailable()
    ended = threading.Event()

    def written() -> int:
        return len(list((folder / "checkpoint" / "commits").glob("[0-9]*")))

    def feed() -> None:
        number = 3
        while not ended.wait(0.2):
            # The feed waits for the follower, which starts slowly: each of its Python processes
            # compiles PySpark again.
            if number > 2 * written() + 10:
                continue
            rows = [(key, random_.randrange(-10, 100)) for key in random_.sample(KEYS, 3)]
            epochs(stream, rows, first=number)
            number += 1

    feeder = threading.Thread(target=feed)
    feeder.start()
    settings = {"root": stream.address, "table": "keys.latest", "maxEpochsPerTrigger": "2"}
    for name, value in stream.options.get("storage_options", {}).items():
        settings[f"storage.{name}"] = value

    def start() -> Driver:
        return Driver(folder, settings=settings, job=FOLLOWER)

    def wait_written(more: int, driver: Driver) -> None:
        wanted = written() + more
        wait(lambda: written() >= wanted or driver.ended, "nothing was written")
        assert not driver.ended, driver.words()

    try:
        for _ in range(2):
            driver = start()
            wait_written(2, driver)
            threading.Event().wait(random_.random())
            driver.kill()
    finally:
        ended.set()
        feeder.join()
    query.processAllAvailable()
    query.stop()
    (folder / "last").touch()
    driver = start()
    wait(lambda: driver.ended, "the follower does not end")
    assert driver.process.returncode == 0, driver.words()
    found = [tuple(row) for row in stream.spark.read.parquet(str(folder / "out")).collect()]
    begin = min(row[0] for row in found)
    assert len({row[:2] for row in found}) == len(found), "a change was written twice"
    options = stream.options.get("storage_options")
    with hf.connect(stream.address, storage_options=options) as reader:
        table = reader["keys"]["latest"]
        later = table.changes(from_epoch=begin + 1).read_all().to_pylist()
        assert sorted(row for row in found if row[0] > begin) == sorted(
            tuple(row.values()) for row in later
        )
        state: dict[str, int] = {}
        for _, key, value, deleted in sorted(found):
            state[key] = value
            if deleted:
                del state[key]
        rows = table.scan().read_all().to_pylist()
        assert state == {row["key"]: row["value"] for row in rows}
