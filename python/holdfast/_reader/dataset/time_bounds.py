"""Turns the times that a filter selects into the bounds of a scan."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from holdfast._reader.arrow import arrow
from holdfast._reader.dataset.domain import Domain, hull

if TYPE_CHECKING:
    import pyarrow

Bounds = tuple[int | None, int | None]
"""The first and the last time of a scan in epoch microseconds, both included."""


def start_bounds(selected: Mapping[str, Domain], start: "pyarrow.Field") -> Bounds:
    """Returns the bounds of a scan that limits rows by their start.

    The first bound works for versions, too: a scan from it finds every version that begins at or
    after it, because a version is valid when it begins.
    """
    return _bounds(selected, start)


def overlap_bounds(
    selected: Mapping[str, Domain], start: "pyarrow.Field", end: "pyarrow.Field"
) -> Bounds:
    """Returns the bounds of a scan that finds the rows that overlap the bounds.

    A row overlaps if it ends at or after the first time, and starts at or before the last.
    """
    (first_start, last_start), (first_end, _) = _bounds(selected, start), _bounds(selected, end)
    firsts = [first for first in (first_start, first_end) if first is not None]
    return max(firsts, default=None), last_start


def _bounds(selected: Mapping[str, Domain], column: "pyarrow.Field") -> Bounds:
    domain = selected.get(column.name)
    range_ = None if domain is None else hull(domain)
    types = arrow().types
    if range_ is None or not types.is_timestamp(column.type) or column.type.unit != "us":
        return None, None
    lower, upper = range_.lower, range_.upper
    return (
        None if lower is None else lower.value,
        None if upper is None else upper.value,
    )
