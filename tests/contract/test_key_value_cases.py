"""The key-value cases, each by its id (`README.md`).

Most run in one transaction, with a commit after every operation, and with a reopen after every
operation.
"""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest

import holdfast as hf

MODES = ["one transaction", "commit after each", "reopen after each"]


class Store:
    """The store under test: calls the open one, then commits or reopens as the mode requires."""

    def __init__(self, bench, mode: str) -> None:
        self.bench = bench
        self.mode = mode

    def __getattr__(self, name):
        def call(*args, **kwargs):
            result = getattr(self.bench.kv, name)(*args, **kwargs)
            if isinstance(result, hf.StoreIterator):
                result = [(key.decode(), value.decode()) for key, value in result]
            if self.mode == "commit after each":
                self.bench.db.commit()
            elif self.mode == "reopen after each":
                self.bench.reopen()
            return result

        return call

    def fill(self, rows: str) -> None:
        """`"b2 a1"`: puts b=2, then a=1."""
        for row in rows.split():
            self.put(row[:-1].encode(), row[-1:].encode())

    def rows(self, *bounds, reverse=False) -> str:
        ends = [None if bound is None else bound.encode() for bound in bounds]
        return " ".join(key + value for key, value in self.range(*ends, reverse=reverse))


@pytest.fixture(params=MODES)
def store(request, bench) -> Store:
    return Store(bench, request.param)


@pytest.fixture
def four(store) -> Store:
    store.fill("b2 a1 c3 d4")
    return store


def test_k01_counts_entries(store):
    assert store.approximate_num_entries() == 0
    store.fill("b2 a1 c3 d4")
    assert store.approximate_num_entries() == 4


def test_k02_a_range_includes_both_ends(four):
    assert four.rows("a", "c") == "a1 b2 c3"


def test_k03_none_leaves_an_end_open(four):
    assert four.rows(None, "b") == "a1 b2"
    assert four.rows("c", None) == "c3 d4"
    assert four.rows(None, None) == "a1 b2 c3 d4"


def test_k04_a_reverse_range_is_in_reverse_order(four):
    assert four.rows("a", "c", reverse=True) == "c3 b2 a1"
    assert four.rows(None, "b", reverse=True) == "b2 a1"
    assert four.rows(reverse=True) == "d4 c3 b2 a1"


def test_k05_a_range_whose_start_is_above_its_end_is_empty_with_a_warning(four, caplog):
    with caplog.at_level(logging.WARNING, logger="holdfast"):
        assert four.rows("c", "a") == ""
        assert four.rows("c", "a", reverse=True) == ""
    assert "range" in caplog.text


def test_k06_bounds_need_not_exist(four):
    assert four.rows("x", "z") == ""
    assert four.rows("bb", "cc") == "c3"


def test_k08_put_if_absent_preserves_an_existing_value(four):
    assert four.put_if_absent(b"a", b"zz") == b"1"
    assert four.get(b"a") == b"1"
    assert four.put_if_absent(b"e", b"5") is None
    assert four.get(b"e") == b"5"


def test_k09_delete_returns_the_old_value(four):
    assert four.delete(b"c") == b"3"
    assert four.delete(b"c") is None
    assert four.get(b"c") is None


def test_k10_a_null_value_deletes(four):
    four.put(b"d", None)
    assert four.get(b"d") is None
    assert four.put_if_absent(b"d", None) is None
    assert four.get(b"d") is None
    assert four.put_if_absent(b"d", b"6") is None
    assert four.get(b"d") == b"6"


@pytest.mark.parametrize("finish", ["nothing", "commit", "rollback"])
def test_k11_a_scan_is_a_snapshot_of_the_moment_it_was_opened(store, finish):
    store.fill("a1 b2 e5")
    bench = store.bench
    bench.kv.put(b"d", b"6")
    rows = bench.kv.range()
    bench.kv.put(b"zz", b"9")
    bench.kv.put(b"a", b"11")
    if finish != "nothing":
        getattr(bench.db, finish)()
    assert list(rows) == [(b"a", b"1"), (b"b", b"2"), (b"d", b"6"), (b"e", b"5")]


def test_k12_a_prefix_scan_returns_the_keys_with_the_prefix(store):
    store.fill("a1 aa2 ab3 b4")
    assert [key for key, _ in store.prefix_scan(b"a")] == ["a", "aa", "ab"]
    assert store.prefix_scan(b"q") == []


def test_k13_a_prefix_ends_before_its_successor(store):
    store.fill("abc1 abcd2 abce3")
    assert [key for key, _ in store.prefix_scan(b"abcd")] == ["abcd"]


def test_a_prefix_of_ff_bytes_scans_to_the_end(bench):
    for key in [b"\xfe", b"\xff", b"\xff\x00", b"\xff\xff", b"\xff\xff\x01"]:
        bench.kv.put(key, b"v")
    assert [key for key, _ in bench.kv.prefix_scan(b"\xff\xff")] == [b"\xff\xff", b"\xff\xff\x01"]


