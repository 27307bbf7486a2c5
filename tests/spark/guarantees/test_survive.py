"""Tests of what a query survives, on the shared session, checked against its input."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pytest
from drivers import wait
from processors import OUT, Columns
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from sequence import DDL, Sequence
from streams import Root, Stream, hosts, joined_by_sign, kill_hosts, workers

import holdfast.spark as hfs


class Query:
    """A query over a sequence: the join, and the totals of its rows."""

    def __init__(self, spark: Any, base: Path, **of_sequence: int) -> None:
        self.spark, self.base, self.place = spark, base, Root(base / "state")
        self.sequence = Sequence(1, **{"rows": 60, "keys": 8, **of_sequence})
        self.joined: dict[int, list[Any]] = {}
        self.totals: dict[int, list[Any]] = {}
        self.settings: dict[str, Any] = {}

    @property
    def root(self) -> Path:
        """The root's files."""
        return self.place.files

    def arrive(self, batches: int) -> None:
        """Writes the input of this many more micro-batches."""
        base = self.base / "in"
        for _ in range(batches):
            self.sequence.write(base)

    def start(self, each: Callable[[DataFrame, int], None]) -> Any:
        rows = (
            self.spark.readStream.schema(DDL)
            .option("maxFilesPerTrigger", 1)
            .parquet(str(self.base / "in"))
        )
        writer = rows.writeStream.foreachBatch(each).option(
            "checkpointLocation", self.state().checkpoint_location
        )
        return writer.trigger(processingTime="0 seconds").start()

    def run(self, each: Callable[[DataFrame, int, DataFrame], None] | None = None) -> None:
        """Processes all input; `each` gets the join, too."""
        query = self.start(self.collecting(each))
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    def collecting(
        self, each: Callable[[DataFrame, int, DataFrame], None] | None = None
    ) -> Callable[[DataFrame, int], Any]:
        state = self.state()

        def fn(frame: DataFrame, batch: int) -> None:
            joined = joined_by_sign(frame, state)
            if each is not None:
                each(frame, batch, joined)
                return
            totals = hfs.aggregate(
                joined,
                by="k",
                aggs={"n": "count", "total": ("sum", "v")},
                state=state,
                name="totals",
            )
            self.joined[batch] = [tuple(row) for row in joined.select("x", "v").collect()]
            self.totals[batch] = [tuple(row) for row in totals.collect()]

        return hfs.foreach_batch(fn)

    def state(self) -> hfs.State:
        return self.place.state(partitions=2, **self.settings)

    def keep(self, batch: int, rows: list[Any]) -> None:
        """Records the rows of a micro-batch's join that `each` found."""
        self.joined[batch] = [(row["x"], row["v"]) for row in rows]

    def check(self, *, totals: bool = True) -> None:
        """Compares every micro-batch so far with the sequence."""
        found = self.totals
        if not totals:
            found = {
                n: [(key, *group) for key, group in groups.items()]
                for n, groups in enumerate(self.sequence.totals)
            }
        assert self.sequence.differences(self.joined, found) == []


@pytest.fixture
def query(spark, tmp_path: Path) -> Query:
    return Query(spark, tmp_path)


# --- evaluated more than once, or not at all
# --------------------------------------------------------------------------


def test_tasks_repeated_after_a_fetch_failure_count_once(query: Query):
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


def test_a_task_whose_input_is_broken_off_stages_nothing(query: Query):
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


def test_a_count_and_two_sinks_of_one_result_agree(query: Query):
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


# --- the root's contents
# --------------------------------------------------------------------------------------------


def refused(query: Query, *words: str, others_stage: bool = False) -> None:
    """Checks that the query fails with these words and leaves the log unchanged.

    `others_stage`: only one partition is refused. Tasks of the others may stage the new epoch, and
    record the decision of the committed one before it.
    """
    log = sorted(query.root.glob("log/*/*"))
    with pytest.raises(StreamingQueryException) as refusal:
        query.run()
    for word in words:
        assert word in str(refusal.value)
    after = sorted(query.root.glob("log/*/*"))
    newest = max((path.parent.name for path in after), default="")
    added = {
        path
        for path in after
        if not others_stage or (path.parent.name != newest and not path.name.startswith("decided"))
    }
    assert added - set(log) == set()
    assert set(log) - set(after) == set()


