"""Reads of a running query's state, against the same rows in a database of this process.

The table is versioned: a million keys in four partitions, one version each. Both sides return
Arrow columns.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

_BENCHES = Path(__file__).parents[1]
sys.path[:0] = [str(_BENCHES), str(_BENCHES / "spark")]

import numpy as np
import pyarrow as pa
from _streams import session
from figure import Figure, alternate

import holdfast as hf
import holdfast.spark as hfs

if TYPE_CHECKING:
    from collections.abc import Callable

KEYS = 1_000_000
ASKED = 10_000
TURNS = 7
HISTORY = 10_000 * 86_400_000_000


def figures(*, quick: bool) -> list[Figure]:
    """Look-ups of many keys, and a scan of the whole table."""
    keys, turns = (KEYS // 10, 3) if quick else (KEYS, TURNS)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        return _measure(Path(folder), keys, turns)


def _measure(base: Path, count: int, turns: int) -> list[Figure]:
    spark = session()
    source = str(base / "source")
    rows = spark.range(count).selectExpr(
        "cast(id as string) AS k", "timestamp_micros(id) AS t", "cast(id as double) AS v"
    )
    rows.write.parquet(source)
    state = hfs.State(str(base / "state"), partitions=4)
    changes = spark.readStream.schema(rows.schema).parquet(source)
    table = hfs.materialize(
        changes, by="k", on="t", history_retention="10000 days", state=state, name="rates"
    )
    writer = table.writeStream.format("noop").option(
        "checkpointLocation", state.checkpoint_location
    )
    query = writer.trigger(processingTime="0 seconds").start()
    query.processAllAvailable()
    value = hf.serde.struct(pa.schema([("v", pa.float64())]))
    store = hf.stores.versioned(
        "rates", history_retention=HISTORY, key=hf.serde.STRING, value=value
    )
    with (
        hf.connect(str(base / "state"), offline="never") as reader,
        hf.open(base / "local", [store], durability=hf.Durability.CHANGELOG) as db,
    ):
        remote, local = reader["rates"], db["rates"]
        numbers = np.arange(count)
        names = pa.array(numbers.astype(str))
        values = pa.StructArray.from_arrays([pa.array(numbers.astype(float))], names=["v"])
        local.put_batch(names, values, pa.array(numbers))
        db.commit({})
        drawn = names.take(pa.array(np.random.default_rng(7).integers(0, count, ASKED)))

        def all_remote() -> int:
            return sum(batch.num_rows for batch in remote.scan())

        def all_local() -> int:
            stream = pa.RecordBatchReader.from_stream(local.scan_batches())
            return sum(batch.num_rows for batch in stream)

        for read in (all_remote, all_local):
            if read() != count:
                raise AssertionError("a scan has other rows than were written")
        looked_up = alternate(
            _timed(lambda: pa.record_batch(local.get_batch(drawn))),
            _timed(lambda: remote.get_batch(drawn)),
            turns,
        )
        scanned = alternate(_timed(all_local), _timed(all_remote), turns)
    query.stop()
    spark.stop()
    return [
        Figure(
            f"{ASKED:,} keys of {count:,} by get_batch of hf.connect, from the state host",
            "get_batch of a store in the same process",
            looked_up[0],
            ">= 0.6",
            "throughput",
            looked_up[1],
        ),
        Figure(
            f"scan of {count:,} rows by hf.connect, from the state host",
            "scan_batches of a store in the same process",
            scanned[0],
            ">= 0.7",
            "throughput",
            scanned[1],
        ),
    ]


def _timed(work: Callable[[], object]) -> Callable[[], float]:
    def seconds() -> float:
        started = time.perf_counter()
        work()
        return time.perf_counter() - started

    return seconds


if __name__ == "__main__":
    for found in figures(quick="--quick" in sys.argv):
        print(found)
