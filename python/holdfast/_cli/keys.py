"""Keys as text: parsed by the Arrow types of a table's key columns."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from holdfast._reader.exact_column import is_exact_float

if TYPE_CHECKING:
    import pyarrow

    import holdfast as hf


def parse_key(
    table: "hf.StateTable", texts: Sequence[str], argument: str, *, whole: bool = True
) -> Any:
    """Returns a key of the table: the texts are values in order, or `column=value`.

    With `whole=False` the last columns may be left out.
    """
    names = table.key
    given = _by_column(names, texts, argument)
    leading = names[: len(given)]
    missing = [name for name in (names if whole else leading) if name not in given]
    if missing:
        raise click.UsageError(
            f"{argument}: key column {missing[0]!r} is missing; the key is {', '.join(names)}"
        )
    values = [
        parse_value(given[name], table.schema.field(name).type, f"{argument}: {name}")
        for name in leading
    ]
    return values[0] if len(names) == 1 else tuple(values)


def parse_value(text: str, kind: "pyarrow.DataType", what: str) -> Any:
    """Returns the value of this type that a text names.

    Bytes are hexadecimal, nested values JSON; the rest is as Arrow casts strings.
    """
    import pyarrow as pa

    try:
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            return bytes.fromhex(text)
        if pa.types.is_nested(kind):
            return pa.scalar(json.loads(text), kind).as_py()
        if pa.types.is_timestamp(kind) and kind.tz is None:
            return pa.scalar(text).cast(pa.timestamp(kind.unit)).as_py()
        value = pa.scalar(text).cast(kind).as_py()
    except (pa.ArrowException, ValueError, OverflowError, RecursionError) as error:
        # Overflow: a number of more than 64 bits in JSON, or a time that Python cannot represent.
        raise click.UsageError(f"{what} is {kind}, and {text!r:.80} is not: {error}") from error
    if pa.types.is_floating(kind) and not is_exact_float(text, value):
        raise click.UsageError(f"{what} is {kind}, which rounds {text!r:.80}")
    return value


def _by_column(names: Sequence[str], texts: Sequence[str], argument: str) -> dict[str, str]:
    """Returns the texts by column.

    If the part before the first `=` is the name of a key column, the text is `column=value`.
    """
    given: dict[str, str] = {}
    for position, text in enumerate(texts):
        name, separator, value = text.partition("=")
        if not separator or name not in names:
            if position >= len(names):
                raise click.UsageError(
                    f"{argument}: too many values; the key is {', '.join(names)}"
                )
            name, value = names[position], text
        if name in given:
            raise click.UsageError(f"{argument}: key column {name!r} is given twice")
        given[name] = value
    return given
