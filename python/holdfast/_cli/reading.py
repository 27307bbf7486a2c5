"""Commands that read tables: `tables`, `get`, `scan`, `versions`, `changes`, `sql`."""

from datetime import datetime
from typing import Any, Unpack

import click

import holdfast as hf
from holdfast._cli import options, output
from holdfast._cli.keys import parse_key
from holdfast._requirements import how_to_install
from holdfast.errors import HoldfastError, RequirementError

_Moment = datetime | int | None


@click.command()
@options.root_argument()
@output.json_option("a line for each table, with its columns and their types")
def tables(*, root: str, storage_options: options.StorageOptions, as_json: bool) -> None:
    """Lists the tables of a root."""
    with options.connect(root, storage_options) as reader:
        found = list(zip(options.table_names(reader), reader.tables.values(), strict=True))
    if as_json:
        for name, table in found:
            output.show_json(
                {
                    "table": name,
                    "operator": table.operator,
                    "operator_kind": table.operator_kind,
                    "store": table.store,
                    "kind": table.kind,
                    "key": list(table.key),
                    "columns": {field.name: str(field.type) for field in table.schema},
                }
            )
        return
    titles = ("table", "operator kind", "kind", "key", "columns")
    rows = (
        (
            name,
            table.operator_kind,
            table.kind,
            ", ".join(table.key),
            ", ".join(column for column in table.schema.names if column not in table.key),
        )
        for name, table in found
    )
    output.show_table(titles, rows)


@click.command()
@options.root_argument()
@options.table_argument
@click.argument("key", nargs=-1, required=True)
@options.as_of_option
@options.moment_option("--start", "Window and session tables: the start.")
@options.moment_option("--end", "Session tables: the end.")
@options.columns_option
@options.source_options
@output.rows_options
def get(
    *,
    root: str,
    table: str,
    key: tuple[str, ...],
    as_of: _Moment,
    start: _Moment,
    end: _Moment,
    columns: list[str] | None,
    storage_options: options.StorageOptions,
    as_json: bool,
    arrow_file: str | None,
    **source: Unpack[hf.ReadSource],
) -> None:
    """Reads the row of one key.

    TABLE is an operator, or OPERATOR.STORE. KEY has an argument for each key column: values in the
    order of the columns, or COLUMN=VALUE. Bytes are hexadecimal, nested values JSON.
    """
    import pyarrow as pa

    form = output.RowsForm(as_json, arrow_file)
    if start is None and end is not None:
        raise click.UsageError("--end is the end of a session: give its --start, too")
    if start is not None and as_of is not None:
        raise click.UsageError("give --as-of or --start, not both: windows have no versions")
    with options.connect(root, storage_options) as reader:
        found = options.find_table(reader, table)
        wanted = parse_key(found, key, "KEY")
        if start is None:
            rows = found.find([wanted], as_of=as_of, columns=columns, **source)
        else:
            names = found.schema.names if columns is None else columns
            value = found.fetch(wanted, start, end, columns=names, **source)
            rows = found.schema.empty_table()
            if value is not None:
                rows = pa.Table.from_pylist([value], schema=found.schema).select(names)
    if rows.num_rows == 0:
        raise HoldfastError(f"table {table} has no row of the key {' '.join(key)}")
    form.show(rows.to_reader())


@click.command()
@options.root_argument()
@options.table_argument
@click.option("--prefix", multiple=True, help="Keys that begin with this. Repeat for more columns.")
@click.option("--start", multiple=True, help="Keys from this one on. Repeat for more columns.")
@click.option(
    "--end", multiple=True, help="Keys up to this one, included. Repeat for more columns."
)
@options.moment_option("--time-from", "Windows from this start on.")
@options.moment_option("--time-to", "Windows up to this start.")
@options.as_of_option
@options.columns_option
@options.limit_option
@options.source_options
@output.rows_options
def scan(
    *,
    root: str,
    table: str,
    prefix: tuple[str, ...],
    start: tuple[str, ...],
    end: tuple[str, ...],
    time_from: _Moment,
    time_to: _Moment,
    as_of: _Moment,
    columns: list[str] | None,
    limit: int | None,
    storage_options: options.StorageOptions,
    as_json: bool,
    arrow_file: str | None,
    **source: Unpack[hf.ReadSource],
) -> None:
    """Reads the rows of a table, or of a range of keys.

    A terminal shows the first 100 rows, unless --limit says otherwise.
    """
    form = output.RowsForm(as_json, arrow_file)
    with options.connect(root, storage_options) as reader:
        found = options.find_table(reader, table)
        bounds = {
            name: parse_key(found, texts, f"--{name}", whole=False)
            for name, texts in (("prefix", prefix), ("start", start), ("end", end))
            if texts
        }
        rows = found.scan(
            **bounds,
            as_of=as_of,
            time_from=time_from,
            time_to=time_to,
            columns=columns,
            limit=form.limit(limit),
            **source,
        )
        form.show(rows, limit)


@click.command(short_help="Reads the versions of a key, or of all keys.")
@options.root_argument()
@options.table_argument
@click.argument("key", nargs=-1)
@options.moment_option("--start", "Versions that were valid from this time on.")
@options.moment_option("--end", "Versions that were valid up to this time.")
@options.columns_option
@options.limit_option
@options.source_options
@output.rows_options
def versions(
    *,
    root: str,
    table: str,
    key: tuple[str, ...],
    start: _Moment,
    end: _Moment,
    columns: list[str] | None,
    limit: int | None,
    storage_options: options.StorageOptions,
    as_json: bool,
    arrow_file: str | None,
    **source: Unpack[hf.ReadSource],
) -> None:
    """Reads the versions of a key, or of all keys of a versioned table.

    KEY is as in `holdfast get`. The versions of a key come oldest first.
    """
    form = output.RowsForm(as_json, arrow_file)
    with options.connect(root, storage_options) as reader:
        found = options.find_table(reader, table)
        rows = found.versions(
            parse_key(found, key, "KEY") if key else None,
            start=start,
            end=end,
            columns=columns,
            limit=form.limit(limit),
            **source,
        )
        form.show(rows, limit)


@click.command(short_help="Reads what has changed in each epoch.")
@options.root_argument()
@options.table_argument
@options.epoch_option("--from-epoch", "From this epoch on; by default from the oldest of the log.")
@options.epoch_option("--to-epoch", "Up to this epoch; by default up to the newest final one.")
@output.rows_options
def changes(
    *,
    root: str,
    table: str,
    from_epoch: int | None,
    to_epoch: int | None,
    storage_options: options.StorageOptions,
    as_json: bool,
    arrow_file: str | None,
) -> None:
    """Reads the changes of a table from the log, epoch by epoch.

    A row is the last change of a key in an epoch: its new value, or `deleted`.
    """
    form = output.RowsForm(as_json, arrow_file)
    with options.connect(root, storage_options) as reader:
        rows = options.find_table(reader, table).changes(from_epoch=from_epoch, to_epoch=to_epoch)
        form.show(rows)


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
    as_of: _Moment,
    storage_options: options.StorageOptions,
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
        raise RequirementError(f"holdfast sql needs duckdb: {how_to_install('sql')}") from error
    form = output.RowsForm(as_json, arrow_file)
    with options.connect(root, storage_options) as reader:
        try:
            rows: Any = reader.sql(statement, as_of=as_of, **source)
            # A statement such as SET has no result.
            if rows is not None:
                form.show(rows.to_arrow_reader())
        except DuckDBError as error:
            raise ValueError(str(error)) from error