@pytest.mark.parametrize(
    "call",
    [
        lambda kv: kv.get(None),
        lambda kv: kv.put(None, b"v"),
        lambda kv: kv.delete(None),
        lambda kv: kv.put_if_absent(None, b"v"),
        lambda kv: kv.put_all([(b"e", b"5"), (None, b"v")]),
        lambda kv: kv.prefix_scan(None),
    ],
)
def test_k15_a_null_key_is_an_error(four, call):
    with pytest.raises(ValueError, match="store kv: the (key|prefix) is None"):
        call(four)
    assert four.rows() == "a1 b2 c3 d4"


@pytest.mark.parametrize(
    "call",
    [
        lambda b: b.kv.get(b"a"),
        lambda b: b.kv.put(b"a", b"1"),
        lambda b: b.kv.delete(b"a"),
        lambda b: b.kv.put_if_absent(b"a", b"1"),
        lambda b: b.kv.put_all([(b"a", b"1")]),
        lambda b: b.kv.range(),
        lambda b: b.kv.prefix_scan(b"a"),
        lambda b: b.kv.approximate_num_entries(),
        lambda b: b.kv.put_batch(pa.array([b"a"]), pa.array([b"1"])),
        lambda b: b.kv.get_batch(pa.array([b"a"])),
        lambda b: b.kv.delete_batch(pa.array([b"a"])),
        lambda b: b.kv.delete_range(),
        lambda b: b.kv.range_batches(),
        lambda b: b.kv.read_only(),
        lambda b: b.kv.read_only(hf.IsolationLevel.READ_UNCOMMITTED),
        lambda b: b.rates.get(b"a"),
        lambda b: b.rates.put(b"a", b"1", 1),
        lambda b: b.rates.delete(b"a", 1),
        lambda b: b.rates.versions(b"a", 0, 1),
        lambda b: b.rates.versions_range(None, None, 0, 1),
        lambda b: b.rates.scan(),
        lambda b: b.rates.put_batch(pa.array([b"a"]), pa.array([b"1"]), pa.array([1])),
        lambda b: b.rates.get_batch(pa.array([b"a"])),
        lambda b: b.rates.apply_batch(
            pa.array([True]), pa.array([b"a"]), pa.array([b"1"]), pa.array([1])
        ),
        lambda b: b.db.commit(),
        lambda b: b.db.rollback(),
        lambda b: b.db.committed_offset(("t", 0)),
        lambda b: b.db.committed_offsets(),
        lambda b: b.db.commit_requested,
        lambda b: b.db.approximate_num_uncommitted_bytes,
        lambda b: b.db.restore_batch("kv", pa.array([b"a"]), pa.array([b"1"]), None, {}),
    ],
)
def test_k16_every_call_on_a_closed_store_raises_store_closed_error(bench, call):
    bench.kv.put(b"a", b"1")
    bench.db.commit()
    bench.db.close()
    assert not bench.kv.is_open
    with pytest.raises(hf.errors.StoreClosedError, match=str(bench.path or "in memory")):
        call(bench)


def test_k16_a_closed_store_stays_closed_when_its_files_are_opened_again(bench):
    closed = bench.kv
    closed.put(b"a", b"1")
    bench.reopen()
    with pytest.raises(hf.errors.StoreClosedError):
        closed.get(b"a")
    assert bench.kv.get(b"a") == b"1"


def test_k16_a_second_close_does_nothing(bench):
    bench.db.close()
    bench.db.close()


def test_k16_an_iterator_is_closed_with_its_store(bench):
    bench.kv.put(b"a", b"1")
    bench.rates.put(b"a", b"1", 1)
    iterators = [bench.kv.range(), bench.rates.scan(), bench.rates.versions(b"a", 0, 9)]
    reader = bench.kv.range_batches()
    bench.db.close()
    for iterator in [*iterators, reader]:
        with pytest.raises(hf.errors.StoreClosedError):
            next(iterator)


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([("x", "1"), ("y", "2"), ("x", None)], {"y": "2"}),
        ([("x", "1"), ("x", None), ("x", "3")], {"x": "3"}),
    ],
)
@pytest.mark.parametrize("cut", [1, 2, 3])
def test_k18_a_restore_ends_with_the_last_record_in_any_batches(
    bench, maybe_reopen, records, expected, cut
):
    for start in range(0, len(records), cut):
        part = records[start : start + cut]
        keys, values = (pa.array(list(column), pa.binary()) for column in zip(*part, strict=True))
        bench.db.restore_batch("kv", keys, values, None, {("log", 0): start + len(part)})
        maybe_reopen()
    assert {key.decode(): value.decode() for key, value in bench.kv.read_only().range()} == expected
    assert bench.db.committed_offset(("log", 0)) == len(records)


class CountingSerde:
    """A serde of text that records what it deserializes."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []

    def serialize(self, value: str) -> bytes:
        return value.encode()

    def deserialize(self, data: bytes) -> str:
        self.seen.append(data)
        return data.decode()


@pytest.mark.parametrize("deletes", ["staged", "as the puts"])
def test_k19_the_deserialiser_never_sees_a_deleted_value(open_case, deletes):
    serde = CountingSerde()
    case = open_case(hf.stores.key_value("kv", key=CountingSerde(), value=serde))
    for key in "abc":
        case.put(key, key.upper())
    deleting = case.store if deletes == "staged" else case
    deleting.put("a", None)
    deleting.delete("b")
    serde.seen.clear()
    assert list(case.store.range()) == [("c", "C")]
    assert serde.seen == [b"C"]
