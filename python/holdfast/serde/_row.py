"""The rows that reads of structs return."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import KeysView


class Row(tuple[Any, ...]):
    """A struct: a tuple of its fields in the schema's order, with access by name.

    It equals that tuple and also the dict of its fields, and can be a dict's key. An unknown name
    raises `KeyError`.

    >>> import holdfast as hf, pyarrow as pa
    >>> currency = hf.serde.struct(pa.schema([("code", pa.string()), ("digits", pa.int8())]))
    >>> row = currency.deserialize(currency.serialize(("EUR", 2)))
    >>> row
    Row(code='EUR', digits=2)
    >>> row["code"], row[1], dict(row)
    ('EUR', 2, {'code': 'EUR', 'digits': 2})
    >>> row == ("EUR", 2), row == {"code": "EUR", "digits": 2}
    (True, True)
    """

    __slots__ = ()
    _places: Mapping[str, int] = {}

    def keys(self) -> KeysView[str]:
        """Returns the names of the fields; `dict(row)` needs it."""
        return self._places.keys()

    def __getitem__(self, field: Any) -> Any:
        if isinstance(field, str):
            return tuple.__getitem__(self, self._places[field])
        return tuple.__getitem__(self, field)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Mapping):
            return dict(self) == other
        return tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__

    def __repr__(self) -> str:
        items = zip(self._places, self, strict=True)
        return f"Row({', '.join(f'{name}={item!r}' for name, item in items)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _row, (tuple(self._places), tuple(self))


@cache
def row_class(names: tuple[str, ...]) -> type[Row]:
    """Returns the class of the rows with these fields."""
    return type(
        "Row",
        (Row,),
        {"__slots__": (), "_places": {name: place for place, name in enumerate(names)}},
    )


def named_fields(value: tuple[Any, ...]) -> dict[str, Any] | None:
    """Returns the fields of a tuple that names them, or None for a plain tuple.

    A `Row` of another struct, a `NamedTuple` or a `pyspark.sql.Row` may have the same fields in
    another order.

    Raises `TypeError` if two fields have one name, as in a `pyspark.sql.Row`.
    """
    if isinstance(value, Row):
        return dict(value)
    names = getattr(type(value), "_fields", None) or getattr(value, "__fields__", None)
    if names is None:
        return None
    named = dict(zip(names, value, strict=True))
    if len(named) < len(value):
        raise TypeError(f"has the fields {list(names)}, two of one name; give a plain tuple")
    return named


def _row(names: tuple[str, ...], items: tuple[Any, ...]) -> Row:
    return row_class(names)(items)
