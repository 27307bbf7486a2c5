"""The option `key`: keys as text or JSON."""

import json
from typing import TYPE_CHECKING, Any

from holdfast._reader import keys as keys_
from holdfast._reader.arrow import arrow
from holdfast._reader.text_value import JsonNumber, value_of_json

if TYPE_CHECKING:
    import pyarrow


def parse_keys(text: str, columns: "pyarrow.Schema") -> "pyarrow.RecordBatch":
    """Returns the keys that the option names, each once.

    Text that begins with a bracket, a brace or a quote is JSON; other text is the value of a key's
    only column. Each element of a JSON list is a key. A key of several columns is a list or an
    object. If there are several columns, a list of single values is one key.

    Raises `ValueError` for text that names no keys of these columns.
    """
    named: list[Any] = [text]
    if text.lstrip().startswith(("[", "{", '"')):
        try:
            found = json.loads(text, parse_float=JsonNumber)
        except ValueError as error:
            raise ValueError(f"option key is {text!r}, which is no JSON: {error}") from error
        named = found if isinstance(found, list) else [found]
        if len(columns) > 1 and named and not any(isinstance(key, list | dict) for key in named):
            named = [named]
    try:
        rows = [keys_.key_values(columns, _key(columns, key), "keys") for key in named]
    except TypeError as error:
        raise ValueError(f"option key is {text!r}: {error}") from error
    if any(len(row) != len(columns) for row in rows):
        raise ValueError(f"option key is {text!r}: each key has the columns {columns.names}")
    given = {
        field.name: _column([row[index] for row in rows], field)
        for index, field in enumerate(columns)
    }
    keys = keys_.many_keys(columns, given)
    return keys if keys.num_rows < 2 else _distinct(keys)


def _distinct(keys: "pyarrow.RecordBatch") -> "pyarrow.RecordBatch":
    def identity(row: dict[str, object]) -> str:
        return repr([_one_zero(value) for value in row.values()])

    rows = {identity(row): number for number, row in enumerate(keys.to_pylist())}
    return keys.take(list(rows.values()))


def _one_zero(value: object) -> object:
    """Returns the value with 0.0 for each -0.0, also in structs and lists: they are one key."""
    if isinstance(value, dict):
        return {name: _one_zero(field) for name, field in value.items()}
    if isinstance(value, list):
        return [_one_zero(item) for item in value]
    return 0.0 if value == 0.0 else value


def _key(columns: "pyarrow.Schema", key: Any) -> Any:
    return tuple(key) if len(columns) > 1 and isinstance(key, list) else key


def _column(values: list[Any], field: "pyarrow.Field") -> "pyarrow.Array | list[Any]":
    """Returns the values as a column, or nested values as a list.

    If one value is text, the column is text: the option has values of types that JSON lacks, and
    numbers with a fraction, as text. The caller converts it to the type of the field.
    """
    pa = arrow()
    if pa.types.is_nested(field.type):
        name = f"option key: column {field.name!r}"
        return [value_of_json(value, field.type, name) for value in values]
    if any(isinstance(value, str) for value in values):
        texts = [value if value is None else str(value) for value in values]
        return pa.array(texts, pa.string())
    try:
        return pa.array(values, field.type)
    except (
        pa.ArrowInvalid,
        pa.ArrowTypeError,
        pa.ArrowNotImplementedError,
        OverflowError,
    ) as error:
        raise ValueError(f"option key: column {field.name!r} is {field.type}: {error}") from error
