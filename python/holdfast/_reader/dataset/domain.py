"""Which values of a column a filter can select."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast._reader.arrow import arrow, arrow_compute

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class Points:
    """Single values, all different; null may be one of them."""

    values: "pyarrow.Array"


@dataclass(frozen=True)
class Range:
    """The values from `lower` to `upper`, both included, and not null; None is no bound."""

    lower: "pyarrow.Scalar | None" = None
    upper: "pyarrow.Scalar | None" = None


Domain = Points | Range


def points(values: "pyarrow.Array") -> Points:
    """Returns single values, with 0.0 for -0.0, as in a key."""
    pa = arrow()
    if pa.types.is_floating(values.type):
        values = arrow_compute().add(values, pa.scalar(0.0, values.type))
    return Points(values.unique())


def intersection(one: Domain, other: Domain) -> Domain:
    """Returns the values that are in both."""
    compute = arrow_compute()
    if isinstance(one, Points):
        if isinstance(other, Range):
            return _within(one, other)
        return Points(one.values.filter(compute.is_in(one.values, value_set=other.values)))
    if isinstance(other, Points):
        return _within(other, one)
    lower = _preferred(compute.greater, one.lower, other.lower)
    upper = _preferred(compute.less, one.upper, other.upper)
    if lower is not None and upper is not None and compute.greater(lower, upper).as_py():
        return Points(arrow().array([], lower.type))
    return Range(lower, upper)


def _within(points_: Points, range_: Range) -> Points:
    compute, found = arrow_compute(), points_.values
    if range_.lower is not None:
        found = found.filter(compute.greater_equal(found, range_.lower))
    if range_.upper is not None:
        found = found.filter(compute.less_equal(found, range_.upper))
    return Points(found)


def union(one: Domain, other: Domain) -> Domain | None:
    """Returns a domain with all values of both; None if it would not limit the column."""
    if isinstance(one, Points) and isinstance(other, Points):
        return points(arrow().concat_arrays([one.values, other.values]))
    left, right = hull(one), hull(other)
    if left is None or right is None:
        return None
    compute = arrow_compute()
    lower = upper = None
    if left.lower is not None and right.lower is not None:
        lower = _preferred(compute.less, left.lower, right.lower)
    if left.upper is not None and right.upper is not None:
        upper = _preferred(compute.greater, left.upper, right.upper)
    return None if lower is None and upper is None else Range(lower, upper)


def hull(domain: Domain) -> Range | None:
    """Returns a range with all values of a domain; None if it has null, NaN or no value."""
    if isinstance(domain, Range):
        return domain
    values, compute = domain.values, arrow_compute()
    is_unordered = compute.is_null(values, nan_is_null=True)
    if len(values) == 0 or compute.any(is_unordered).as_py():
        return None
    ends = values.take(compute.sort_indices(values))
    return Range(ends[0], ends[-1])


def _preferred(
    is_preferred: Any, one: "pyarrow.Scalar | None", other: "pyarrow.Scalar | None"
) -> "pyarrow.Scalar | None":
    if one is None or other is None:
        return other if one is None else one
    return one if is_preferred(one, other).as_py() else other
