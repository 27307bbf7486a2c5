"""Streams for tests: the rows of each micro-batch, as data."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import holdfast.spark as hfs
from holdfast.cli import main

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

KEYS = "abcdefgh"  # enough that both partitions have some
EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
LEFT = pa.schema([("k", pa.string()), ("t", pa.timestamp("us", "UTC")), ("x", pa.int32())])
RIGHT = pa.schema(
    [
        ("k", pa.string()),
        ("since", pa.timestamp("us", "UTC")),
        ("v", pa.string()),
        ("n", pa.int32()),
    ]
)
_SPARK = {
    "string": "string",
    "int32": "int",
    "int64": "long",
    "double": "double",
    "timestamp[us, tz=UTC]": "timestamp",
    "timestamp[us]": "timestamp_ntz",
}


def at(seconds: float | None) -> datetime | None:
    """The time that many seconds after the start of 2024; None for None."""
    return None if seconds is None else EPOCH + timedelta(seconds=seconds)


def seconds(time: datetime | None) -> float | None:
    """The inverse of `at`; Spark returns naive times of the machine's zone."""
    return None if time is None else round((time.astimezone(UTC) - EPOCH).total_seconds(), 6)


class Root:
    """The root of a state: a folder, or under `scripts/s3` the prefix of that name.

    It is the same in every process of a test.
    """

    def __init__(self, folder: Path) -> None:
        self.files = folder
        """The folder of the root's files; the server of `scripts/s3` stores an object as a file."""
        self.address = str(folder)
        self.options: dict[str, Any] = {}
        """The options of `State` for this root."""
        if "HOLDFAST_TEST_S3" in os.environ:
            prefix = str(folder).lstrip("/")
            self.files = Path(os.environ["HOLDFAST_TEST_S3_FOLDER"]) / prefix
            self.address = f"s3://test/{prefix}"
            # Databases are stored beside the objects, as in a root that is a folder.
            self.options = {"storage_options": s3_options(), "local_dir": str(self.files / "state")}

    def state(self, **options: Any) -> hfs.State:
        """Returns the state in this root."""
        return hfs.State(self.address, **{**self.options, **options})


class Stream:
    """Two parquet sources that return one file per micro-batch, and a query over them.

    A left row is (k, seconds, x), a right row (k, seconds, v) or (k, seconds, v, n).
    """

    def __init__(
        self, spark: SparkSession, base: Path, left: pa.Schema = LEFT, right: pa.Schema = RIGHT
    ) -> None:
        self.spark = spark
        self.base = base
        self.schemas = {"left": left, "right": right}
        where = Root(base / "state")
        self.root, self.address, self.options = where.files, where.address, where.options
        self.partitions = 2
        self.batches: dict[int, list[Any]] = {}
        self.last: Any = None
        self._files = 0
        self._clock = time.time() - 100_000
        for side in self.schemas:
            (base / side).mkdir(exist_ok=True)

    def batch(
        self, left: Sequence[tuple[Any, ...]] = (), right: Sequence[tuple[Any, ...]] = ()
    ) -> None:
        """Writes the input of the next micro-batch."""
        for side, rows in (("left", left), ("right", right)):
            schema = self.schemas[side]
            columns = [
                [
                    at(row[index])
                    if pa.types.is_timestamp(field.type) and not isinstance(row[index], datetime)
                    else row[index]
                    for row in (tuple(row) + (None,) * len(schema) for row in rows)
                ]
                for index, field in enumerate(schema)
            ]
            file = self.base / side / f"{self._files:06}.parquet"
            pq.write_table(
                pa.Table.from_arrays(
                    [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)],
                    schema=schema,
                ),
                file,
            )
            # Spark's file source reads files in the order of their modification times.
            os.utime(file, (self._clock + self._files,) * 2)
        self._files += 1

    def source(self, side: str) -> DataFrame:
        ddl = ", ".join(f"`{field.name}` {_SPARK[str(field.type)]}" for field in self.schemas[side])
        return (
            self.spark.readStream.schema(ddl)
            .option("maxFilesPerTrigger", 1)
            .parquet(str(self.base / side))
        )

    def state(self, **options: Any) -> hfs.State:
        return hfs.State(self.address, **{"partitions": self.partitions, **self.options, **options})

    def rewind(self, epoch: int = 0) -> None:
        """Takes back this epoch and all later ones, as `holdfast rewind` does."""
        arguments = ["rewind", self.address, "--epoch", str(epoch)]
        for name, value in self.options.get("storage_options", {}).items():
            arguments += ["--storage-option", f"{name}={value}"]
        assert main(arguments) == 0

    @property
    def checkpoint(self) -> str:
        """The location of the query's checkpoint."""
        return f"{self.address.replace('s3://', 's3a://')}/query"

    def joined(self, state: hfs.State | None = None, **options: Any) -> DataFrame:
        """The as-of join of both sources."""
        asked = {
            "by": "k",
            "left_on": "t",
            "right_on": "since",
            "history_retention": "30 days",
            "name": "join",
            **options,
        }
        left, right = (
            asked.pop("left", self.source("left")),
            asked.pop("right", self.source("right")),
        )
        return hfs.join_asof(left, right, state=state or self.state(), **asked)

    def run(
        self,
        frame: DataFrame | None = None,
        *,
        each: Callable[[DataFrame, int], None] | None = None,
        checkpoint: str | None = None,
        **options: Any,
    ) -> dict[int, list[Any]]:
        """Runs the query until all input is processed; returns the rows of every micro-batch.

        `each` is called for a micro-batch; by default its rows are collected.
        """
        frame = self.joined(**options) if frame is None else frame
        self._process(frame.writeStream.foreachBatch(each or self.collect), checkpoint)
        return self.batches

    def run_to_files(self, frame: DataFrame, file_format: str, folder: Path) -> None:
        """Runs the query into Spark's file sink until all input is processed."""
        self._process(frame.writeStream.format(file_format).option("path", str(folder)))

    def _process(self, writer: DataStreamWriter, checkpoint: str | None = None) -> None:
        writer = writer.option("checkpointLocation", checkpoint or self.checkpoint)
        query = writer.trigger(processingTime="0 seconds").start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()
            self.last = query

    def collect(self, frame: DataFrame, batch_id: int) -> None:
        """Stores the rows of a micro-batch."""
        self.batches[batch_id] = sorted(map(tuple, frame.collect()), key=str)

    def last_of_each(self, frame: DataFrame) -> dict[Any, tuple[Any, ...]]:
        """Runs the query; returns the last row of each key (the first column), in order."""
        found: dict[Any, tuple[Any, ...]] = {}

        def keep(frame: DataFrame, _: int) -> None:
            found.update((row[0], tuple(row)) for row in frame.collect())

        self.run(frame, each=keep)
        return found

    def log(self, operator: str = "join") -> dict[int, int]:
        """Returns the number of partitions with an object in the log, by epoch."""
        found: dict[int, set[str]] = {}
        for file in self.objects(operator):
            found.setdefault(int(file.parent.name), set()).add(file.name.split(".")[1])
        return {epoch: len(partitions) for epoch, partitions in sorted(found.items())}

    def numbers(self, log: str) -> list[int]:
        """Returns the micro-batches in one of Spark's logs, `offsets` or `commits`."""
        return sorted(
            int(file.name)
            for file in (self.root / "query" / log).iterdir()
            if file.name.isdecimal()
        )

    def forget_commit(self, batch: int) -> None:
        """Leaves the files of a driver that died after the sink's commit and before Spark's."""
        for name in (str(batch), f".{batch}.crc"):
            (self.root / "query" / "commits" / name).unlink(missing_ok=True)

    def objects(self, operator: str = "join") -> list[Path]:
        """Returns the objects of the log, oldest epoch first."""
        return sorted((self.root / "log").glob(f"*/{operator}.*"))


