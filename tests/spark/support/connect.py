"""The cases of `test_connect.py`, each in a process with a Spark Connect session.

python tests/spark/support/connect.py FOLDER CASE
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streams
from processors import OUT, Hits
from pyspark.errors import PySparkException
from smoke import session

import holdfast.spark as hfs
from holdfast.spark.worker.executor import Executor

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

KEYS = "abcdefgh"
_FRAMES: list[DataFrame] = []
"""Frames of earlier micro-batches, in the process of `foreachBatch`."""


def counted(base: Path, spark: SparkSession, batches: int) -> streams.Stream:
    """A stream of micro-batches in which each key has one row."""
    base.mkdir(exist_ok=True)
    stream = streams.Stream(spark, base)
    for batch in range(batches):
        stream.batch(left=[(key, batch, n) for n, key in enumerate(KEYS)])
    return stream


def counting(stream: streams.Stream) -> Callable[[DataFrame, int], None]:
    """Counts each key's rows, and writes the counts at each row."""
    out, state = str(stream.base / "out"), stream.state()

    def write(frame: DataFrame, batch_id: int) -> None:
        hits = hfs.process(frame, Hits(), by="k", on="t", state=state, schema=OUT, name="hits")
        hits.write.mode("overwrite").parquet(f"{out}/{batch_id}")

    return write


def writing(stream: streams.Stream) -> Callable[[DataFrame, int], None]:
    """Writes the counts of `counted_in_the_plan`, after jobs in another thread and in this one."""
    out = str(stream.base / "out")

    def write(frame: DataFrame, batch_id: int) -> None:
        rows = streams.in_thread(frame.collect)
        assert sorted(rows) == sorted(frame.collect())
        frame.write.mode("overwrite").parquet(f"{out}/{batch_id}")

    return write


def counted_in_the_plan(stream: streams.Stream) -> DataFrame:
    """Each key's rows with their counts, by an operator above `foreachBatch`."""
    return hfs.process(
        stream.source("left"),
        Hits(),
        by="k",
        on="t",
        state=stream.state(),
        schema=OUT,
        name="hits",
    )


def check(stream: streams.Stream, batches: int) -> None:
    """Checks that micro-batch n has each key once, with the count n + 1."""
    for batch in range(batches):
        rows = stream.spark.read.parquet(str(stream.base / "out" / str(batch))).collect()
        assert sorted(map(tuple, rows)) == [(key, batch + 1) for key in KEYS], (batch, rows)


def start(stream: streams.Stream, fn: Any, frame: DataFrame | None = None) -> Any:
    """Starts the query over the frame, or the stream's rows, and returns without waiting."""
    frame = stream.source("left") if frame is None else frame
    writer = frame.writeStream.foreachBatch(fn)
    return writer.option("checkpointLocation", str(stream.root / "query")).start()


def two_queries(folder: Path) -> None:
    """Two queries use the same batch ids: only their checkpoints differ."""
    spark = session(folder, connect=True)
    both = [counted(folder / name, spark, 3) for name in ("one", "other")]
    queries = [start(stream, hfs.foreach_batch(counting(stream))) for stream in both]
    for query in queries:
        query.processAllAvailable()
        query.stop()
    for stream in both:
        check(stream, 3)


def above(folder: Path) -> None:
    """The most common form of a job: an operator, and a function that writes its result."""
    spark = session(folder, connect=True)
    stream = counted(folder / "stream", spark, 2)
    stream.run(counted_in_the_plan(stream), each=hfs.foreach_batch(writing(stream)))
    check(stream, 2)
    # A new run over the same checkpoint.
    stream.batch(left=[(key, 2, n) for n, key in enumerate(KEYS)])
    stream.run(counted_in_the_plan(stream), each=hfs.foreach_batch(writing(stream)))
    check(stream, 3)


def two_above(folder: Path) -> None:
    """Two queries of one session have operators in their plans; one lags behind the other."""
    spark = session(folder, connect=True)
    both = [counted(folder / name, spark, batches) for name, batches in (("one", 3), ("other", 5))]
    queries = [
        start(stream, hfs.foreach_batch(writing(stream)), counted_in_the_plan(stream))
        for stream in both
    ]
    for query in queries:
        query.processAllAvailable()
        query.stop()
    for stream, batches in zip(both, (3, 5), strict=True):
        check(stream, batches)


def outlived(folder: Path) -> None:
    """A thread that evaluates a frame in the next micro-batch gets an error."""
    spark = session(folder, connect=True)
    stream = counted(folder / "stream", spark, 2)
    refusal = str(folder / "refusal")

    def write(frame: DataFrame, batch_id: int) -> None:
        writing(stream)(frame, batch_id)
        _FRAMES.append(frame)
        if batch_id == 1:
            try:
                rows = str(streams.in_thread(_FRAMES[0].collect))
            except PySparkException as error:
                rows = f"refused: {error}"
            Path(refusal).write_text(rows)

    stream.run(counted_in_the_plan(stream), each=hfs.foreach_batch(write))
    assert Path(refusal).read_text().startswith("refused: ")
    check(stream, 2)


def restarted(folder: Path) -> None:
    """Each start is a new run."""
    spark = session(folder, connect=True)
    stream = counted(folder / "stream", spark, 2)
    stream.run(stream.source("left"), each=hfs.foreach_batch(counting(stream)))
    stream.batch(left=[(key, 2, n) for n, key in enumerate(KEYS)])
    stream.run(stream.source("left"), each=hfs.foreach_batch(counting(stream)))
    check(stream, 3)
    assert len(list((stream.root / "runs").glob("[0-9]*"))) == 2


def unwrapped(folder: Path) -> None:
    """Without the wrapper the epoch is unknown, and the operator raises an error."""
    # Imported here: `scripts/pyspark-versions` runs other cases where there is no pytest.
    import pytest

    spark = session(folder, connect=True)
    stream = counted(folder / "stream", spark, 1)
    with pytest.raises(PySparkException, match=r"foreachBatch\(hfs.foreach_batch\(fn\)\)"):
        stream.run(stream.source("left"), each=counting(stream))


def server_killed(folder: Path) -> None:
    """The server dies between the sink's write and Spark's commit; another one continues."""
    client = subprocess.Popen([sys.executable, __file__, str(folder), "server_dies"])
    while not (folder / "killed").exists():
        assert client.poll() is None, "the client ended before its server"
        time.sleep(0.1)
    # The client would retry connecting to its server for minutes.
    client.kill()
    client.wait()
    spark = session(folder, connect=True)
    stream = counted(folder / "again", spark, 0)
    stream.root, stream.base = folder / "stream" / "state", folder / "stream"
    stream.run(stream.source("left"), each=hfs.foreach_batch(counting(stream)))
    check(stream, 4)


def server_dies(folder: Path) -> None:
    """The first half of `server_killed`."""
    spark = session(folder, connect=True)
    stream = counted(folder / "stream", spark, 4)
    write, mark = counting(stream), folder / "killed"

    def killing(frame: DataFrame, batch_id: int) -> None:
        write(frame, batch_id)
        if batch_id == 2:
            os.kill(Executor.of_process(os.getpid()).pid, signal.SIGKILL)
            mark.touch()

    stream.run(stream.source("left"), each=hfs.foreach_batch(killing))


CASES = {
    case.__name__: case
    for case in (
        above,
        two_above,
        two_queries,
        outlived,
        restarted,
        unwrapped,
        server_killed,
        server_dies,
    )
}

if __name__ == "__main__":
    CASES[sys.argv[2]](Path(sys.argv[1]))
    print(f"{sys.argv[2]}: as it must be")
