"""A scan of a running query's table into Arrow, against `scan_batches` of the same rows."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(folder) for folder in (Path(__file__).parent, *Path(__file__).parents[1:3])]

import pyarrow as pa
import pyarrow.parquet as pq
from _live_table import NAME, live_table, local_table, timed
from _streams import OURS, middle, session
from figure import LEAST_TURNS, Figure, alternate

import holdfast as hf

ROWS = 10_000_000


def figures(*, quick: bool) -> list[Figure]:
    """The scan; the time of pyarrow for a Parquet file with the same rows is in the note."""
    count, turns = (100_000, 3) if quick else (ROWS, LEAST_TURNS)
    spark = session()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        base = Path(folder)
        with (
            live_table(spark, base, count) as root,
            local_table(base / "local", count) as local,
            hf.connect(root, offline="never") as reader,
        ):
            remote, file = reader[NAME], base / "rows.parquet"
            pq.write_table(remote.scan().read_all(), file)

            def of_query() -> int:
                return sum(batch.num_rows for batch in remote.scan())

            def of_process() -> int:
                stream = pa.RecordBatchReader.from_stream(local.scan_batches())
                return sum(batch.num_rows for batch in stream)

            def of_parquet() -> int:
                return sum(batch.num_rows for batch in pq.ParquetFile(file).iter_batches())

            for read in (of_query, of_process, of_parquet):
                if read() != count:
                    raise AssertionError(f"{read.__name__} has other rows than were written")
            ratio, note = alternate(timed(of_process), timed(of_query), turns)
            parquet = middle([timed(of_parquet)() for _ in range(turns)])
    spark.stop()
    return [
        Figure(
            f"scan of {count:,} rows into Arrow by hf.connect, from the state host",
            "scan_batches of a store in the same process",
            ratio,
            ">= 0.7",
            "throughput",
            f"{note}; pyarrow reads the same rows from Parquet in {parquet:.3f} s",
            OURS,
        )
    ]


if __name__ == "__main__":
    for found in figures(quick="--quick" in sys.argv):
        print(found)
