"""Copies of columns that are slices.

arrow-rs 59 counts the offset of a sliced struct of structs twice (apache/arrow-rs#10835) and fails.
A copy has no offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def unsliced(column: Any) -> pa.Array:
    """Returns a copy of an Arrow array or a stream of arrays, as one array."""
    import pyarrow as pa

    if hasattr(column, "__arrow_c_array__"):
        whole = pa.array(column)
        type_, chunks = whole.type, [whole]
    else:
        chunked = pa.chunked_array(column)
        type_, chunks = chunked.type, chunked.chunks
    # pyarrow fails to copy an empty slice.
    chunks = [chunk for chunk in chunks if len(chunk)]
    return pa.concat_arrays(chunks) if chunks else pa.nulls(0, type_)


def unsliced_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the batch with copies of its columns that have a struct in a struct."""
    import pyarrow as pa

    if not any(map(_has_structs_in_a_struct, batch.schema.types)):
        return batch
    columns = [
        unsliced(column) if _has_structs_in_a_struct(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _has_structs_in_a_struct(type_: pa.DataType) -> bool:
    import pyarrow as pa

    parts = [type_.field(number).type for number in range(type_.num_fields)]
    if pa.types.is_struct(type_) and any(map(pa.types.is_struct, parts)):
        return True
    return any(map(_has_structs_in_a_struct, parts))
