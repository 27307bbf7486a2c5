"""Arguments and options that commands share, and their types."""

import math
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, TypeVar

import click

import holdfast as hf
from holdfast.errors import HoldfastError

Command = TypeVar("Command", bound=Callable[..., Any])

StorageOptions = tuple[tuple[str, str], ...]
"""The values of `--storage-option`."""

_MOST_SECONDS: Final = 1e9
"""About 32 years. Much longer times overflow a clock's range."""


def utf8(text: str) -> str:
    """Returns the text; refuses one that is not UTF-8, which the extension does not take."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise click.BadParameter(f"{text!r} is not UTF-8")
    return text


def epoch_number(text: str) -> int:
    """Returns the number of an epoch: Spark's batch id, which has 64 bits."""
    if not text.isdecimal() or int(text) >= 2**63:
        raise click.BadParameter(f"{text!r} is not an epoch: give Spark's batch id")
    return int(text)


def moment(text: str) -> datetime | int:
    """Returns the moment that a text names: an aware datetime, or epoch microseconds."""
    wanted = "give ISO 8601 with a time zone (2026-03-01T18:00:00Z), or epoch microseconds"
    if text.removeprefix("-").isdecimal():
        micros = int(text)
        if abs(micros) >= 2**63:
            raise click.BadParameter(f"{text!r} does not fit 64 bits: {wanted}")
        return micros
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a time: {wanted}") from None
    if found.tzinfo is None:
        raise click.BadParameter(f"{text!r} has no time zone: {wanted}")
    return found


def seconds(text: str) -> float:
    """Returns a number of seconds, zero or more."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    # NaN is in no range.
    if not 0 <= number <= _MOST_SECONDS:
        raise click.BadParameter(
            f"{text!r} is not a number of seconds from 0 to {_MOST_SECONDS:.0f}"
        )
    return number


def key_and_value(text: str) -> tuple[str, str]:
    """Returns the two parts of a text KEY=VALUE."""
    key, separator, value = utf8(text).partition("=")
    if not separator:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE")
    return key, value


def moment_option(name: str, text: str) -> Callable[[Command], Command]:
    """Adds an option whose value is a moment."""
    return click.option(name, type=moment, metavar="TIME", help=text)


def epoch_option(name: str, text: str) -> Callable[[Command], Command]:
    """Adds an option whose value is an epoch."""
    return click.option(name, type=epoch_number, metavar="EPOCH", help=text)


def root_argument(*, required: bool = True) -> Callable[[Command], Command]:
    """Adds ROOT and the storage options."""

    def add(command: Command) -> Command:
        return click.argument("root", type=utf8, required=required)(storage_option(command))

    return add


def storage_option(command: Command) -> Command:
    """Adds the storage options."""
    return click.option(
        "--storage-option",
        "storage_options",
        type=key_and_value,
        multiple=True,
        metavar="KEY=VALUE",
        help="As in State(storage_options=...); may be repeated.",
    )(command)


def table_argument(command: Command) -> Command:
    """Adds TABLE, which the shell can complete."""
    return click.argument("table", shell_complete=_complete_table)(command)


def source_options(command: Command) -> Command:
    """Adds the options that say which state is read, and whether hosts or copies answer."""
    options = [
        epoch_option("--epoch", "Read exactly this epoch; by default the newest final one."),
        epoch_option("--at-least", "Wait until this epoch is final, then read the newest."),
        click.option(
            "--timeout",
            type=seconds,
            default=30.0,
            show_default=True,
            metavar="SECONDS",
            help="How long to wait.",
        ),
        click.option(
            "--offline",
            type=click.Choice(["auto", "never", "only"]),
            default="auto",
            show_default=True,
            help="When to read copies, made from snapshots and log: if no state host answers, "
            "never, or always.",
        ),
        click.option(
            "--isolation-level",
            type=click.Choice([level.value for level in hf.IsolationLevel]),
            callback=_isolation_level,
            help="Whether to read rows that are staged but not committed; by default as the "
            "query's State says.",
        ),
        click.option(
            "--stale-ok", is_flag=True, help="If no state host answers, read older copies."
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def as_of_option(command: Command) -> Command:
    """Adds the moment of a read of a versioned table."""
    text = (
        "Versioned tables: the versions valid at this time (2026-03-01T18:00:00Z, or epoch "
        "microseconds)."
    )
    return moment_option("--as-of", text)(command)


def columns_option(command: Command) -> Command:
    """Adds the choice of columns."""
    return click.option(
        "--columns",
        metavar="A,B",
        callback=_split,
        help="Only these columns, in this order.",
    )(command)


def limit_option(command: Command) -> Command:
    """Adds the limit of rows."""
    numbers = click.IntRange(min=0, max=2**63 - 1)
    return click.option("--limit", type=numbers, help="The most rows to return.")(command)


def connect(root: str, storage_options: StorageOptions) -> hf.StateReader:
    """Returns a reader of the root."""
    return hf.connect(root, storage_options=dict(storage_options))


def find_table(reader: hf.StateReader, name: str) -> hf.StateTable:
    """Returns the table that is named OPERATOR, or OPERATOR.STORE."""
    operator, _, store = name.partition(".")
    return reader.table(operator, store or None)


def table_names(reader: hf.StateReader) -> list[str]:
    """Returns the tables as the command line names them."""
    names = list(reader.tables)
    operators = [operator for operator, _ in names]
    return [
        operator if operators.count(operator) == 1 else f"{operator}.{store}"
        for operator, store in names
    ]


def _split(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> list[str] | None:
    if value is None:
        return None
    names = [name.strip() for name in value.split(",")]
    if len(set(names)) < len(names):
        raise click.BadParameter(f"{value!r} names a column twice")
    return names


def _isolation_level(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> hf.IsolationLevel | None:
    return None if value is None else hf.IsolationLevel(value)


def _complete_table(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[str]:
    root = context.params.get("root")
    if root is None:
        return []
    try:
        with connect(root, context.params.get("storage_options") or ()) as reader:
            return [name for name in table_names(reader) if name.startswith(incomplete)]
    except (HoldfastError, OSError, ValueError):
        # A completion cannot show an error; the command itself shows it.
        return []
