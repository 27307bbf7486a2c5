"""The builders: defaults, and errors that name invalid arguments."""

from __future__ import annotations

from datetime import timedelta

import pytest

import holdfast as hf

SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND


@pytest.mark.parametrize(
    ("retention", "interval"),
    [
        (0, 2 * SECOND),
        (6 * SECOND, 2 * SECOND),
        (60 * SECOND, 20 * SECOND),
        (61 * SECOND, 20 * SECOND),
        (5 * MINUTE, 60 * SECOND),
        (6 * MINUTE, MINUTE),
        (HOUR, 5 * MINUTE),
        (2 * HOUR, 5 * MINUTE),
        (30 * DAY, 30 * HOUR),
    ],
)
def test_the_default_segment_interval_follows_from_the_retention(retention, interval):
    assert hf.stores.versioned("rates", history_retention=retention).segment_interval == interval


def test_durations_are_microseconds_or_timedeltas():
    store = hf.stores.versioned(
        "rates", history_retention=timedelta(days=1), segment_interval=timedelta(milliseconds=1)
    )
    assert (store.history_retention, store.segment_interval) == (DAY, 1_000)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"history_retention": -1}, "history_retention"),
        ({"history_retention": timedelta(days=-1)}, "history_retention"),
        ({"history_retention": 2**63}, "history_retention"),
        ({"history_retention": timedelta.max}, "history_retention"),
        ({"history_retention": 1, "segment_interval": 0}, "segment_interval"),
        ({"history_retention": 1, "segment_interval": -5}, "segment_interval"),
        ({"history_retention": 1, "segment_interval": timedelta.max}, "segment_interval"),
    ],
)
def test_bad_durations_name_the_argument(arguments, named):
    with pytest.raises(ValueError, match=named):
        hf.stores.versioned("rates", **arguments)


@pytest.mark.parametrize("wrong", ["7 days", 1.5, True, None])
def test_a_duration_of_another_type_names_the_argument(wrong):
    with pytest.raises(TypeError, match="history_retention is a"):
        hf.stores.versioned("rates", history_retention=wrong)


@pytest.mark.parametrize("name", ["", "a\0b", "a/b", "a b", "é", "a\n", "a" * 201])
def test_a_name_that_files_cannot_have_is_refused(name):
    with pytest.raises(ValueError, match="letters, digits"):
        hf.stores.key_value(name)


@pytest.mark.parametrize("limit", [-2, 2**63])
def test_the_limit_of_uncommitted_bytes_is_checked(tmp_path, limit):
    with pytest.raises(ValueError, match="uncommitted_max_bytes"):
        hf.open(tmp_path / "db", [hf.stores.key_value("kv")], uncommitted_max_bytes=limit)
    assert not (tmp_path / "db").exists()


def test_a_store_in_memory_does_not_record_its_serdes(tmp_path):
    for key in (hf.serde.STRING, hf.serde.INT64):
        with hf.open(tmp_path / "db", [hf.stores.key_value("kv", key=key, persistent=False)]) as db:
            db.commit()
