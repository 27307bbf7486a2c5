"""The conversions of timestamps and durations to microseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import localcontext

import pytest

from holdfast._time import duration_micros, store_duration_micros, timestamp_micros

MAX = 2**63 - 1


@pytest.mark.parametrize(
    ("timestamp", "micros"),
    [
        (-(2**63), -(2**63)),
        (MAX, MAX),
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), -1),
        (datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), 0),
    ],
)
def test_a_timestamp_is_epoch_microseconds(timestamp, micros):
    assert timestamp_micros(timestamp, "start") == micros


@pytest.mark.parametrize(
    ("timestamp", "error", "message"),
    [
        (2**63, ValueError, "start is 9223372036854775808, which does not fit 64 bits"),
        (datetime(1970, 1, 1), ValueError, "start is a datetime without a time zone"),
        (True, TypeError, "start is a bool; wanted: epoch microseconds"),
        ("now", TypeError, "start is a str; wanted: epoch microseconds"),
        (timedelta(1), TypeError, "start is a timedelta; wanted: epoch microseconds"),
    ],
)
def test_an_invalid_timestamp_is_named(timestamp, error, message):
    with pytest.raises(error, match=message):
        timestamp_micros(timestamp, "start")


@pytest.mark.parametrize(
    ("duration", "micros"),
    [
        (timedelta(0), 0),
        (timedelta(weeks=1, microseconds=3), 604_800_000_003),
        ("1 week", 604_800_000_000),
        ("INTERVAL 1 day 2 hours", 93_600_000_000),
        ("1.5 milliseconds", 1_500),
        ("1 hour -30 minutes", 1_800_000_000),
        (f"{MAX} microseconds", MAX),
    ],
)
def test_a_duration_is_a_timedelta_or_an_interval_string(duration, micros):
    assert duration_micros(duration, "within") == micros


def test_a_duration_does_not_depend_on_the_decimal_context():
    with localcontext() as context:
        context.prec = 3
        assert duration_micros("7 days 1.000001 seconds", "within") == 604_801_000_001
        with pytest.raises(ValueError, match="is not a whole number of microseconds"):
            duration_micros("7 days 0.5 microseconds", "within")


@pytest.mark.parametrize(
    ("duration", "error", "message"),
    [
        (timedelta(-1), ValueError, "within is negative"),
        ("-1 second", ValueError, "within is negative"),
        (timedelta.max, ValueError, "within is too long"),
        (f"{MAX + 1} microseconds", ValueError, "within is too long"),
        ("", ValueError, "within is an empty string"),
        ("7", ValueError, "within='7' is not an interval"),
        ("7 fortnights", ValueError, "no unit 'fortnights'; there are microseconds, "),
        ("1 month", ValueError, "a month has no fixed length"),
        ("0.5 microseconds", ValueError, "is not a whole number of microseconds"),
        (7, TypeError, "within is a int: give a timedelta or an interval string"),
    ],
)
def test_an_invalid_duration_is_named(duration, error, message):
    with pytest.raises(error, match=message):
        duration_micros(duration, "within")


@pytest.mark.parametrize(
    ("duration", "micros"), [(0, 0), (MAX, MAX), (timedelta(days=1), 86_400 * 10**6)]
)
def test_a_duration_of_a_store_is_a_timedelta_or_microseconds(duration, micros):
    assert store_duration_micros(duration, "retention") == micros


@pytest.mark.parametrize(
    ("duration", "error", "message"),
    [
        (-1, ValueError, r"retention is negative \(-1\)"),
        (2**63, ValueError, "retention is too long"),
        (timedelta.max, ValueError, "retention is too long"),
        ("7 days", TypeError, "retention is a str; wanted: microseconds"),
        (True, TypeError, "retention is a bool; wanted: microseconds"),
    ],
)
def test_an_invalid_duration_of_a_store_is_named(duration, error, message):
    with pytest.raises(error, match=message):
        store_duration_micros(duration, "retention")
