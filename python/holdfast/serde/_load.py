"""Converts pyarrow's Python values of a struct's fields to the ones that users get.

Structs, which pyarrow reads as dicts, become rows; maps, which it reads as pairs, become dicts.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from holdfast.errors import SerializationError
from holdfast.serde._row import row_class

Load = Callable[[Any], Any]


def same(value: Any) -> Any:
    """Returns the value."""
    return value


def loader(type_: Any, path: str, in_key: bool = False) -> Load:
    """Returns a function that converts a value of an Arrow type; `same` if there is nothing to do.

    `path` is the field's name in errors. `in_key` is whether the value is in a key of a map. None
    stays None. Raises `TypeError` for a map whose keys cannot be those of a dict. The function
    raises `SerializationError` for a map with equal keys.
    """
    import pyarrow as pa

    if pa.types.is_dictionary(type_):
        return loader(type_.value_type, path, in_key)
    if in_key and pa.types.is_timestamp(type_) and type_.tz is not None:
        return _at_fixed_offset
    if pa.types.is_struct(type_):
        return _struct(type_, path, in_key)
    if pa.types.is_map(type_):
        return _map(type_, path)
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        load = loader(type_.value_type, f"{path}[]")
        return (
            same
            if load is same
            else lambda items: None if items is None else [load(item) for item in items]
        )
    return same


def _at_fixed_offset(moment: Any) -> Any:
    """Returns a datetime of the repeated hour of its zone with the zone's offset at that moment.

    Python compares datetimes of one zone by their wall clock, so a dict would take the two moments
    of a repeated hour for one key. pandas' times are compared by the moment.
    """
    if type(moment) is not datetime:
        return moment
    offset = moment.utcoffset()
    if offset is None or moment.replace(fold=1 - moment.fold).utcoffset() == offset:
        return moment
    return moment.replace(tzinfo=timezone(offset), fold=0)


def _struct(type_: Any, path: str, in_key: bool) -> Load:
    names = [field.name for field in type_]
    row = row_class(tuple(names))
    loaders = [loader(field.type, f"{path}.{field.name}".strip("."), in_key) for field in type_]
    if all(load is same for load in loaders):
        return lambda fields: None if fields is None else row(fields.values())
    return lambda fields: (
        None
        if fields is None
        else row(load(fields[name]) for name, load in zip(names, loaders, strict=True))
    )


def _map(type_: Any, path: str) -> Load:
    if _has_list(type_.key_type):
        raise TypeError(
            f"field {path} is a map whose keys are {type_.key_type}: lists and maps cannot be keys "
            "of a dict; declare a list of structs of key and value"
        )
    key = loader(type_.key_type, f"{path}[].key", in_key=True)
    item = loader(type_.item_type, f"{path}[].value")

    def load(pairs: Any) -> Any:
        if pairs is None:
            return None
        entries: dict[Any, Any] = {}
        for k, v in pairs:
            loaded = key(k)
            if loaded in entries:
                raise SerializationError(
                    f"field {path} has several entries of the key {loaded!r:.80}, and a dict holds "
                    "one of them; batch methods take and return all entries"
                )
            entries[loaded] = item(v)
        return entries

    return load


def _has_list(type_: Any) -> bool:
    """Returns whether a type is or contains a list or a map."""
    import pyarrow as pa

    if pa.types.is_struct(type_):
        return any(_has_list(field.type) for field in type_)
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_map(type_))


def without_dictionaries(type_: Any) -> Any:
    """Returns a type with the types of values in place of the dictionaries of these values."""
    import pyarrow as pa

    if pa.types.is_dictionary(type_):
        return without_dictionaries(type_.value_type)

    def plain(field: Any) -> Any:
        return field.with_type(without_dictionaries(field.type))

    if pa.types.is_struct(type_):
        return pa.struct([plain(field) for field in type_])
    if pa.types.is_map(type_):
        return pa.map_(plain(type_.key_field), plain(type_.item_field))
    if pa.types.is_list(type_):
        return pa.list_(plain(type_.value_field))
    if pa.types.is_large_list(type_):
        return pa.large_list(plain(type_.value_field))
    return type_
