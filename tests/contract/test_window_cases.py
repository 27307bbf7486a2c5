"""The window cases, each by its id (`README.md`).

They run in one transaction, with a commit after every operation, and with a reopen after every
operation.
"""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest
from windowed import MAX, MIN

import holdfast as hf


def window(retention: int, **options) -> hf.StoreBuilder:
    return hf.stores.window("w", retention=retention, window_size=3, **options)


@pytest.fixture
def four(open_case):
    case = open_case(window(120_000))
    case.puts("a@59996=1 b@59997=2 a@59998=3 c@60001=4")
    return case


@pytest.fixture
def w11(open_case):
    """The store as W11 leaves it."""
    case = open_case(window(120))
    case.puts("a@0=x a@60=y a@119=z a@120=v")
    return case


@pytest.fixture
def w12(w11):
    w11.puts("b@0=n b@1=m")
    return w11


@pytest.fixture
def w13(w12):
    w12.puts("a@180=w")
    return w12


@pytest.fixture
def w14(w13):
    w13.puts("b@61=1 b@60=2 b@59=3")
    return w13


def test_w01_fetch_of_one_start_returns_its_value_or_none(four):
    assert four.fetch(b"a", 59998) == b"3"
    assert four.fetch(b"a", 59999) is None


def test_w02_fetch_of_a_time_range_includes_both_ends(four):
    assert four.fetch(b"a", 59993, 59999) == ["a@59996=1", "a@59998=3"]
    assert four.fetch(b"a", 59997, 59997) == []
    assert four.fetch(b"a", 0, 70000, reverse=True) == ["a@59998=3", "a@59996=1"]


def test_w03_fetch_range_selects_keys_and_times(four):
    assert four.fetch_range(b"a", b"b", 59990, 59997) == ["a@59996=1", "b@59997=2"]


def test_w04_ranges_of_keys_are_ordered_by_start_then_key(four):
    assert four.fetch_range(None, b"b", 0, 70000) == ["a@59996=1", "b@59997=2", "a@59998=3"]


def test_w05_none_leaves_an_end_open_and_a_start_above_the_end_gives_nothing(four, caplog):
    assert four.fetch_range(b"b", None, 0, 70000) == ["b@59997=2", "c@60001=4"]
    with caplog.at_level(logging.WARNING, logger="holdfast"):
        assert four.fetch_range(b"b", b"a", 0, 70000) == []
        assert four.fetch_range(b"b", b"a", 0, 70000, reverse=True) == []
    assert "range" in caplog.text


def test_w06_all_keys_in_a_time_range_are_found(four):
    assert four.fetch_range(None, None, 59997, 59998) == ["b@59997=2", "a@59998=3"]


def test_w07_all_returns_every_window_in_both_directions(four):
    rows = ["a@59996=1", "b@59997=2", "a@59998=3", "c@60001=4"]
    assert four.all() == rows
    assert four.all(reverse=True) == rows[::-1]


def test_w08_a_null_value_deletes_and_an_equal_start_replaces(four):
    four.put(b"a", None, 59998)
    assert four.all() == ["a@59996=1", "b@59997=2", "c@60001=4"]
    four.put(b"a", b"9", 59996)
    assert four.fetch(b"a", 59996) == b"9"
    assert four.all() == ["a@59996=9", "b@59997=2", "c@60001=4"]


def test_w09_a_time_range_whose_start_is_above_its_end_is_empty(four):
    assert four.fetch(b"a", 5, 4) == []
    assert four.fetch_range(None, None, 5, 4) == []


def test_w10_a_window_ends_window_size_after_its_start(four):
    with four.store.fetch(b"a", 59996, 59996) as rows:
        assert next(rows) == (hf.WindowedKey(b"a", 59996, 59999), b"1")


def test_w11_a_window_expires_retention_before_the_newest_start(w11):
    assert w11.fetch(b"a", 0) is None
    assert w11.all() == ["a@60=y", "a@119=z", "a@120=v"]


def test_w12_puts_into_expired_windows_are_dropped(w12):
    assert w12.fetch(b"b", 0) is None
    assert w12.fetch(b"b", 1) == b"m"
    assert w12.all() == ["b@1=m", "a@60=y", "a@119=z", "a@120=v"]


def test_w13_stream_time_expires_further_windows(w13):
    assert w13.all() == ["a@119=z", "a@120=v", "a@180=w"]


def test_w14_the_limit_for_puts_moves_with_stream_time(w14):
    assert (w14.fetch(b"b", 61), w14.fetch(b"b", 60), w14.fetch(b"b", 59)) == (b"1", None, None)


def test_w15_fetch_does_not_return_expired_windows(w14):
    assert w14.fetch(b"a", 0, 60) == []
    assert w14.fetch(b"a", 60) is None


