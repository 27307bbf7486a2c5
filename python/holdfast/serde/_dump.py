"""Checks and converts the Python values of a struct's fields before pyarrow takes them.

Inside a struct pyarrow changes values without an error: it truncates a float to an integer, drops
the time of a datetime in a date field, drops the part of a timestamp below the field's unit, and
takes bytes for a string. Every value is therefore checked first, and refused if a read would return
another value. Only floats in a float32 field are rounded.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import isinf
from numbers import Integral, Rational, Real
from typing import Any

from holdfast.errors import SerializationError
from holdfast.serde._load import loader, without_dictionaries
from holdfast.serde._row import named_fields

# The units of timestamps and durations, in microseconds.
_UNITS = {"s": 1_000_000, "ms": 1000, "us": 1}

Dump = Callable[[Any], Any]


def dumper(type_: Any, path: str) -> Dump:
    """Returns a function that checks a value of an Arrow type and converts it for pyarrow.

    `path` is the field's name in errors. None stays None. The function raises `TypeError` for a
    value of another type, `SerializationError` for one that does not fit; both name the field.
    """
    import pyarrow as pa

    if pa.types.is_dictionary(type_):
        return dumper(type_.value_type, path)
    nested = {"is_struct": _struct, "is_map": _map, "is_list": _list, "is_large_list": _list}
    for is_type, make in nested.items():
        if getattr(pa.types, is_type)(type_):
            return make(type_, path)
    for is_type, is_kind, check in _PLAIN:
        if getattr(pa.types, is_type)(type_):
            return _leaf(type_, path, is_kind, check)
    raise TypeError(f"has a field {path} of type {type_}, whose values cannot be checked")


def is_numpy_duration(value: Any) -> bool:
    """Whether it is a duration of numpy, which Python takes for an integer."""
    return getattr(getattr(value, "dtype", None), "kind", "") == "m"


def _is_integer(value: Any) -> bool:
    """Returns whether it is an integer; numpy's integers are included."""
    return (
        isinstance(value, Integral) and not isinstance(value, bool) and not is_numpy_duration(value)
    )


def _is_number(value: Any) -> bool:
    return _is_integer(value) or (isinstance(value, Real) and not isinstance(value, Rational))


def _is_bytes(value: Any) -> bool:
    return isinstance(value, bytes | bytearray | memoryview)


def _is_date(value: Any) -> bool:
    """Returns whether it is a date, or its number of days since 1970."""
    return (isinstance(value, date) and not isinstance(value, datetime)) or _is_integer(value)


def _is_moment(value: Any) -> bool:
    """Returns whether it is a datetime, or a number of the type's units since 1970."""
    return isinstance(value, datetime) or _is_integer(value)


def _is_duration(value: Any) -> bool:
    """Returns whether it is a duration, or a number of the type's units."""
    return isinstance(value, timedelta) or _is_integer(value)


def _fits_moment(moment: Any, type_: Any) -> None:
    """Raises `OverflowError` for a datetime that a type of timestamps does not hold."""
    if type_.tz is None and isinstance(moment, datetime) and moment.utcoffset() is not None:
        raise OverflowError("it has a time zone, and the field has none")
    no_fraction(moment, type_)


def no_fraction(time: Any, type_: Any) -> None:
    """Raises `OverflowError` for a datetime or timedelta with a part below the unit of its type."""
    step = _UNITS.get(type_.unit)
    # pandas' times also have nanoseconds.
    if isinstance(time, datetime):
        microseconds, nanoseconds = time.microsecond, getattr(time, "nanosecond", 0)
    elif isinstance(time, timedelta):
        microseconds, nanoseconds = time.microseconds, getattr(time, "nanoseconds", 0)
    else:
        return
    if step and (microseconds % step or nanoseconds):
        raise OverflowError("it has a fraction below the unit")


def whole_offset(value: Any) -> Any:
    """Returns a datetime in UTC if its offset has a part below a second, which pyarrow drops."""
    if isinstance(value, datetime) and (offset := value.utcoffset()) and offset.microseconds:
        return value.astimezone(UTC)
    return value


def _fits_double(number: Any, _type: Any) -> None:
    """Raises `OverflowError` for a number, such as a long double, that no double equals."""
    # A NaN differs from itself.
    if not isinstance(number, float) and float(number) != number == number:  # noqa: PLR0124
        raise OverflowError(f"no float equals it; the nearest is {float(number)}")


def _fits_single(number: Any, _type: Any) -> None:
    """Raises `OverflowError` for a number beyond the range of a float32."""
    struct.pack("<f", number)
    # The conversion of a long double is silent.
    if isinf(float(number)) and float(number) != number:
        raise OverflowError("it is beyond the range")


