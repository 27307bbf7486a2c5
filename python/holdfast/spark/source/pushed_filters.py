"""The values of columns that Spark's pushed-down filters select."""

from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
)

from holdfast._reader.arrow import arrow
from holdfast._reader.dataset.domain import Domain, Range, intersection, points

if TYPE_CHECKING:
    import pyarrow

_ROUNDED_DIGITS: Final = 28
"""PySpark rounds decimals in filters to this number of digits, Python's default."""


def pushed_domains(filters: Iterable[Filter], schema: "pyarrow.Schema") -> dict[str, Domain]:
    """Returns the values that columns may have in rows for which all filters are true.

    A column that is absent in the result is not limited. A filter of an unsupported form limits no
    column.
    """
    found: dict[str, Domain] = {}
    for given in filters:
        name, *nested = getattr(given, "attribute", ("",))
        is_column = not nested and name in schema.names
        domain = _domain(given, schema.field(name).type) if is_column else None
        if domain is not None:
            found[name] = intersection(found[name], domain) if name in found else domain
    return found


def _domain(given: Filter, kind: "pyarrow.DataType") -> Domain | None:
    """Returns the values that a filter of one column may select; None if they are not known."""
    if isinstance(given, In | EqualTo):
        values = given.value if isinstance(given, In) else [given.value]
        # Null is equal to nothing.
        found = _exactly([value for value in values if value is not None], kind)
        return None if found is None else points(found)
    if isinstance(given, EqualNullSafe | IsNull):
        found = _exactly([getattr(given, "value", None)], kind)
        return None if found is None else points(found)
    if not isinstance(given, GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual):
        return None
    bound = _exactly([given.value], kind)
    # In Spark NaN is greater than all numbers; in Arrow it is in no range.
    if bound is None or given.value is None or arrow().types.is_floating(kind):
        return None
    is_lower = isinstance(given, GreaterThan | GreaterThanOrEqual)
    return Range(lower=bound[0]) if is_lower else Range(upper=bound[0])


def _exactly(values: list[Any], kind: "pyarrow.DataType") -> "pyarrow.Array | None":
    """Returns values as a column; None if one is not exactly of the column's type."""
    pa = arrow()
    if pa.types.is_nested(kind) or any(map(_is_rounded, values)):
        return None
    try:
        column = pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        return None
    return column if column.to_pylist() == values else None


def _is_rounded(value: Any) -> bool:
    return isinstance(value, Decimal) and len(value.as_tuple().digits) >= _ROUNDED_DIGITS
