"""All tables of a root as views of a DuckDB connection."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from holdfast._options import IsolationLevel, check_choice
from holdfast._reader.arrow import arrow, duckdb, fields
from holdfast._reader.dataset.domain import Domain, Points
from holdfast._reader.dataset.state_dataset import Read, dataset
from holdfast._reader.pinned_epoch import PinnedEpoch, checked
from holdfast._reader.read_source import ReadSource
from holdfast._reader.state_table import StateTable
from holdfast._time import Timestamp
from holdfast.errors import StoreClosedError, UnsupportedOperationError

if TYPE_CHECKING:
    import pyarrow
    from duckdb import DuckDBPyConnection

_log = logging.getLogger(__name__)

_MOMENT: Final = "as_of"
# A catalog beside that of the tables, with the views that the macro `as_of` reads.
_MOMENTS: Final = "holdfast_as_of"
_VERSIONS: Final = "versions"


def database(
    tables: Sequence[StateTable], *, as_of: Timestamp | None, source: ReadSource
) -> "DuckDBPyConnection":
    """Returns a connection to a DuckDB in memory with a view of each table, all of one epoch.

    SQL names do not distinguish upper and lower case. Tables whose names differ only in that are
    left out, with a warning. Raises as a scan does, if the epoch cannot be read.
    """
    connection: DuckDBPyConnection = duckdb().connect(config={"python_enable_replacements": False})
    connection.execute("SET TimeZone = 'UTC'")
    at_one = _at_one_epoch(tables, source)
    check = _rewind_check(tables, at_one)
    paths = _paths(tables)
    for catalog in (_VERSIONS, _MOMENTS):
        connection.execute(f"ATTACH ':memory:' AS {catalog}")
    for table, path in zip(tables, paths, strict=True):
        if path is None:
            continue
        is_versioned = table.kind == "versioned"
        now = table._selected_rows(as_of=as_of if is_versioned else None, source=at_one)
        _view(connection, "memory", path, dataset(table.schema, _checked(now.read, check)))
        if is_versioned:
            read = _checked(table._selected_rows(versions=True, source=at_one).read, check)
            _view(connection, _VERSIONS, path, dataset(table.schema, read))
            _view(connection, _MOMENTS, path, _moments(table, at_one, check))
    moment = _quoted(_MOMENT)
    rows = f"SELECT * EXCLUDE ({moment}) FROM query_table('{_MOMENTS}.' || name)"  # noqa: S608
    connection.execute(
        f"CREATE MACRO as_of(name, moment) AS TABLE {rows} WHERE {moment} = moment::TIMESTAMPTZ"
    )
    return connection


def _paths(tables: Sequence[StateTable]) -> "list[tuple[str, str] | None]":
    """Returns the schema and the name of each table's view; none for names that are not unique."""
    counts = Counter(table.operator for table in tables)
    paths = [
        ("main", table.operator) if counts[table.operator] == 1 else (table.operator, table.store)
        for table in tables
    ]
    of_name = Counter((schema.lower(), name.lower()) for schema, name in paths)
    unique: list[tuple[str, str] | None] = []
    for table, (schema, name) in zip(tables, paths, strict=True):
        is_unique = of_name[schema.lower(), name.lower()] == 1
        if not is_unique:
            _log.warning(
                "table %s.%s: SQL cannot read it, because another table has the same name in SQL, "
                "which ignores case: read it by the reader's methods",
                table.operator,
                table.store,
            )
        unique.append((schema, name) if is_unique else None)
    return unique


def _at_one_epoch(tables: Sequence[StateTable], source: ReadSource) -> ReadSource:
    """Returns the options with the epoch that all tables are read at.

    Only final epochs are read: tables are read one after the other, and meanwhile a staged epoch
    may become final.
    """
    level = source.get("isolation_level")
    if level is not None:
        check_choice("isolation_level", level, IsolationLevel)
    if level == IsolationLevel.READ_UNCOMMITTED:
        raise UnsupportedOperationError(
            "all tables of a statement are of one final epoch, so SQL reads READ_COMMITTED: leave "
            "the isolation level out, or read the tables one by one, for "
            'example with reader["name"].dataset(isolation_level=...)'
        )
    if not tables or source.get("epoch") is not None:
        return source
    return {**source, "epoch": tables[0]._calls.epoch(source), "at_least": None}


def _rewind_check(tables: Sequence[StateTable], source: ReadSource) -> Callable[[], None]:
    """Returns a function that raises `StateMismatchError` if a rewind took the epoch back.

    After a rewind, the query computes another epoch of the same number, and the tables of one
    statement would be of two states.
    """
    epoch = source.get("epoch")
    if not tables or epoch is None:
        return lambda: None
    core = tables[0]._connection.core
    pinned = PinnedEpoch.of(core, epoch)

    def check() -> None:
        # A closed reader begins no scan that could be of another state. Open scans continue.
        with suppress(StoreClosedError):
            pinned.check(core)

    return check


def _checked(read: Read, check: Callable[[], None]) -> Read:
    """Returns a read that calls `check` after its first batch and at its end."""

    def read_checked(
        selected: Mapping[str, Domain], names: list[str]
    ) -> "pyarrow.RecordBatchReader":
        rows = read(selected, names)
        return arrow().RecordBatchReader.from_batches(rows.schema, checked(rows, check))

    return read_checked


def _view(connection: "DuckDBPyConnection", catalog: str, path: tuple[str, str], rows: Any) -> None:
    schema, name = path
    registered = ".".join(("holdfast", catalog, *path))
    connection.register(registered, rows)
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_quoted(catalog, schema)}")
    view = _quoted(catalog, schema, name)
    connection.execute(f"CREATE VIEW {view} AS FROM {_quoted('temp', 'main', registered)}")


def _quoted(*names: str) -> str:
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def _moments(table: StateTable, source: ReadSource, check: Callable[[], None]) -> Any:
    """Returns a dataset of a versioned table at the moments that a filter sets `_MOMENT` to."""
    pa = arrow()
    kind = pa.timestamp("us", tz="UTC")
    # A dataset finds columns by name, so a column of the table with this name is left out.
    columns = [field for field in table.schema if field.name != _MOMENT]
    schema = pa.schema([*columns, pa.field(_MOMENT, kind)])

    def read(selected: Mapping[str, Domain], names: list[str]) -> "pyarrow.RecordBatchReader":
        moments = selected.get(_MOMENT)
        if not isinstance(moments, Points):
            raise UnsupportedOperationError(
                f"as_of('{table.operator}', moment) needs a moment that is the same for all rows; "
                f"for one moment a row, join {_VERSIONS}.{table.operator} (ASOF JOIN)"
            )
        of_rows = {name: domain for name, domain in selected.items() if name != _MOMENT}
        wanted = fields(schema, names)
        # A batch without columns would lose its number of rows.
        of_table = [name for name in names if name != _MOMENT] or table.schema.names[:1]

        def batches() -> "Iterator[pyarrow.RecordBatch]":
            for moment in moments.values.drop_null():
                micros = moment.cast(pa.int64()).as_py()
                rows = table._selected_rows(as_of=micros, source=source)
                for batch in _checked(rows.read, check)(of_rows, of_table):
                    at_moment = pa.repeat(moment, batch.num_rows)
                    found = [at_moment if name == _MOMENT else batch.column(name) for name in names]
                    yield pa.RecordBatch.from_arrays(found, schema=wanted)

        return pa.RecordBatchReader.from_batches(wanted, batches())

    return dataset(schema, read)