def _anything(_value: Any, _type: Any) -> None:
    pass


# The types of plain fields; for each, a test of the Python values that it takes, and a check that
# raises `OverflowError` for a value that pyarrow would change.
_PLAIN: list[tuple[str, Callable[[Any], bool], Callable[[Any, Any], None]]] = [
    ("is_integer", _is_integer, _anything),
    ("is_float64", _is_number, _fits_double),
    ("is_float32", _is_number, _fits_single),
    ("is_decimal", lambda value: isinstance(value, Decimal) or _is_integer(value), _anything),
    (
        "is_boolean",
        lambda value: isinstance(value, bool) or getattr(value, "dtype", None) == "bool",
        _anything,
    ),
    ("is_date", _is_date, _anything),
    ("is_timestamp", _is_moment, _fits_moment),
    ("is_duration", _is_duration, no_fraction),
    *(
        (is_type, lambda value: isinstance(value, str), _anything)
        for is_type in ("is_string", "is_large_string", "is_string_view")
    ),
    *(
        (is_type, _is_bytes, _anything)
        for is_type in ("is_binary", "is_large_binary", "is_binary_view")
    ),
]


def _leaf(
    type_: Any, path: str, is_kind: Callable[[Any], bool], check: Callable[[Any, Any], None]
) -> Dump:
    def dump(value: Any) -> Any:
        if value is None:
            return None
        if not is_kind(value):
            raise TypeError(_wrong(path, value, type_))
        # pyarrow accepts numpy's integers for integer types only.
        value = int(value) if _is_integer(value) else value
        try:
            taken = whole_offset(value)
            check(taken, type_)
        except OverflowError as error:
            raise does_not_fit(path, value, type_, error) from error
        return taken

    return dump


def _is_items(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str) and not _is_bytes(value)


def _list(type_: Any, path: str) -> Dump:
    item = dumper(type_.value_type, f"{path}[]")

    def dump(value: Any) -> Any:
        if value is None:
            return None
        if not _is_items(value) or isinstance(value, Mapping):
            raise TypeError(_wrong(path, value, type_))
        return [item(one) for one in value]

    return dump


def _map(type_: Any, path: str) -> Dump:
    import pyarrow as pa

    key, item = dumper(type_.key_type, f"{path}[].key"), dumper(type_.item_type, f"{path}[].value")
    load, key_type = loader(type_, path), without_dictionaries(type_.key_type)

    def check_keys(keys: list[Any]) -> None:
        """Raises `SerializationError` for keys that a read returns as equal ones."""
        try:
            read = pa.array(keys, key_type).to_pylist()
        except (pa.ArrowException, OverflowError, ValueError):
            # pyarrow refuses a key again when it takes the whole row, whose error names the field.
            # Or a key is a time beyond `datetime`, which only columns can read.
            return
        load([(k, None) for k in read])

    def dump(value: Any) -> Any:
        if value is None:
            return None
        pairs = (
            list(value.items() if isinstance(value, Mapping) else value)
            if _is_items(value)
            else None
        )
        if pairs is None or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
            raise TypeError(_wrong(path, value, type_))
        dumped = [(key(k), item(v)) for k, v in pairs]
        if len(dumped) > 1:
            check_keys([k for k, _ in dumped])
        return dumped

    return dump


def _struct(type_: Any, path: str) -> Dump:
    """Returns a function that makes a dict with exactly the struct's fields.

    pyarrow itself would fill missing fields and drop unknown ones.
    """
    names = [field.name for field in type_]
    dumpers = {field.name: dumper(field.type, f"{path}.{field.name}".strip(".")) for field in type_}

    def dump(value: Any) -> Any:
        if isinstance(value, tuple):
            named = named_fields(value)
            if named is not None:
                value = named
            elif len(value) == len(names):
                value = dict(zip(names, value, strict=True))
        if not isinstance(value, Mapping) or value.keys() != dumpers.keys():
            if value is None:
                return None
            came = (
                f"has the fields {list(value)}"
                if isinstance(value, Mapping)
                else f"{value!r:.80} is a {type(value).__name__}"
            )
            raise TypeError(
                f"{path and f'field {path} '}{came}; wanted: a tuple or dict of {names}"
            )
        return {name: dump(value[name]) for name, dump in dumpers.items()}

    return dump


def _wrong(path: str, value: Any, type_: Any) -> str:
    return f"has a field {path}, {value!r:.80}, which is a {type(value).__name__}; wanted: {type_}"


def does_not_fit(path: str, value: Any, type_: Any, why: Exception) -> SerializationError:
    """Returns the error for a value of the right type that a field cannot hold."""
    return SerializationError(f"field {path}, {value!r:.80}, does not fit {type_}: {why}")
