"""The look-up join of a stream with another query's state, against redis on loopback.

The stream asks redis by pipelines of up to 10,000 keys, one for each Arrow batch of Spark. The
client is redis-py with hiredis, from the peers' own environment.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
SPARK = HERE.parent / "spark"
sys.path[:0] = [str(folder) for folder in (HERE.parent, SPARK, SPARK / "reading")]

import pyarrow as pa
from _live_table import live_table
from _lookups import KEYS, ORDERS, ROWS, by_function, in_words, looked_up, rate, write_orders
from _streams import OURS, session
from figure import LEAST_TURNS, Figure, ratios

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PIPELINE = 10_000


def figures(*, quick: bool) -> list[Figure]:
    """Both streams read the same files, in turns."""
    against = "the same stream, which asks redis by pipelines of 10,000"
    if shutil.which("redis-server") is None:
        return [Figure("lookup of a stream", against, [], ">= 1.5", "rows/s", "no redis-server")]
    keys, rows, turns = (KEYS // 10, ROWS // 10, 1) if quick else (KEYS, ROWS, LEAST_TURNS)
    packages = _packages()
    spark = session()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        base = Path(folder)
        write_orders(base / "orders", rows, keys, 3 if quick else 10)
        with live_table(spark, base, keys) as root, _redis(base, packages, keys) as port:
            ask = _asking(port, packages)

            def ours(turn: int) -> float:
                return rate(looked_up(spark, base / "orders", root), base / f"lookup{turn}")

            def theirs(turn: int) -> float:
                frame = by_function(spark, base / "orders", ask, f"{ORDERS}, v double")
                return rate(frame, base / f"redis{turn}")

            theirs(-1)
            pairs = [(ours(turn), theirs(turn)) for turn in range(turns)]
    spark.stop()
    return [
        Figure(
            f"lookup of a stream in another query's state of {keys:,} keys, {rows:,} rows a "
            "micro-batch",
            against,
            ratios(pairs),
            ">= 1.5",
            "rows/s",
            in_words(pairs),
            f"{OURS}; redis: in memory, without RDB and AOF",
        )
    ]


def _packages() -> str:
    """The folder of the peers' packages."""
    target = Path(os.environ["CARGO_TARGET_DIR"]) / "peers/python"
    subprocess.run([HERE / "environment", HERE / "requirements.lock", target], check=True)
    return str(next(target.glob("lib/python3*/site-packages")))


def _client(port: int, packages: str) -> Any:
    if packages not in sys.path:
        sys.path.append(packages)  # behind this environment's own
    import redis  # type: ignore[import-not-found]

    return redis.Redis(host="127.0.0.1", port=port)


@contextmanager
def _redis(base: Path, packages: str, keys: int) -> Iterator[int]:
    """A server in memory that has the table's values; yields its port."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    command = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--dir", str(base)]
    command += ["--save", "", "--appendonly", "no"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        client = _client(port, packages)
        _wait(client)
        for start in range(0, keys, PIPELINE):
            numbers = range(start, min(start + PIPELINE, keys))
            client.mset({str(number): repr(float(number)) for number in numbers})
        yield port
    finally:
        server.terminate()
        server.wait()


def _wait(client: Any) -> None:
    for _ in range(100):
        try:
            client.ping()
        except Exception:  # noqa: BLE001  # the package's own errors, and no server yet
            time.sleep(0.1)
        else:
            return
    raise RuntimeError("redis-server does not answer")


def _asking(
    port: int, packages: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A task function that adds the values of redis."""

    def ask(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        client = _client(port, packages)
        for batch in batches:
            pipeline = client.pipeline(transaction=False)
            for key in batch.column("k").to_pylist():
                pipeline.get(key)
            found = [None if value is None else float(value) for value in pipeline.execute()]
            columns = [*batch.columns, pa.array(found, pa.float64())]
            yield pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, "v"])

    return ask


if __name__ == "__main__":
    for figure in figures(quick="--quick" in sys.argv):
        print(figure)
