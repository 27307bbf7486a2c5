"""A column of keys with exactly the values that were given.

pyarrow converts some values to others without an error, and the row of another key would be found.
"""

import re
from collections.abc import Iterable
from datetime import date, datetime, time
from decimal import Decimal
from math import isinf
from numbers import Real
from typing import TYPE_CHECKING, Any, Final

from holdfast._reader.arrow import arrow, arrow_compute
from holdfast.errors import SerializationError
from holdfast.serde._dump import dumper, is_numpy_duration, no_fraction, whole_offset

if TYPE_CHECKING:
    import pyarrow

_INFINITY: Final = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)


def exact_column(values: Any, kind: "pyarrow.DataType", name: str) -> "pyarrow.Array":
    """Returns values as a column of a type: a sequence, or a column of pyarrow, pandas or numpy.

    Raises `TypeError` or `ValueError` for values of which the column would have others. `name` is
    the column's name in errors.
    """
    pa = arrow()
    if isinstance(values, str | bytes):
        # A sequence of its letters.
        raise TypeError(f"keys: column {name!r} is {values!r}; give a list of values")
    try:
        column = _arrow_array(values)
        if column is None:
            return _of_values(values, kind, name)
        if column.type == kind:
            return column
        if pa.types.is_nested(kind):
            return _of_values(column.to_pylist(), kind, name)
        return _cast(column, kind)
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        message = f"keys: column {name!r} is {kind}, and the values given do not fit: {error}"
        raise ValueError(message) from error


def _arrow_array(values: Any) -> "pyarrow.Array | None":
    """Returns a column with a type of its own as an Arrow array; None for other values."""
    pa = arrow()
    dtype = getattr(values, "dtype", None)
    if hasattr(values, "__arrow_c_array__"):
        return pa.array(values)
    if hasattr(values, "iloc"):
        # pyarrow takes Python's times without a zone as if they were in UTC.
        if getattr(dtype, "kind", None) == "O" and any(
            isinstance(value, dict | list | date) for value in values
        ):
            return None
        found = pa.Array.from_pandas(values)
    elif hasattr(values, "__arrow_c_stream__"):
        found = pa.chunked_array(values)
    elif getattr(dtype, "kind", None) == "M":
        # numpy's times have no zone.
        found = pa.array(values)
    else:
        return None
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _of_values(values: Any, kind: "pyarrow.DataType", name: str) -> "pyarrow.Array":
    """Returns Python values, or a numpy array without times, as a column."""
    pa = arrow()
    given = getattr(getattr(values, "dtype", None), "kind", "O")
    if given == "S":
        raise pa.ArrowInvalid(
            f"numpy's {values.dtype} has lost zeros at the end of values; give a list of bytes"
        )
    if given in "OU":
        # pyarrow ends a text of a numpy array at its first zero.
        values = _python_values(values)
    # pyarrow takes a numpy array of numbers as booleans, and the reverse.
    elif (given == "b") != pa.types.is_boolean(kind):
        raise pa.ArrowInvalid(f"{values.dtype} is not {kind}")
    if pa.types.is_nested(kind):
        try:
            dump = dumper(kind, name)
            values = [dump(value) for value in values]
        except (TypeError, SerializationError) as error:
            raise ValueError(f"keys: a key {error}") from error
    # pyarrow itself checks the numbers of a numpy array.
    elif isinstance(values, list):
        if pa.types.is_temporal(kind):
            # pandas' NaT, which is a null, differs from itself.
            values = [
                None if value != value else whole_offset(value)  # noqa: PLR0124
                for value in values
            ]
        _refuse_inexact(values, kind)
    column = pa.array(values, type=kind)
    if pa.types.is_floating(kind):
        _refuse_overflow(values, column)
    return column


def _python_values(values: Any) -> list[Any]:
    """Returns the values as a list, with None for each missing value of a pandas Series."""
    if hasattr(values, "iloc"):
        values = values.astype(object).where(values.notna(), None)
    return list(values)


