"""`holdfast sql`: a statement over all tables of a root."""

from datetime import datetime
from typing import Unpack

import click

import holdfast as hf
from holdfast._cli import options, output
from holdfast.errors import RequirementError


@click.command(short_help="Runs SQL over the tables of a root.")
@options.root_argument()
@click.argument("statement")
@options.as_of_option
@options.source_options
@output.rows_options
def sql(
    *,
    root: str,
    statement: str,
    as_of: datetime | int | None,
    storage_options: tuple[tuple[str, str], ...],
    as_json: bool,
    arrow_file: str | None,
    **source: Unpack[hf.ReadSource],
) -> None:
    """Runs an SQL statement of DuckDB over the tables of a root, all of one epoch.

    A table has the operator's name; one of several is OPERATOR.STORE. versions.TABLE has all
    versions of a versioned table, and as_of('TABLE', TIME) its rows as of a time. COPY (SELECT ...)
    TO 'FILE.parquet' writes a file.
    """
    try:
        from duckdb import Error as DuckDBError
    except ImportError as error:
        raise RequirementError("holdfast sql needs duckdb: pip install 'holdfast[sql]'") from error
    form = output.RowsForm(as_json, arrow_file)
    with options.connect(root, storage_options) as reader:
        try:
            form.show(reader.sql(statement, as_of=as_of, **source).to_arrow_reader())
        except DuckDBError as error:
            raise ValueError(str(error)) from error