def test_w17_with_duplicates_a_fetch_of_one_start_is_refused(open_case):
    case = open_case(window(120, retain_duplicates=True))
    case.puts("a@0=1 a@0=2")
    with pytest.raises(hf.errors.UnsupportedOperationError, match="range of times"):
        case.fetch(b"a", 0)
    with pytest.raises(hf.errors.UnsupportedOperationError, match="range of times"):
        case.fetch_batch(pa.array([b"a"]), pa.array([0]))
    assert case.fetch(b"a", 0, 0) == ["a@0=1", "a@0=2"]


@pytest.mark.parametrize("finish", ["nothing", "commit", "rollback"])
def test_w19_an_open_iterator_returns_windows_that_expire(open_case, finish):
    case = open_case(window(120))
    case.puts("a@0=1 b@60=2")
    case.db.commit()
    rows, of_key = case.store.all(), case.store.fetch(b"a", 0, 200)
    case.puts("a@180=3")
    {"nothing": lambda: None, "commit": case.db.commit, "rollback": case.db.rollback}[finish]()
    if case.mode != "reopen after each":  # a close ends iterators
        assert [case.row(*row) for row in rows] == ["a@0=1", "b@60=2"]
        assert [case.row(*row) for row in of_key] == ["a@0=1"]
    if finish != "rollback":
        assert case.all() == ["a@180=3"]


@pytest.mark.parametrize(
    "call",
    [
        lambda w: w.put(None, b"1", 0),
        lambda w: w.fetch(None, 0),
        lambda w: w.fetch(None, 0, 1),
        lambda w: w.put_batch(pa.array([None], pa.binary()), pa.array([b"1"]), pa.array([0])),
        lambda w: w.fetch_batch(pa.array([None], pa.binary()), pa.array([0])),
        lambda w: w.fetch_batch(pa.array([None], pa.binary()), pa.array([0]), pa.array([0])),
    ],
)
def test_w22_a_null_key_is_an_error(four, call):
    with pytest.raises(ValueError, match="key is None|row 0 of keys is null"):
        call(four)


def test_w23_dropped_records_are_counted(open_case):
    case = open_case(window(120_000))
    case.put(b"a", b"1", 240_000)
    # A reopen resets the count, so there is none in between.
    store, before = case.store, case.dropped
    store.put(b"a", b"2", 0)
    store.put(b"a", b"3", 120_001)
    assert case.dropped - before == 1
    assert case.all() == ["a@120001=3", "a@240000=1"]


def test_the_numbering_of_duplicates_continues_after_a_reopen(open_case):
    case = open_case(window(120, retain_duplicates=True))
    case.puts("b@5=1 a@5=2 b@5=3 a@4=4 b@5=3")
    case.put(b"b", None, 5)  # skipped: it does not identify a duplicate
    assert case.all() == ["a@4=4", "a@5=2", "b@5=1", "b@5=3", "b@5=3"]
    assert case.fetch(b"b", 5, 5) == ["b@5=1", "b@5=3", "b@5=3"]
    assert case.all(reverse=True) == ["b@5=3", "b@5=3", "b@5=1", "a@5=2", "a@4=4"]


def test_stream_time_survives_a_reopen(w11):
    assert w11.store.stream_time == 120
    w11.reopen()
    assert w11.store.stream_time == 120
    assert w11.fetch(b"a", 0) is None


def test_a_window_at_the_end_of_time_ends_there(open_case):
    case = open_case(window(10))
    case.put(b"a", b"1", MAX - 1)
    case.put(b"a", b"2", MAX)
    with case.store.all() as rows:
        assert [key for key, _ in rows] == [
            hf.WindowedKey(b"a", MAX - 1, MAX),
            hf.WindowedKey(b"a", MAX, MAX),
        ]
    assert case.fetch(b"a", MAX, MAX) == [f"a@{MAX}=2"]


def test_windows_at_the_least_time_are_stored_and_expire(open_case):
    case = open_case(window(10))
    case.puts(f"a@{MIN}=1 a@{MIN + 9}=2")
    assert case.all() == [f"a@{MIN}=1", f"a@{MIN + 9}=2"]
    assert case.fetch(b"a", MIN, MIN) == [f"a@{MIN}=1"]
    case.puts(f"a@{MIN + 10}=3")
    assert case.all() == [f"a@{MIN + 9}=2", f"a@{MIN + 10}=3"]


def test_negative_times_come_before_positive_ones(open_case):
    case = open_case(window(120))
    case.puts("a@5=1 a@-5=2 b@-6=3 a@0=4")
    assert case.all() == ["b@-6=3", "a@-5=2", "a@0=4", "a@5=1"]
    assert case.fetch(b"a", -5, 0) == ["a@-5=2", "a@0=4"]