@pytest.mark.survive
def test_a_restored_older_checkpoint_is_a_named_error(query: Query):
    query.arrive(2)
    query.run()
    checkpoint, older, newer = query.root / "query", query.base / "older", query.base / "newer"
    shutil.copytree(checkpoint, older)
    # A checkpoint that is one epoch older looks like a lost commit and gives the same result.
    query.arrive(4)
    query.run()
    checkpoint.rename(newer)
    shutil.copytree(older, checkpoint)
    refused(
        query,
        "an older checkpoint was restored",
        f"holdfast rewind {query.place.address} --epoch 2",
    )
    shutil.rmtree(checkpoint)
    newer.rename(checkpoint)
    query.arrive(1)
    query.run()
    query.check()


@pytest.mark.survive
def test_a_missing_checkpoint_beside_a_state_is_a_named_error(query: Query):
    query.arrive(2)
    query.run()
    checkpoint, stored = query.root / "query", query.base / "kept"
    checkpoint.rename(stored)
    refused(query, "put the checkpoint back")
    shutil.rmtree(checkpoint)
    stored.rename(checkpoint)
    query.arrive(1)
    query.run()
    query.check()


@pytest.mark.survive
@pytest.mark.parametrize("host", ["lives", "is killed"])
def test_a_missing_state_beside_a_checkpoint_is_a_named_error(query: Query, host: str):
    query.arrive(2)
    query.run()
    if host == "is killed":
        assert kill_hosts()
    stored = query.base / "kept"
    stored.mkdir()
    for part in [part for part in query.root.iterdir() if part.name != "query"]:
        part.rename(stored / part.name)
    query.arrive(1)
    refused(query, "the state was deleted")
    for part in stored.iterdir():
        shutil.rmtree(query.root / part.name, ignore_errors=True)
        part.rename(query.root / part.name)
    query.run()
    query.check()


@pytest.mark.survive
def test_a_missing_log_object_is_a_named_error(query: Query):
    query.arrive(2)
    query.run()
    assert kill_hosts()
    shutil.rmtree(query.root / "state")
    victim = sorted(query.root.glob("log/*0/join.*"))[0]
    stored = victim.rename(query.base / "kept")
    query.arrive(1)
    missing = f"{victim.relative_to(query.root)} is missing"
    refused(query, missing, "Restore it from a backup", others_stage=True)
    stored.rename(victim)
    query.run()
    query.check()


def flip_a_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)


def cut_in_half(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


@pytest.mark.survive
@pytest.mark.parametrize("damage", [cut_in_half, flip_a_byte])
def test_a_damaged_newest_snapshot_is_survived(query: Query, damage: Callable[[Path], None]):
    query.settings = {"snapshot_interval": "0 seconds", "retain_epochs": 2}

    def snapshots() -> list[tuple[Path, list[Path]]]:
        """The folder of each partition with its snapshots, newest first."""
        folders = query.root.glob("snapshots/*/*")

        def is_snapshot(file: Path) -> bool:
            # A name with a # belongs to a put in progress.
            return "#" not in file.name and file.suffix != ".removal"

        return [
            (folder, sorted(filter(is_snapshot, folder.glob("*.*")), reverse=True))
            for folder in folders
        ]

    # Snapshots run beside the epochs, so the disk decides how many epochs it takes.
    while len(taken := snapshots()) < 4 or min(len(files) for _, files in taken) < 2:
        assert len(query.sequence.batches) < 100, f"no two snapshots of each partition: {taken}"
        query.arrive(8)
        query.run()
    assert kill_hosts()
    shutil.rmtree(query.root / "state")
    for folder, files in snapshots():
        newest, *older = (json.loads(file.read_text())["files"] for file in files)
        shared = {file["digest"] for files in older for file in files}
        # All tables are damaged, because RocksDB reads few bytes of a file when it opens it.
        tables = [
            file
            for file in newest
            if file["name"].endswith(".sst") and file["digest"] not in shared
        ]
        assert tables
        for file in tables:
            # The name ends with the term of the owner that put the file.
            (stored,) = (folder / "files").glob(f"{file['digest']}-{file['bytes']}.*")
            damage(stored)
    query.arrive(1)
    query.run()
    query.check()


# --- the disk
# --------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A separate disk of 64 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", disk], check=False, capture_output=True
    )
    if mount.returncode:
        pytest.skip(f"only root may mount a disk: {mount.stderr.decode()}")
    yield disk
    kill_hosts()
    subprocess.run(["umount", "--lazy", disk], check=True)


