"""Which keys can have the rows that a query's filters select."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from holdfast._reader.arrow import arrow
from holdfast._reader.keys import many_keys

if TYPE_CHECKING:
    import pyarrow

_MAX_KEYS: Final = 10_000
"""More keys are not worth a point read each."""

_ROUNDED_DIGITS: Final = 28
"""PySpark rounds decimals of filters to so many digits, Python's default."""


@dataclass(frozen=True, kw_only=True)
class KeyFilters:
    """Keys, or the range of keys, outside of which the filters select no row."""

    keys: "pyarrow.RecordBatch | None" = None
    prefix: tuple[Any, ...] | None = None
    start: Any = None
    end: Any = None

    @staticmethod
    def of(filters: Iterable[Filter], columns: "pyarrow.Schema") -> "KeyFilters":
        """Returns what filters that all must hold say about the key.

        Filters on other columns, and those that a key cannot be found by, say nothing.
        """
        filters = list(filters)
        values = [_values(filters, field) for field in columns]
        known = [found for found in values if found is not None]
        if len(known) == len(values) and prod(map(len, known)) <= _MAX_KEYS:
            rows = list(product(*known))
            names = columns.names
            by_column = {name: [row[n] for row in rows] for n, name in enumerate(names)}
            return KeyFilters(keys=many_keys(columns, by_column))
        prefix: list[Any] = []
        for found in values:
            if found is None or len(found) != 1:
                break
            prefix += found
        if prefix:
            return KeyFilters(prefix=tuple(prefix))
        start, end = _range(filters, columns.field(0))
        return KeyFilters(start=start, end=end)


def _values(filters: list[Filter], field: "pyarrow.Field") -> list[Any] | None:
    """Returns the only values that a column can have; None if the filters do not say."""
    found: list[Any] | None = None
    for given in filters:
        if not isinstance(given, EqualTo | EqualNullSafe | In) or given.attribute != (field.name,):
            continue
        wanted = list(given.value) if isinstance(given, In) else [given.value]
        if isinstance(given, EqualNullSafe) and given.value is None:
            continue
        # Null is neither equal to a value nor in a list of them.
        wanted = [value for value in wanted if value is not None]
        if not all(_fits(value, field.type) for value in wanted):
            continue
        distinct = list(dict.fromkeys(wanted))
        if found is None or len(distinct) < len(found):
            found = distinct
    return found


def _range(filters: list[Filter], field: "pyarrow.Field") -> tuple[Any, Any]:
    """Returns the least and the greatest value of a column; None where there is none."""
    lowest: list[Any] = []
    highest: list[Any] = []
    for given in filters:
        if (
            not isinstance(given, GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual)
            or given.attribute != (field.name,)
            or given.value is None
            or not _is_ordered(field.type)
            or not _fits(given.value, field.type)
        ):
            continue
        is_lower = isinstance(given, GreaterThan | GreaterThanOrEqual)
        (lowest if is_lower else highest).append(given.value)
    # A bound without a tuple may be a value of the first column alone.
    start = (max(lowest),) if lowest else None
    end = (min(highest),) if highest else None
    return start, end


def _is_ordered(kind: "pyarrow.DataType") -> bool:
    """Whether Spark and the keys have values of a type in the same order."""
    types = arrow().types
    ordered = (
        types.is_integer,
        types.is_string,
        types.is_binary,
        types.is_date,
        types.is_timestamp,
    )
    return any(is_one(kind) for is_one in ordered)


def _fits(value: Any, kind: "pyarrow.DataType") -> bool:
    """Whether a value is exactly one of the type, and of one that keys are found by."""
    pa = arrow()
    if pa.types.is_nested(kind):
        return False
    if isinstance(value, Decimal) and len(value.as_tuple().digits) >= _ROUNDED_DIGITS:
        return False
    try:
        return bool(pa.array([value], kind)[0].as_py() == value)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        return False
