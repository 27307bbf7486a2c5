"""Reads of 10,000 keys, from this process and from a UDF, against the store's own `get_batch`."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path[:0] = [str(folder) for folder in (Path(__file__).parent, *Path(__file__).parents[1:3])]

import pyarrow as pa
import pyarrow.parquet as pq
from _live_table import NAME, drawn_keys, live_table, local_table, timed
from _streams import OURS, middle, session
from figure import Figure, alternate

import holdfast as hf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEYS = 1_000_000
ASKED = 10_000
BATCHES = 10
"""Batches of keys of a run of the UDF."""


def figures(*, quick: bool) -> list[Figure]:
    """The same keys are asked on all sides. The UDF takes its time itself, batch by batch."""
    count, turns = (KEYS // 10, 3) if quick else (KEYS, 7)
    spark = session()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        base = Path(folder)
        batches = [drawn_keys(count, ASKED, seed) for seed in range(BATCHES)]
        file = base / "keys.parquet"
        pq.write_table(pa.table({"k": pa.concat_arrays(batches)}), file)
        with (
            live_table(spark, base, count) as root,
            local_table(base / "local", count) as local,
            hf.connect(root, offline="never") as reader,
        ):
            remote = reader[NAME]
            asked = _seconds_in_udf(spark.read.parquet(str(file)), remote)

            def local_seconds() -> float:
                def read(keys: pa.Array) -> object:
                    return pa.record_batch(local.get_batch(keys))

                return middle([timed(lambda keys=keys: read(keys))() for keys in batches])

            def remote_seconds() -> float:
                def read(keys: pa.Array) -> object:
                    return remote.get_batch(keys)

                return middle([timed(lambda keys=keys: read(keys))() for keys in batches])

            def udf_seconds() -> float:
                return middle([row.seconds for row in asked.collect()])

            for warm_up in (local_seconds, remote_seconds, udf_seconds):
                warm_up()
            in_udf = alternate(local_seconds, udf_seconds, turns)
            in_process = alternate(local_seconds, remote_seconds, turns)
    spark.stop()
    what = f"{ASKED:,} keys of {count:,} by get_batch of hf.connect, from the state host"
    against = "get_batch of a store in the same process"
    return [
        Figure(f"{what}, in a UDF", against, in_udf[0], ">= 0.6", "throughput", in_udf[1], OURS),
        Figure(what, against, in_process[0], ">= 0.6", "throughput", in_process[1], OURS),
    ]


def _seconds_in_udf(keys: DataFrame, table: Any) -> DataFrame:
    """The seconds of each batch of keys, which Spark gives to an `arrow_udf` in one task."""
    from pyspark.sql.functions import arrow_udf

    @arrow_udf("double")  # type: ignore[call-overload, untyped-decorator]
    def seconds(asked: pa.Array) -> pa.Array:
        started = time.perf_counter()
        found = table.get_batch(asked)["v"].combine_chunks()
        if found.null_count:
            raise AssertionError(f"{found.null_count} keys are not found")
        return pa.array([time.perf_counter() - started] * len(asked))

    return keys.coalesce(1).select(seconds("k").alias("seconds")).distinct()


if __name__ == "__main__":
    for figure in figures(quick="--quick" in sys.argv):
        print(figure)
