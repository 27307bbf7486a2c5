"""Casts the columns of user code's results to the types that the user code declares.

As in SQL, a cast may lose digits of floats and nothing else. Unlike in SQL, no cast uses the
session's time zone: a time without a zone is in UTC.
"""

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute

_pc: Any = pyarrow.compute  # type checkers do not see the functions that it creates when imported

_UTC: Final = frozenset(
    {"Z", "+00:00", "-00:00"}
    | {
        f"{area}{name}"
        for area in ("", "Etc/")
        for name in (
            "UTC",
            "UCT",
            "Zulu",
            "Universal",
            "Greenwich",
            "GMT",
            "GMT0",
            "GMT+0",
            "GMT-0",
        )
    }
)
"""The names of zones without an offset in the time zone database, and such offsets."""
_KINDS: Final[dict[str, tuple[Callable[[pa.DataType], bool], ...]]] = {
    "flag": (pa.types.is_boolean,),
    # Times are numbers, too: a processor gets and gives times as microseconds since 1970.
    "number": (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_decimal,
        pa.types.is_temporal,
    ),
    "text": (
        *(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
        *(
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_binary_view,
            pa.types.is_fixed_size_binary,
        ),
    ),
    "struct": (pa.types.is_struct,),
    "list": (
        *(pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_map),
        *(pa.types.is_list_view, pa.types.is_large_list_view),
    ),
}


def cast(column: pa.Array, wanted: pa.DataType, name: str) -> pa.Array:
    """Returns the column as that type; `name` names it in errors.

    Raises `ValueError` where pyarrow would silently fill, drop, parse or overflow values.
    """
    if column.type.equals(wanted):
        return column
    try:
        if pa.types.is_temporal(_plain(column.type)) and pa.types.is_integer(wanted):
            column = column.cast(_in_micros(_plain(column.type))).cast(pa.int64())
        _check_types(column.type, wanted, name)
        result = column.cast(wanted)
        _check_values(column, result, name)
    except pa.ArrowException as error:
        raise ValueError(str(error)) from error
    return result


def _check_types(given: pa.DataType, wanted: pa.DataType, place: str) -> None:
    given = _plain(given)
    if pa.types.is_null(given):
        return
    if _kind(given) != _kind(wanted):
        raise ValueError(f"{place} is {given}, which is not converted to {wanted}")
    if pa.types.is_temporal(given) and pa.types.is_integer(wanted) and given != _in_micros(given):
        raise ValueError(
            f"{place} is {given}, and integers are microseconds: cast it to {_in_micros(given)}"
        )
    if pa.types.is_time(wanted) and not pa.types.is_time(given) and pa.types.is_temporal(given):
        raise ValueError(f"{place} is {given}, and {wanted} is a time of day alone: cast it")
    if pa.types.is_integer(given) and (pa.types.is_date(wanted) or pa.types.is_time(wanted)):
        # pyarrow would take some integers as days, and others as the unit of the time.
        raise ValueError(f"{place} is {given}, and {wanted} is no timestamp: cast it")
    if _has_other_zone(given) and pa.types.is_timestamp(wanted) and wanted.tz is None:
        raise ValueError(
            f"{place} is {given}, and {wanted} has no zone: take the local time, or cast it to UTC"
        )
    if _kind(wanted) == "list":
        _check_types(_element(given), _element(wanted), f"{place}[]")
    elif _kind(wanted) == "struct":
        there, names = ([field.name for field in fields] for fields in (given, wanted))
        if sorted(there) != sorted(names):
            raise ValueError(f"{place} has the fields {there}; wanted: {names}")
        for field in wanted:
            _check_types(given.field(field.name).type, field.type, f"{place}.{field.name}")


def _check_values(given: pa.Array, result: pa.Array, place: str) -> None:
    while isinstance(given, pa.DictionaryArray | pa.ExtensionArray):
        given = (
            given.dictionary_decode() if isinstance(given, pa.DictionaryArray) else given.storage
        )
    if pa.types.is_null(given.type):
        return
    if _kind(result.type) == "list":
        before, after = _elements(given), _elements(result)
        if len(before) != len(after):  # pyarrow 26 drops those of list views
            raise ValueError(
                f"{place} had {len(before)} elements as {given.type} and has {len(after)} as "
                f"{result.type}"
            )
        _check_values(before, after, f"{place}[]")
    elif _kind(result.type) == "struct":
        before, after = given.flatten(), result.flatten()
        for index, field in enumerate(result.type):
            _check_values(
                before[given.type.get_field_index(field.name)],
                after[index],
                f"{place}.{field.name}",
            )
    elif pa.types.is_float32(result.type) and not pa.types.is_integer(given.type):
        _check_none(
            _pc.and_not(_pc.is_inf(result), _pc.is_inf(given.cast(pa.float64()))),
            given,
            result,
            place,
        )
    elif pa.types.is_date(result.type) and pa.types.is_timestamp(given.type):
        # The date is the local one of the timestamp's zone.
        local = given if given.type.tz is None else _pc.local_timestamp(given)
        _check_none(_pc.not_equal(result.cast(local.type), local), given, result, place)


def _check_none(lost: pa.Array, given: pa.Array, result: pa.Array, place: str) -> None:
    values = given.filter(lost).drop_null()
    if len(values):
        raise ValueError(
            f"{place} has {values[:1].cast(pa.string())[0]}, which {result.type} cannot hold"
        )


def _has_other_zone(data_type: pa.DataType) -> bool:
    """Returns whether the type is a timestamp of a zone whose local time is not UTC."""
    return pa.types.is_timestamp(data_type) and data_type.tz not in (None, *_UTC)


def _in_micros(data_type: pa.DataType) -> pa.DataType:
    """Returns the type of the same kind of time, in microseconds."""
    if pa.types.is_duration(data_type):
        return pa.duration("us")
    if pa.types.is_time(data_type):
        return pa.time64("us")
    return pa.timestamp("us", getattr(data_type, "tz", None))


def _kind(data_type: pa.DataType) -> str:
    return next(
        (kind for kind, tests in _KINDS.items() if any(test(data_type) for test in tests)),
        str(data_type),
    )


def _plain(data_type: pa.DataType) -> pa.DataType:
    """Returns the type without dictionaries and extensions."""
    while isinstance(data_type, pa.DictionaryType | pa.BaseExtensionType):
        data_type = (
            data_type.value_type
            if isinstance(data_type, pa.DictionaryType)
            else data_type.storage_type
        )
    return data_type


def _element(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_map(data_type):
        return pa.struct([("key", data_type.key_type), ("value", data_type.item_type)])
    return data_type.value_type


def _elements(array: pa.Array) -> pa.Array:
    """Returns the elements of lists, or the entries of maps."""
    return (
        array.cast(pa.list_(_element(array.type))) if isinstance(array, pa.MapArray) else array
    ).flatten()
