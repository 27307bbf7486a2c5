"""Moments and durations: epoch microseconds inside, `datetime` and `timedelta` accepted."""

from datetime import UTC, datetime, timedelta

Timestamp = int | datetime
"""Epoch microseconds, or an aware datetime."""
Span = int | timedelta
"""Microseconds, or a timedelta."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


def micros(moment: Timestamp, what: str) -> int:
    """Epoch microseconds of a moment; `what` names the argument in errors."""
    if isinstance(moment, datetime):
        if moment.tzinfo is None or moment.utcoffset() is None:
            raise ValueError(
                f"{what} is a datetime without a time zone ({moment!r}); give it one, e.g. "
                "tzinfo=UTC"
            )
        return (moment - _EPOCH) // _MICROSECOND
    return _int64(moment, what, "epoch microseconds (int) or an aware datetime")


def span(duration: Span, what: str) -> int:
    """Microseconds of a duration; `what` names the argument in errors."""
    if isinstance(duration, timedelta):
        duration //= _MICROSECOND
    return _int64(duration, what, "microseconds (int) or a timedelta")


def not_negative(duration: Span, what: str) -> int:
    """As `span`, for a duration that may be zero but not less."""
    length = span(duration, what)
    if length < 0:
        raise ValueError(f"{what} is {length} microseconds; it must not be negative")
    return length


def _int64(number: object, what: str, wanted: str) -> int:
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"{what} is a {type(number).__name__}; wanted: {wanted}")
    if not _INT64_MIN <= number <= _INT64_MAX:
        raise ValueError(
            f"{what} is {number}, which does not fit 64 bits of microseconds (about 292,000 years)"
        )
    return number
