"""The forms of output: a table for people, JSON lines, Arrow."""

import contextlib
import itertools
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

from holdfast._cli.whole_file import whole_file

if TYPE_CHECKING:
    import pyarrow

Command = TypeVar("Command", bound=Callable[..., Any])

_SHOWN: Final = 100
"""Rows that a terminal shows without `--limit`."""
_MEASURED: Final = 1_000
"""The number of first rows that decide the widths of a plain table's columns."""
_BEGINNING_OF_A_MESSAGE: Final = b"\xff\xff\xff\xff"
"""The first bytes of a message in an Arrow IPC stream."""


def json_option(form: str) -> Callable[[Command], Command]:
    """Adds `--json`; `form` says what is printed."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print JSON: {form}.")


def rows_options(command: Command) -> Command:
    """Adds the options for the form in which rows are written."""
    arrow = click.option(
        "--arrow",
        "arrow_file",
        metavar="FILE",
        help="Write an Arrow IPC file; `-` writes an Arrow IPC stream to stdout.",
    )
    lines = json_option(
        "a line for each row. Times are ISO 8601, bytes hexadecimal, decimals strings"
    )
    return lines(arrow(command))


@dataclass(frozen=True)
class RowsForm:
    """The form in which the rows of a table are written."""

    as_json: bool
    arrow_file: str | None

    def __post_init__(self) -> None:
        if self.as_json and self.arrow_file is not None:
            raise click.UsageError("give --json or --arrow, not both")

    def limit(self, limit: int | None) -> int | None:
        """Returns how many rows to read; for a terminal without a limit, one more than it shows."""
        is_shown = not self.as_json and self.arrow_file is None and sys.stdout.isatty()
        return _SHOWN + 1 if limit is None and is_shown else limit

    def show(self, batches: "pyarrow.RecordBatchReader", limit: int | None = None) -> None:
        """Writes the rows; a table in a terminal has at most 100 rows if there is no limit.

        `limit` is what the user has asked for.
        """
        if self.arrow_file is not None:
            _write_arrow(batches, self.arrow_file)
            return
        names, rows = batches.schema.names, _rows(batches)
        if self.as_json:
            if len(set(names)) < len(names):
                raise ValueError(f"two of the columns {names} have one name: rename one by AS")
            for row in rows:
                show_json(dict(zip(names, row, strict=True)))
            return
        is_cut = self.limit(limit) != limit
        if is_cut:
            shown = list(itertools.islice(rows, _SHOWN))
            is_cut = next(rows, None) is not None
            rows = iter(shown)
        show_table(names, rows)
        if is_cut:
            click.echo(
                f"only the first {_SHOWN} rows: --limit N shows more, --json and pipes have all",
                err=True,
            )
        if sys.stdout.isatty():
            _show_epoch(batches.schema.metadata or {})


def show_json(value: Any) -> None:
    """Prints a value as one line of JSON."""
    click.echo(json.dumps(_json_value(value), ensure_ascii=False, allow_nan=False))


def show_table(titles: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    """Prints rows: in a terminal as a table that fits it, otherwise as plain aligned columns."""
    if sys.stdout.isatty():
        Console().print(rich_table(titles, rows))
        return
    cells = ([cell_text(cell) for cell in row] for row in rows)
    measured = list(itertools.islice(cells, _MEASURED))
    columns = zip(*[list(titles), *measured], strict=True)
    widths = [max(map(len, column)) for column in columns]
    for row in itertools.chain([list(titles)], measured, cells):
        line = "  ".join(map(str.ljust, row, widths)).rstrip()
        click.echo(line)


def rich_table(titles: Sequence[str], rows: Iterable[Iterable[Any]]) -> Table:
    """Returns rows as a table for a terminal."""
    table = Table(*(Column(escape(title), overflow="fold") for title in titles))
    for row in rows:
        table.add_row(*(Text(cell_text(cell)) for cell in row))
    return table


def cell_text(value: Any) -> str:
    """Returns a value as a cell of a table; nothing for null."""
    if value is None:
        return ""
    if isinstance(value, str):
        # A cell is one line, and has no control sequences for the terminal.
        is_plain = value.isprintable()
        return value if is_plain else json.dumps(value, ensure_ascii=False)[1:-1]
    plain = _json_value(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def _json_value(value: Any) -> Any:  # noqa: PLR0911 - one for each kind of value
    """Returns a value of Arrow as a value of JSON."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case datetime():
            text = value.isoformat()
            is_utc = value.tzinfo is not None and value.utcoffset() == timedelta(0)
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z") if is_utc else text
        case date() | time():
            return value.isoformat()
        case bytes():
            return value.hex()
        case timedelta() | Decimal():
            return str(value)
        case dict():
            return {str(name): _json_value(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_json_value(inner) for inner in value]
        case _:
            return str(value)


def _show_epoch(metadata: Mapping[bytes, bytes]) -> None:
    """Prints the epoch of the rows on stderr, if it is known; called for terminals."""
    epoch = metadata.get(b"holdfast.epoch")
    if epoch is not None:
        behind = int(metadata.get(b"holdfast.behind", b"0"))
        older = f", {behind} behind the newest" if behind else ""
        click.echo(f"of epoch {epoch.decode()}{older}", err=True)


def _rows(batches: "pyarrow.RecordBatchReader") -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        columns = [_values(field.name, batch.column(n)) for n, field in enumerate(batch.schema)]
        yield from zip(*columns, strict=True)


def _values(name: str, column: "pyarrow.Array") -> list[Any]:
    import pyarrow as pa

    values: list[Any]
    try:
        values = column.to_pylist()
    except (OverflowError, ValueError) as error:
        # Python has no times of nanoseconds, and none after the year 9999.
        if pa.types.is_nested(column.type):
            text = (
                f"column {name!r} has a value that cannot be shown ({error}): write it by --arrow"
            )
            raise ValueError(text) from error
        values = column.cast(pa.string()).to_pylist()
    return values


def _write_arrow(batches: "pyarrow.RecordBatchReader", file: str) -> None:
    import pyarrow as pa

    if file == "-":
        if sys.stdout.isatty():
            raise click.UsageError("--arrow -: stdout is a terminal; give a file, or use a pipe")
        stdout = sys.stdout.buffer
        stream = pa.ipc.new_stream(stdout, batches.schema)
        try:
            for batch in batches:
                stream.write_batch(batch)
        except BaseException:
            # Arrow reads the end of a pipe as the end of the stream, but not after this.
            with contextlib.suppress(OSError):
                stdout.write(_BEGINNING_OF_A_MESSAGE)
            raise
        stream.close()
        return
    with whole_file(Path(file)) as partial, pa.ipc.new_file(str(partial), batches.schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
