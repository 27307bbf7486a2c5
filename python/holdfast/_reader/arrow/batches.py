"""Streams of batches as pyarrow's."""

from typing import TYPE_CHECKING

from holdfast._reader.arrow.batch_stream import BatchStream
from holdfast._reader.arrow.modules import arrow

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow

    from holdfast import _core


def record_batches(rows: "_core.ArrowReader") -> "pyarrow.RecordBatchReader":
    """Returns the extension's batches as pyarrow's.

    They come through a Python iterator, so that an error of a read keeps its class.
    """
    return batch_reader(arrow().schema(rows), map(arrow().record_batch, rows))


def batch_reader(
    schema: "pyarrow.Schema", batches: "Iterable[pyarrow.RecordBatch]"
) -> "pyarrow.RecordBatchReader":
    """Returns the batches as a reader that Arrow's threads may read ahead."""
    return arrow().RecordBatchReader.from_batches(schema, BatchStream(batches))


def fields(schema: "pyarrow.Schema", names: list[str]) -> "pyarrow.Schema":
    """Returns the named fields, in this order."""
    return arrow().schema([schema.field(name) for name in names])
