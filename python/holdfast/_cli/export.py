"""`holdfast export`: a table as a Parquet file."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack

import click

import holdfast as hf
from holdfast._cli import options, output
from holdfast._cli.progress import shown_progress
from holdfast._cli.whole_file import whole_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow

_GROUP_ROWS: Final = 1 << 17
_GROUP_BYTES: Final = 64 << 20
"""Limits of a row group, which is the part of the table that is in memory."""


@click.command()
@options.root_argument()
@options.table_argument
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@options.as_of_option
@options.columns_option
@options.limit_option
@options.source_options
@output.json_option("one object, with the file and the number of rows")
def export(
    *,
    root: str,
    table: str,
    file: Path,
    as_of: datetime | int | None,
    columns: list[str] | None,
    limit: int | None,
    storage_options: options.StorageOptions,
    as_json: bool,
    **source: Unpack[hf.ReadSource],
) -> None:
    """Writes a table to a Parquet file, in bounded memory.

    The file appears, or is replaced, when it is complete. All rows are of one epoch.
    """
    from pyarrow import parquet

    with options.connect(root, storage_options) as reader:
        rows = options.find_table(reader, table).scan(
            as_of=as_of, columns=columns, limit=limit, **source
        )
        written = 0
        with (
            whole_file(file) as partial,
            parquet.ParquetWriter(str(partial), rows.schema) as writer,
            shown_progress(f"exporting {table}") as progress,
        ):
            for group in _groups(rows):
                writer.write_table(group)
                written += group.num_rows
                progress.update(written, None, "rows")
    if as_json:
        output.show_json({"file": str(file), "rows": written})
    else:
        click.echo(f"{written} rows of {table} are in {file}")


def _groups(rows: "pyarrow.RecordBatchReader") -> "Iterator[pyarrow.Table]":
    """Returns the rows as tables of the size of a row group."""
    import pyarrow as pa

    held: list[pyarrow.RecordBatch] = []
    for batch in rows:
        held.append(batch)
        is_full = sum(one.nbytes for one in held) >= _GROUP_BYTES
        if is_full or sum(one.num_rows for one in held) >= _GROUP_ROWS:
            yield pa.Table.from_batches(held, schema=rows.schema)
            held = []
    if held:
        yield pa.Table.from_batches(held, schema=rows.schema)