def s3_options() -> dict[str, str]:
    """Returns the storage options for the server of `scripts/s3`."""
    return {
        "endpoint": os.environ["HOLDFAST_TEST_S3"],
        "access_key_id": "test",
        "secret_access_key": "testtest",
        "allow_http": "true",
    }


def sides(frame: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Splits rows (k, t, x) into a stream and, for a negative `x`, a table (k, since, v)."""
    from pyspark.sql import functions as F

    return frame.where("x >= 0"), frame.where("x < 0").select(
        "k", F.col("t").alias("since"), F.col("x").alias("v")
    )


def joined_by_sign(frame: DataFrame, state: hfs.State, **options: Any) -> DataFrame:
    """Joins a frame's rows as of their time with those of negative `x`; history: 10,000 days."""
    asked = {
        "by": "k",
        "left_on": "t",
        "right_on": "since",
        "history_retention": "10000 days",
        "name": "join",
        **options,
    }
    return hfs.join_asof(*sides(frame), state=state, **asked)


def values(rows: Sequence[tuple[Any, ...]]) -> dict[int, Any]:
    """Returns the value joined to each left row, by its `x`, for rows of the default columns."""
    return {row[2]: row[4] for row in rows}


def hosts() -> list[int]:
    """Returns the state hosts of this process's Spark."""
    ours = below(os.getpid())
    return [pid for pid, executor in executors_hosts() if executor in ours]


def workers() -> list[int]:
    """Returns the Python workers of this process's Spark."""
    ours, found = below(os.getpid()), processes()
    daemons = {
        pid
        for pid, _, command in found
        if pid in ours and {"pyspark.daemon", "preloaded_daemon"} & set(command)
    }
    return [pid for pid, parent, _ in found if parent in daemons]


def kill_hosts() -> list[int]:
    """Kills the state hosts of this process's Spark, and waits until they have ended."""
    killed = hosts()
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while any(pid in killed for pid in hosts()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return killed


def kill_host_of_worker() -> int:
    """Kills the state host of the executor of this Python worker."""
    parents = {pid: parent for pid, parent, _ in processes()}
    above, at = set(), os.getpid()
    while at in parents and at > 1:
        above.add(at)
        at = parents[at]
    killed = [pid for pid, executor in executors_hosts() if executor in above]
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    return len(killed)


def in_thread(work: Callable[[], Any]) -> Any:
    """Runs `work` in another thread, without this one's properties, and returns its result."""
    done: list[Any] = []

    def run() -> None:
        try:
            done.append((work(), None))
        except Exception as error:  # noqa: BLE001 - raised again in the caller's thread
            done.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    result, error = done[0]
    if error is not None:
        raise error
    return result


def executors_hosts() -> list[tuple[int, int]]:
    """Returns all state hosts of this machine: process id, and that of the executor."""
    found = []
    for pid, _, command in processes():
        # Processes that ended and were not waited for are left out.
        if "holdfast.host" in command and "--executor-pid" in command:
            found.append((pid, int(command[command.index("--executor-pid") + 1])))
    return found


def below(root: int) -> list[int]:
    """Returns a process and all its descendants, parents before children."""
    everything, found = processes(), [root]
    for above in found:
        found.extend(pid for pid, parent, _ in everything if parent == above)
    return found


def processes() -> list[tuple[int, int, list[str]]]:
    """Returns all processes: id, parent, command line."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status, command = (folder / "stat").read_text(), (folder / "cmdline").read_bytes()
        except OSError:
            continue  # it has ended
        found.append(
            (
                int(folder.name),
                int(status.rpartition(")")[2].split()[1]),
                command.decode(errors="replace").split("\0"),
            )
        )
    return found
