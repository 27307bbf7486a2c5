"""A row that Spark reads and drops: it carries the counts that a task reports to the driver."""

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as kinds

_VALUES: Final[tuple[tuple[Callable[[pa.DataType], bool], Any], ...]] = (
    (kinds.is_nested, []),
    (kinds.is_null, None),
    (kinds.is_string, ""),
    (kinds.is_large_string, ""),
    (kinds.is_binary, b""),
    (kinds.is_large_binary, b""),
    (kinds.is_boolean, False),
    (kinds.is_interval, (0, 0, 0)),
)
"""A value for each kind of type that does not take the number 0."""


def filler(schema: pa.Schema) -> pa.RecordBatch:
    """Returns one row without nulls: Spark reads NOT NULL columns without a check."""
    columns = [pa.array([_value(field.type)], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _value(kind: pa.DataType) -> Any:
    if kinds.is_struct(kind):
        return {field.name: _value(field.type) for field in kind}
    return next((value for is_kind, value in _VALUES if is_kind(kind)), 0)
