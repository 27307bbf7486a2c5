"""The optional modules pyarrow and DuckDB, and streams of Arrow batches."""

from holdfast._reader.arrow.batches import batch_reader, fields, record_batches
from holdfast._reader.arrow.modules import arrow, arrow_compute, arrow_dataset, arrow_fs, duckdb

__all__ = [
    "arrow",
    "arrow_compute",
    "arrow_dataset",
    "arrow_fs",
    "batch_reader",
    "duckdb",
    "fields",
    "record_batches",
]
