"""Converts timestamps and durations to microseconds, for stores and Spark operators.

| type            | Python values         | taken by               | to microseconds         |
| --------------- | --------------------- | ---------------------- | ----------------------- |
| `Timestamp`     | `int`, aware datetime | stores, readers, Spark | `timestamp_micros`      |
| `Duration`      | `timedelta`, `str`    | `holdfast.spark`       | `duration_micros`       |
| `StoreDuration` | `timedelta`, `int`    | `holdfast.stores`      | `store_duration_micros` |

All three functions take the value and, for errors, the name of its argument. A duration is zero or
more. All results fit a signed integer of 64 bits.
"""

import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction

Timestamp = int | datetime
"""Epoch microseconds, or an aware datetime."""
Duration = timedelta | str
"""A `timedelta`, or a SQL interval string: `"7 days"`, `"1 hour 30 minutes"`."""
StoreDuration = timedelta | int
"""A `timedelta`, or microseconds."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1

_UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_NUMBER_AND_UNIT = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*([a-z]+)\s*")


def timestamp_micros(timestamp: Timestamp, argument: str) -> int:
    """Returns the epoch microseconds of a timestamp.

    Raises `TypeError` for another type, `ValueError` for a datetime without a time zone or a number
    beyond 64 bits.

    >>> timestamp_micros(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "start")
    1000000
    """
    if isinstance(timestamp, datetime):
        if timestamp.tzinfo is None or timestamp.utcoffset() is None:
            raise ValueError(
                f"{argument} is a datetime without a time zone ({timestamp!r}); give it one, e.g. "
                "tzinfo=UTC"
            )
        return (timestamp - _EPOCH) // _MICROSECOND
    if not _is_int(timestamp):
        raise TypeError(
            f"{argument} is a {type(timestamp).__name__}; wanted: epoch microseconds (int) or an "
            "aware datetime"
        )
    if not _INT64_MIN <= timestamp <= _INT64_MAX:
        raise ValueError(
            f"{argument} is {timestamp}, which does not fit 64 bits of microseconds (about 292,000 "
            "years)"
        )
    return timestamp


def duration_micros(duration: Duration, argument: str) -> int:
    """Returns the microseconds of a `timedelta` or an interval string.

    Raises `TypeError` for another type, including integers, whose unit would be unclear, and
    `ValueError` for a text that is not an interval or a duration that is negative, beyond 64 bits,
    not a whole number of microseconds, or in units without a fixed length.

    >>> duration_micros("1 hour 30 minutes", "within")
    5400000000
    """
    if isinstance(duration, timedelta):
        return _checked(duration // _MICROSECOND, duration, argument)
    if isinstance(duration, str):
        return _checked(_parse(duration, argument), duration, argument)
    raise TypeError(
        f"{argument} is a {type(duration).__name__}: give a timedelta or an interval string "
        'such as "7 days"'
    )


def store_duration_micros(duration: StoreDuration, argument: str) -> int:
    """Returns the microseconds of a `timedelta`; a number of microseconds is returned unchanged.

    Raises `TypeError` for another type, `ValueError` for a duration that is negative or beyond 64
    bits.

    >>> store_duration_micros(timedelta(days=1), "retention")
    86400000000
    """
    if isinstance(duration, timedelta):
        return _checked(duration // _MICROSECOND, duration, argument)
    if _is_int(duration):
        return _checked(duration, duration, argument)
    raise TypeError(
        f"{argument} is a {type(duration).__name__}; wanted: microseconds (int) or a timedelta"
    )


def _is_int(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def _checked(micros: int, duration: Duration | StoreDuration, argument: str) -> int:
    if micros < 0:
        raise ValueError(f"{argument} is negative ({duration}): give a duration of zero or more")
    if micros > _INT64_MAX:
        raise ValueError(
            f"{argument} is too long ({duration}): the longest duration is about 292,000 years"
        )
    return micros


def _parse(text: str, argument: str) -> int:
    """Returns the microseconds of an interval string, which may be negative or beyond 64 bits."""
    rest = text.strip().lower().removeprefix("interval ").strip()
    if not rest:
        raise ValueError(f'{argument} is an empty string: give an interval such as "7 days"')
    total = Fraction(0)  # exact, unlike a Decimal in a context of low precision
    while rest:
        part = _NUMBER_AND_UNIT.match(rest)
        if part is None:
            raise ValueError(
                f"{argument}={text!r} is not an interval: write it like "
                '"7 days" or "1 hour 30 minutes"'
            )
        number, given = part.groups()
        unit = given.removesuffix("s")
        if unit in ("month", "year", "quarter"):
            raise ValueError(f"{argument}={text!r}: a {unit} has no fixed length; give it in days")
        if unit not in _UNITS:
            raise ValueError(
                f"{argument}={text!r}: no unit {given!r}; there are "
                f"{', '.join(unit + 's' for unit in _UNITS)}"
            )
        total += Fraction(number) * _UNITS[unit]
        rest = rest[part.end() :]
    if total.denominator != 1:
        raise ValueError(f"{argument}={text!r} is not a whole number of microseconds")
    return int(total)
