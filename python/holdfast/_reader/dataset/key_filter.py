"""Which values of columns a filter selects, as far as that can be determined.

A filter selects the rows for which it is true. Every rule here includes all of these rows: a part
of the filter that no rule covers limits nothing. Arrow applies the whole filter to the rows that
are read.
"""

from collections.abc import Callable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from holdfast._reader.arrow import arrow
from holdfast._reader.dataset import domain as domain_
from holdfast._reader.dataset.domain import Domain, Range
from holdfast._reader.dataset.expression import Call, Field, Literal, Node

if TYPE_CHECKING:
    import pyarrow

Selection = Mapping[str, Domain] | None
"""The values of columns, for rows that may be selected; a column that is absent is not limited.

None: no row is selected.
"""

_FLIPPED: Final = {
    "equal": "equal",
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
}


class _NotUnderstoodError(Exception):
    """A literal that cannot be converted to the column's type."""


def selection(filter_: Node, schema: "pyarrow.Schema") -> Selection:
    """Returns what a filter selects of the columns in the schema."""
    try:
        return _selection(filter_, schema)
    except (arrow().ArrowException, RecursionError):
        return {}


def _selection(node: Node, schema: "pyarrow.Schema") -> Selection:
    if isinstance(node, Literal):
        return {} if node.value.as_py() else None
    if not isinstance(node, Call):
        return {}
    if node.function in ("and", "and_kleene", "or", "or_kleene"):
        combine = _both if node.function.startswith("and") else _either
        return reduce(combine, (_selection(part, schema) for part in node.arguments))
    if node.function == "if_else":
        condition, then, otherwise = (_selection(part, schema) for part in node.arguments)
        return _either(_both(condition, then), otherwise)
    try:
        return _of_comparison(node, schema)
    except _NotUnderstoodError:
        return {}


def _of_comparison(call: Call, schema: "pyarrow.Schema") -> Selection:
    function, arguments = call.function, call.arguments
    if function in _FLIPPED and isinstance(arguments[0], Literal):
        function, arguments = _FLIPPED[function], arguments[::-1]
    column = arguments[0] if arguments else None
    if not isinstance(column, Field) or column.is_nested or column.name not in schema.names:
        return {}
    kind = schema.field(column.name).type
    found: Domain | None = None
    if function == "is_in" and call.options is not None:
        values = call.options["value_set"].values
        found = domain_.points(_converted(values, kind))
    elif function == "is_null" and call.options is not None:
        found = _nulls(kind, with_nan=call.options["nan_is_null"].as_py())
    elif function in _FLIPPED and isinstance(arguments[1], Literal):
        value = arguments[1].value
        if not value.is_valid:
            return None
        found = _compared(function, _converted(arrow().array([value], value.type), kind))
    return {} if found is None else {column.name: found}


def _compared(function: str, value: "pyarrow.Array") -> Domain:
    if function == "equal":
        return domain_.points(value)
    bound = value[0]
    if bound.as_py() != bound.as_py():
        # NaN is no bound: Arrow and a store order it differently.
        raise _NotUnderstoodError
    return Range(upper=bound) if function.startswith("less") else Range(lower=bound)


def _nulls(kind: "pyarrow.DataType", *, with_nan: bool) -> Domain:
    if _family(kind) is None:
        raise _NotUnderstoodError
    values = [None]
    if with_nan and arrow().types.is_floating(kind):
        values.append(float("nan"))  # type: ignore[arg-type]
    return domain_.points(arrow().array(values, kind))


def _converted(values: "pyarrow.Array", kind: "pyarrow.DataType") -> "pyarrow.Array":
    """Returns literals as values of the column's type.

    Only the cast of a double to a float may change a value. It keeps the order, so the result still
    selects every value of the column that the literal selects.
    """
    given, wanted = _family(values.type), _family(kind)
    if wanted is None:
        raise _NotUnderstoodError
    if values.type == kind or values.null_count == len(values):
        return values.cast(kind)
    if given != wanted and (given, wanted) not in (("integer", "float"), ("integer", "decimal")):
        raise _NotUnderstoodError
    try:
        return values.cast(kind)
    except arrow().ArrowException as error:
        # For example a number that is too large, or a fraction of a microsecond.
        raise _NotUnderstoodError from error


def _family(kind: "pyarrow.DataType") -> str | None:
    """Returns a name that types have in common if their values compare exactly."""
    types = arrow().types
    families: dict[str, Callable[[Any], bool]] = {
        "boolean": types.is_boolean,
        "integer": types.is_integer,
        "float": lambda kind: types.is_float32(kind) or types.is_float64(kind),
        "decimal": types.is_decimal,
        "text": lambda kind: types.is_string(kind) or types.is_large_string(kind),
        "binary": lambda kind: types.is_binary(kind) or types.is_large_binary(kind),
        "date": types.is_date32,
        "instant": lambda kind: types.is_timestamp(kind) and kind.tz is not None,
        "local time": lambda kind: types.is_timestamp(kind) and kind.tz is None,
    }
    return next((name for name, is_member in families.items() if is_member(kind)), None)


def _both(one: Selection, other: Selection) -> Selection:
    if one is None or other is None:
        return None
    found = {**one, **other}
    for name in one.keys() & other.keys():
        found[name] = domain_.intersection(one[name], other[name])
    return found


def _either(one: Selection, other: Selection) -> Selection:
    if one is None or other is None:
        return other if one is None else one
    unions = {name: domain_.union(one[name], other[name]) for name in one.keys() & other.keys()}
    return {name: found for name, found in unions.items() if found is not None}
