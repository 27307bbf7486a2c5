"""Values that are given as text or as JSON, by their Arrow types.

pyarrow converts text to a type. Inside a struct or a list it would change values without an error:
it drops a fraction, ignores an unknown field, and takes the letters of hexadecimal text as bytes.
So each nested value is converted by its own type here.
"""

import json
from math import isinf
from typing import TYPE_CHECKING, Any

from holdfast._reader.arrow import arrow
from holdfast._reader.exact_column import is_exact_float, names_infinity
from holdfast.errors import SerializationError
from holdfast.serde._dump import dumper
from holdfast.serde._load import without_dictionaries

if TYPE_CHECKING:
    import pyarrow


class JsonNumber(str):
    """A number with a fraction as JSON has it, with all its digits."""

    __slots__ = ()


def value_of_text(text: str, kind: "pyarrow.DataType", name: str) -> Any:
    """Returns the value of this type that a text names.

    Bytes are hexadecimal, nested values JSON; the rest is as Arrow casts strings.

    Raises `ValueError` for text that names no value of the type; `name` is its name in the error.
    """
    pa = arrow()
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_nested(kind):
        try:
            found = json.loads(text, parse_float=JsonNumber)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{name} is {kind}, and {text!r:.80} is no JSON: {error}") from error
        return value_of_json(found, kind, name)
    try:
        if _is_bytes(kind):
            return bytes.fromhex(text)
        if pa.types.is_timestamp(kind) and kind.tz is None:
            return pa.scalar(text).cast(pa.timestamp(kind.unit)).as_py()
        value = pa.scalar(text).cast(kind).as_py()
    except (pa.ArrowException, ValueError, OverflowError) as error:
        # Overflow: a time that Python cannot represent.
        raise ValueError(f"{name} is {kind}, and {text!r:.80} is not: {error}") from error
    if pa.types.is_floating(kind) and not is_exact_float(text, value):
        raise ValueError(f"{name} is {kind}, which rounds {text!r:.80}")
    if pa.types.is_floating(kind) and isinf(value) and not names_infinity(text):
        raise ValueError(f"{name} is {kind}, and {text!r:.80} is beyond its range")
    return value


def value_of_json(value: Any, kind: "pyarrow.DataType", name: str) -> Any:
    """Returns the value of this nested type that a JSON value names.

    Inside it, values of types that JSON lacks are text, as in `value_of_text`. An object has all
    fields of a struct, and no others.

    Raises `ValueError` for a value that does not fit; `name` is its name in the error.
    """
    pa = arrow()
    converted = _converted(value, kind, name)
    try:
        # pyarrow refuses numbers beyond the type.
        pa.array([dumper(kind, "")(converted)], without_dictionaries(kind))
    except (TypeError, SerializationError) as error:
        raise ValueError(f"{name} {error}") from error
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        raise ValueError(f"{name} is {kind}, and the value given is not: {error}") from error
    return converted


def _converted(value: Any, kind: "pyarrow.DataType", name: str) -> Any:
    pa = arrow()
    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_struct(kind) and isinstance(value, dict):
        fields = {field.name: field.type for field in kind}
        return {
            key: _converted(item, fields[key], f"{name}.{key}") if key in fields else item
            for key, item in value.items()
        }
    if (types.is_list(kind) or types.is_large_list(kind)) and isinstance(value, list):
        return [_converted(item, kind.value_type, f"{name}[]") for item in value]
    is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    if not isinstance(value, str) or types.is_nested(kind):
        return value
    if is_text and not isinstance(value, JsonNumber):
        return value
    if is_text or (_is_bytes(kind) and isinstance(value, JsonNumber)):
        raise ValueError(f"{name} is {kind}, and {value} is a number")
    return value_of_text(value, kind, name)


def _is_bytes(kind: "pyarrow.DataType") -> bool:
    types = arrow().types
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind))