@pytest.mark.survive
@pytest.mark.parametrize("full", ["root", "databases"])
def test_a_full_disk_is_a_named_error(query: Query, small_disk: Path, full: str):
    """The error says what to do; after space is freed, the query continues."""
    if full == "root":
        if "HOLDFAST_TEST_S3" in os.environ:
            pytest.skip("this test cannot fill the disk of an S3 server")
        query.place = Root(small_disk / "state")
    else:
        query.settings = {"local_dir": str(small_disk)}
    query.arrive(4)
    filler, ended = small_disk / "filler", threading.Event()

    def fill() -> None:
        """Fills freed space again: RocksDB removes files before it makes new ones."""
        with filler.open("wb", buffering=0) as file:
            while not ended.wait(0.005):
                with suppress(OSError):
                    while True:
                        file.write(bytes(4096))

    thread = threading.Thread(target=fill)

    def each(frame: DataFrame, batch: int, joined: DataFrame) -> None:
        if batch == 2 and thread.ident is None:
            # From now on the driver writes nothing until its tasks have ended.
            thread.start()
            wait(lambda: shutil.disk_usage(small_disk).free == 0, "the disk does not become full")
            if full == "databases":
                kill_hosts()  # the next host opens the databases again
        query.keep(batch, joined.collect())

    try:
        with pytest.raises(StreamingQueryException, match="[Ff]ree space"):
            query.run(each)
    finally:
        ended.set()
        thread.join()
    filler.unlink()
    query.run(each)
    query.check(totals=False)


# --- code and queries
# -------------------------------------------------------------------------------------------------


@pytest.mark.survive
def test_new_processor_code_may_add_a_value_column(stream: Stream):
    stream.batch(left=[(key, 1, n) for n, key in enumerate("abcdefgh")])

    def run(**columns: pa.DataType) -> dict[int, list[Any]]:
        rows = stream.source("left")
        return stream.run(
            hfs.process(
                rows,
                Columns(**columns),
                by="k",
                on="t",
                state=stream.state(),
                schema=OUT,
                name="columns",
            )
        )

    run(n=pa.int64())
    stream.batch(left=[(key, 2, n) for n, key in enumerate("abcdefgh")])
    stream.batch(left=[(key, 3, n) for n, key in enumerate("abcdefgh")])
    # The first row finds the new column empty, the second finds the first one's value.
    given = run(n=pa.int64(), m=pa.int64())
    assert given == {
        0: [(key, 1) for key in "abcdefgh"],
        1: [(key, 2) for key in "abcdefgh"],
        2: [(key, 103) for key in "abcdefgh"],
    }


def test_two_queries_on_one_spark_do_not_interfere(spark, tmp_path: Path):
    both = [Query(spark, tmp_path / name) for name in ("one", "other")]
    for query in both:
        query.base.mkdir()
        query.arrive(3)
    started = [query.start(query.collecting()) for query in both]
    for query in started:
        query.processAllAvailable()
        query.stop()
    for query in both:
        query.check()


# --- kills at a chosen moment
# ------------------------------------------------------------------------------------------


class Watch:
    """Kills the state hosts of this Spark when a condition holds, `times` times."""

    def __init__(self, condition: Callable[[], Any], times: int = 1) -> None:
        self.kills = 0
        self.killed_at = 0.0  # Seconds since 1970.
        self._condition, self._times, self._ended = condition, times, False
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._thread.join()

    def _watch(self) -> None:
        known, looked = list[int](), 0.0
        while not self._ended and self.kills < self._times:
            # Hosts are listed in advance: the listing may take longer than the condition holds.
            if time.monotonic() > looked + 0.05:
                known, looked = hosts(), time.monotonic()
            if not self._holds():
                time.sleep(0.0005)
                continue
            stopped = signal_all(known, signal.SIGSTOP)
            # Checked again while all are stopped, in case the moment has passed.
            aimed = self._holds()
            signal_all(stopped, signal.SIGKILL if aimed else signal.SIGCONT)
            if aimed and stopped:
                self.kills += 1
                self.killed_at = time.time()
                time.sleep(0.2)

    def _holds(self) -> bool:
        with suppress(OSError):  # a file may disappear meanwhile
            return bool(self._condition())
        return False


