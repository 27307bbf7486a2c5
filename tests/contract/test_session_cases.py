"""The session cases, each by its id (`README.md`).

They run in one transaction, with a commit after every operation, and with a reopen after every
operation.
"""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest
from windowed import MAX

import holdfast as hf


@pytest.fixture
def empty(open_case):
    return open_case(hf.stores.session("s", retention=10_000))


@pytest.fixture
def four(empty):
    empty.puts("a[0,0]=1 a[10,20]=2 aa[5,15]=3 b[30,40]=4")
    return empty


def session(key: bytes, start: int, end: int) -> hf.WindowedKey[bytes]:
    return hf.WindowedKey(key, start, end)


def test_s01_find_sessions_returns_the_sessions_of_a_key(four):
    assert four.find_sessions(b"a", 0, 100) == ["a[0,0]=1", "a[10,20]=2"]


def test_s03_a_time_range_without_sessions_is_empty(four):
    assert four.find_sessions(b"a", 21, 100) == []
    assert four.find_sessions(b"a", 20, 9) == []


def test_s04_find_sessions_in_reverse(four):
    assert four.find_sessions(b"a", 0, 100, reverse=True) == ["a[10,20]=2", "a[0,0]=1"]


def test_s05_a_range_of_keys_is_ordered_by_end_then_key(four):
    assert four.find_sessions(b"a", 0, 100, key_to=b"aa") == [
        "a[0,0]=1",
        "aa[5,15]=3",
        "a[10,20]=2",
    ]
    assert four.find_sessions(b"a", 0, 100, key_to=b"aa", reverse=True) == [
        "a[10,20]=2",
        "aa[5,15]=3",
        "a[0,0]=1",
    ]


def test_s06_none_leaves_an_end_open_and_a_start_above_the_end_gives_nothing(four, caplog):
    all_rows = ["a[0,0]=1", "aa[5,15]=3", "a[10,20]=2", "b[30,40]=4"]
    assert four.find_sessions(None, 0, MAX, key_to=None) == all_rows
    assert four.find_sessions(b"aa", 0, MAX, key_to=None) == ["aa[5,15]=3", "b[30,40]=4"]
    assert four.find_sessions(None, 0, MAX, key_to=b"aa") == all_rows[:3]
    with caplog.at_level(logging.WARNING, logger="holdfast"):
        assert four.find_sessions(b"b", 0, MAX, key_to=b"a") == []
    assert "range" in caplog.text


def test_s07_fetch_session_needs_the_exact_start_and_end(four):
    assert four.fetch_session(b"a", 10, 20) == b"2"
    assert four.fetch_session(b"a", 10, 21) is None


def test_s08_fetch_returns_all_sessions_of_a_range_of_keys(four):
    assert four.fetch(b"a") == ["a[0,0]=1", "a[10,20]=2"]
    assert four.fetch(b"a", b"b") == ["a[0,0]=1", "aa[5,15]=3", "a[10,20]=2", "b[30,40]=4"]
    assert four.fetch(b"a", reverse=True) == ["a[10,20]=2", "a[0,0]=1"]


@pytest.fixture
def s09(four):
    four.remove(session(b"a", 10, 20))
    four.put(session(b"b", 30, 40), None)
    return four


def test_s09_remove_and_a_put_of_null_delete_a_session(s09):
    assert s09.fetch(b"a") == ["a[0,0]=1"]
    assert s09.fetch(b"b") == []
    s09.remove(session(b"a", 10, 20))
    s09.remove(session(b"never", 1, 2))
    assert s09.fetch(b"a") == ["a[0,0]=1"]


def test_s10_all_keys_of_a_time_range_are_found(s09):
    assert s09.find_sessions(None, 0, 20, key_to=None) == ["a[0,0]=1", "aa[5,15]=3"]


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.put(session(None, 0, 1), b"1"),
        lambda s: s.remove(session(None, 0, 1)),
        lambda s: s.find_sessions(None, 0, 1),
        lambda s: s.fetch(None),
        lambda s: s.fetch_session(None, 0, 1),
        lambda s: s.put_batch(
            pa.array([None], pa.binary()), pa.array([0]), pa.array([1]), pa.array([b"1"])
        ),
        lambda s: s.find_batch(pa.array([None], pa.binary()), pa.array([0]), pa.array([1])),
    ],
)
def test_s11_a_null_key_is_an_error(four, call):
    with pytest.raises(ValueError, match="key is None|row 0 of keys is null"):
        call(four)


def test_s13_retention_is_counted_from_the_end(empty):
    empty.puts("a[0,0]=1 a[0,5]=2 b[10,10000]=3")
    assert empty.find_sessions(b"a", 0, MAX, key_to=b"b") == ["a[0,5]=2", "b[10,10000]=3"]


def test_s15_negative_times_are_valid_bounds(empty):
    empty.puts("k[0,0]=1 k[1000,1000]=2")
    assert empty.find_sessions(b"k", -1, 1000) == ["k[0,0]=1", "k[1000,1000]=2"]


def test_expired_rows_are_dropped_and_counted(empty):
    empty.puts("a[0,20000]=1")
    store, before = empty.store, empty.dropped
    store.put(session(b"a", 0, 10_000), b"2")
    store.put(session(b"a", 0, 10_001), b"3")
    assert empty.dropped - before == 1
    assert empty.fetch(b"a") == ["a[0,10001]=3", "a[0,20000]=1"]


def test_sessions_of_one_end_are_ordered_by_key_then_start(empty):
    empty.puts("b[-5,7]=1 a[3,7]=2 a[-1,7]=3 a[0,6]=4")
    assert empty.find_sessions(None, 0, MAX, key_to=None) == [
        "a[0,6]=4",
        "a[-1,7]=3",
        "a[3,7]=2",
        "b[-5,7]=1",
    ]
    assert empty.fetch(b"a") == ["a[0,6]=4", "a[-1,7]=3", "a[3,7]=2"]


def test_a_session_that_ends_before_it_starts_is_an_error(empty):
    with pytest.raises(ValueError, match="starts at 5 and ends at 4"):
        empty.store.put(session(b"a", 5, 4), b"1")
    keys, values = pa.array([b"a", b"a"]), pa.array([b"1", b"2"])
    with pytest.raises(ValueError, match="row 1: the session starts at 5 and ends at 4"):
        empty.store.put_batch(keys, pa.array([0, 5]), pa.array([1, 4]), values)
    assert empty.fetch(b"a") == []
    empty.puts("a[1,2]=3")
    empty.db.commit()  # the failed batch did not poison the transaction
    assert empty.fetch(b"a") == ["a[1,2]=3"]
