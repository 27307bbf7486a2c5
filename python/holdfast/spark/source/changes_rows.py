"""The rows of a stream of changes: those of the table first, then the changes."""

from typing import TYPE_CHECKING

from holdfast._reader.arrow import arrow
from holdfast._reader.read_source import ReadSource
from holdfast._reader.state_table import StateTable
from holdfast.spark.source.changes_span import ChangesSpan
from holdfast.spark.source.ended_versions import EndedVersions

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow


def read_changes(
    table: StateTable, partition: int, span: ChangesSpan, source: ReadSource
) -> "Iterator[pyarrow.RecordBatch]":
    """Returns the rows of a partition, with the columns of the table's changes.

    `source`: the options with which the table is read, if its rows come first.
    """
    if span.table_epoch is not None:
        yield from _table_rows(table, partition, span.table_epoch, source)
    if span.has_changes:
        yield from table.changes(from_epoch=span.first, to_epoch=span.last, partition=partition)


def _table_rows(
    table: StateTable, partition: int, epoch: int, source: ReadSource
) -> "Iterator[pyarrow.RecordBatch]":
    """Returns the rows of a table as changes to an empty table."""
    schema = table.changes_schema
    if table.kind != "versioned":
        for rows in table.scan(partition=partition, **source):
            yield _as_changes(rows, schema, epoch, deleted=False)
        return
    ended = EndedVersions(table)
    for rows in table.versions(partition=partition, **source):
        yield _as_changes(rows, schema, epoch, deleted=False)
        yield _as_changes(ended.before(rows), schema, epoch, deleted=True)
    yield _as_changes(ended.last(), schema, epoch, deleted=True)


def _as_changes(
    rows: "pyarrow.RecordBatch", schema: "pyarrow.Schema", epoch: int, *, deleted: bool
) -> "pyarrow.RecordBatch":
    """Returns rows as changes of an epoch; columns that the rows do not have are null."""
    pa = arrow()
    count = rows.num_rows
    first, *fields, last = schema
    columns = [
        rows.column(field.name) if field.name in rows.schema.names else pa.nulls(count, field.type)
        for field in fields
    ]
    columns = [
        pa.array([epoch] * count, first.type),
        *columns,
        pa.array([deleted] * count, last.type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
