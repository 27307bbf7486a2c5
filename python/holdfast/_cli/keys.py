"""Keys as text: parsed by the Arrow types of a table's key columns."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from holdfast._reader.text_value import value_of_text

if TYPE_CHECKING:
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
    try:
        values = [
            value_of_text(given[name], table.schema.field(name).type, f"{argument}: {name}")
            for name in leading
        ]
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    return values[0] if len(names) == 1 else tuple(values)


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