def _cast(values: "pyarrow.Array", kind: "pyarrow.DataType") -> "pyarrow.Array":
    """Returns the values in another type without fields.

    Raises `ArrowInvalid` for values that pyarrow would change: it rounds a number with more digits
    than a decimal has, and a text that is a whole number and that no float equals. It drops a time
    of day in a date. It takes a date as a time in UTC, and a number as a boolean. It converts
    between times with and without a zone as if the latter were in UTC.
    """
    pa = arrow()
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    given = values.type
    if pa.types.is_boolean(kind) != pa.types.is_boolean(given) and not _is_text(given):
        raise pa.ArrowInvalid(f"{given} is not {kind}")
    if pa.types.is_timestamp(kind):
        if pa.types.is_date(given):
            raise pa.ArrowInvalid("a date is not a time")
        if pa.types.is_timestamp(given):
            _check_zone(kind, has_zone=given.tz is not None)
    # Text keeps the digits: pyarrow's cast of a decimal to a double may be off by the last bit.
    from_decimal = pa.types.is_decimal(given) and pa.types.is_floating(kind)
    cast = (values.cast(pa.string()) if from_decimal else values).cast(kind)
    if from_decimal or (pa.types.is_decimal(kind) and pa.types.is_floating(given)):
        is_exact = cast.cast(pa.string()).cast(given).equals(values)
    elif pa.types.is_floating(kind) and _is_text(given):
        is_exact = all(map(is_exact_float, values.to_pylist(), cast.to_pylist()))
    else:
        is_exact = not pa.types.is_date(kind) or cast.cast(given, safe=False).equals(values)
    if not is_exact:
        raise pa.ArrowInvalid(f"a value of {given} is not exactly a {kind}")
    if pa.types.is_floating(kind):
        _refuse_overflow(values, cast)
    return cast


def _refuse_overflow(values: Iterable[Any], floats: "pyarrow.Array") -> None:
    """Raises `ArrowInvalid` if a finite number has become infinite, which is another key."""
    infinite = arrow_compute().is_inf(floats)
    if infinite.true_count == 0:
        return
    for value, is_infinite in zip(values, infinite.to_pylist(), strict=True):
        if not is_infinite:
            continue
        number = value.as_py() if isinstance(value, arrow().Scalar) else value
        if not names_infinity(number):
            raise arrow().ArrowInvalid(f"{number!r} is beyond the range of a {floats.type}")


def names_infinity(value: Any) -> bool:
    """Whether a number is infinite, or a text names infinity."""
    if isinstance(value, str):
        return _INFINITY.fullmatch(value.strip()) is not None
    return value.is_infinite() if isinstance(value, Decimal) else isinf(value)


def _is_text(kind: "pyarrow.DataType") -> bool:
    types = arrow().types
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_string_view(kind)
        or types.is_null(kind)
    )


def is_exact_float(text: str | None, number: float | None) -> bool:
    """Whether a text that is a whole number is exactly a float; other texts name the nearest."""
    if text is None or number is None or not text.strip().lstrip("+-").isdecimal():
        return True
    return not isinf(number) and int(text) == number


def _is_whole(value: Any) -> bool:
    """Whether a number has no fraction; true for other values."""
    if type(value) is int or is_numpy_duration(value):
        return True
    if isinstance(value, Decimal):
        return value.is_finite() and value % 1 == 0
    return not isinstance(value, Real) or value % 1 == 0


def _check_zone(kind: "pyarrow.DataType", *, has_zone: bool) -> None:
    """Raises `ArrowInvalid` unless times have a zone if the type of a column has one."""
    if has_zone and kind.tz is None:
        raise arrow().ArrowInvalid("a time has a time zone, and the column has none")
    if not has_zone and kind.tz is not None:
        raise arrow().ArrowInvalid(
            "a time has no time zone, and the column has one: set its zone, for pandas by "
            "times.dt.tz_localize(zone)"
        )


def _refuse_inexact(values: Iterable[Any], kind: "pyarrow.DataType") -> None:
    """Raises an error for a value that pyarrow would store as another one.

    `OverflowError` for a number that is not whole, in a column of integers or times, or for a
    datetime with a part below the column's unit; `ArrowInvalid` for a datetime without a zone in a
    column with one or the reverse, or with a time of day in a date.
    """
    pa = arrow()
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        for value in values:
            if not _is_whole(value):
                raise OverflowError(f"{value!r} is not whole")
    moments = (value for value in values if isinstance(value, datetime))
    if pa.types.is_timestamp(kind):
        for moment in moments:
            _check_zone(kind, has_zone=moment.utcoffset() is not None)
            no_fraction(moment, kind)
    elif pa.types.is_date(kind):
        for moment in moments:
            # pandas' timestamps also have nanoseconds.
            nanosecond: int = getattr(moment, "nanosecond", 0)
            if moment.time() != time() or nanosecond:
                raise pa.ArrowInvalid(f"{moment!r} is not exactly a {kind}")