def signal_all(pids: list[int], number: signal.Signals) -> list[int]:
    """Sends a signal to each process; returns those that exist."""
    found = []
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
            found.append(pid)
    return found


def names(folder: Path) -> list[str]:
    return os.listdir(folder) if folder.exists() else []


@pytest.mark.survive
def test_hosts_killed_while_staging_lose_nothing(spark, tmp_path: Path):
    query = Query(spark, tmp_path, rows=60_000, keys=30_000)
    query.arrive(4)
    log = query.root / "log"

    def staging() -> bool:
        """Whether an object of the newest epoch is being written.

        It has a temporary name, or a chunk and no head.
        """
        epochs = sorted(names(log))
        objects = names(log / epochs[-1]) if epochs else []
        if "HOLDFAST_TEST_S3" in os.environ:
            # On S3 objects appear as a whole: one partition's object exists, the other's does not.
            return len(objects) % 2 == 1
        heads = {tuple(name.split(".")[:3]) for name in objects if name.count(".") == 2}
        return any("#" in name or tuple(name.split(".")[:3]) not in heads for name in objects)

    watch = Watch(staging, times=2)
    with watch:
        query.run()
    assert watch.kills > 0
    query.check()


@pytest.mark.survive
def test_hosts_killed_during_a_snapshot_lose_nothing(spark, tmp_path: Path):
    query = Query(spark, tmp_path, rows=20_000, keys=10_000)
    query.settings = {"snapshot_interval": "0 seconds", "retain_epochs": 2}
    query.arrive(8)
    snapshots = query.root / "snapshots"

    def newest(folder: Path) -> float:
        return max(
            (entry.stat().st_mtime for entry in os.scandir(folder) if entry.is_file()), default=0
        )

    def copying() -> bool:
        """Returns whether a snapshot's file is newer than all manifests and the last kill.

        No manifest names such a file yet.
        """
        return any(
            newest(files) > max(newest(files.parent), watch.killed_at)
            for files in snapshots.glob("*/*/files")
        )

    watch = Watch(copying, times=2)
    with watch:
        query.run()
    assert watch.kills > 0
    # A host with an empty disk restores the snapshots.
    kill_hosts()
    shutil.rmtree(query.root / "state")
    query.arrive(1)
    query.run()
    query.check()


@pytest.mark.survive
def test_hosts_killed_during_a_restore_lose_nothing(spark, tmp_path: Path):
    query = Query(spark, tmp_path, rows=20_000, keys=10_000)
    query.settings = {"snapshot_interval": "0 seconds", "retain_epochs": 2}
    query.arrive(8)
    query.run()
    databases = query.root / "state"

    def restoring() -> bool:
        """Returns whether a snapshot's files are being fetched.

        Their folder exists only during the restore, unless its host was killed.
        """
        return any(
            folder.stat().st_mtime > watch.killed_at for folder in databases.rglob("*.restore")
        )

    kills = 0
    # A restore may end before the hosts are stopped: repeat until two kills hit one.
    while kills < 2:
        assert len(query.sequence.batches) < 30, f"{kills} kills while a snapshot was fetched"
        assert kill_hosts()
        shutil.rmtree(databases)
        query.arrive(1)
        watch = Watch(restoring, times=2)
        with watch:
            query.run()
        kills += watch.kills
    query.check()


@pytest.mark.survive
def test_python_workers_killed_in_mid_batch_lose_nothing(spark, tmp_path: Path):
    query = Query(spark, tmp_path, rows=5_000, keys=500)
    query.arrive(8)
    killed: dict[int, int] = {}
    ended = threading.Event()
    offsets = query.root / "query" / "offsets"

    def kill() -> None:
        while not ended.wait(0.3):
            batch = max((int(name) for name in names(offsets) if name.isdecimal()), default=-1)
            # Once per micro-batch, since Spark tries a task four times.
            for pid in workers()[:1] if batch >= 0 and batch not in killed else ():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed[batch] = pid

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        query.run()
    finally:
        ended.set()
        thread.join()
    assert len(killed) > 3
    query.check()
