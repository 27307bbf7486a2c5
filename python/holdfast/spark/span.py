"""Durations, as `timedelta` or as a SQL interval string."""

import re
from datetime import timedelta
from decimal import Decimal

Span = timedelta | str
"""A `timedelta`, or a SQL interval string: `"7 days"`, `"1 hour 30 minutes"`."""

_MICROS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_PART = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*([a-z]+)\s*")
_MAX = (1 << 63) - 1


def micros(span: Span, argument: str) -> int:
    """The microseconds of a span; `argument` names it in errors.

    Raises `TypeError` for what is no span, `ValueError` for one that is negative, beyond 64 bits,
    not a whole number of microseconds, or in units without a fixed length.
    """
    if isinstance(span, timedelta):
        total = span // timedelta(microseconds=1)
    elif isinstance(span, str):
        total = _parse(span, argument)
    else:
        raise TypeError(
            f"{argument} is a {type(span).__name__}: give a timedelta or an interval string "
            'such as "7 days"'
        )
    if total < 0:
        raise ValueError(f"{argument} is negative ({span}): give a duration of zero or more")
    if total > _MAX:
        raise ValueError(
            f"{argument} is too long ({span}): the longest duration is about 292,000 years"
        )
    return total


def _parse(text: str, argument: str) -> int:
    rest = text.strip().lower().removeprefix("interval ").strip()
    if not rest:
        raise ValueError(f'{argument} is an empty string: give an interval such as "7 days"')
    total = Decimal(0)
    while rest:
        part = _PART.match(rest)
        if part is None:
            raise ValueError(
                f"{argument}={text!r} is not an interval: write it like "
                '"7 days" or "1 hour 30 minutes"'
            )
        number, given = part.groups()
        unit = given.removesuffix("s")
        if unit in ("month", "year", "quarter"):
            raise ValueError(f"{argument}={text!r}: a {unit} has no fixed length; give it in days")
        if unit not in _MICROS:
            raise ValueError(
                f"{argument}={text!r}: no unit {given!r}; there are "
                f"{', '.join(unit + 's' for unit in _MICROS)}"
            )
        total += Decimal(number) * _MICROS[unit]
        rest = rest[part.end() :]
    if total != total.to_integral_value():
        raise ValueError(f"{argument}={text!r} is not a whole number of microseconds")
    return int(total)
