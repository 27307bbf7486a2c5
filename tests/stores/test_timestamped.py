"""The timestamped key-value store, and the rows of a former plain store of the same name."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

import holdfast as hf

RC, RU = hf.IsolationLevel.READ_COMMITTED, hf.IsolationLevel.READ_UNCOMMITTED
V = hf.ValueAndTimestamp


@pytest.fixture
def open_database(tmp_path):
    opened = []

    def opener(*builders, **options):
        opened.append(hf.open(tmp_path / "db", builders, **options))
        return opened[-1]

    yield opener
    for db in opened:
        db.close()


@pytest.fixture
def db(open_database):
    return open_database(hf.stores.timestamped_key_value("t"))


@pytest.fixture
def upgraded(open_database):
    """a1 b2 c3 d4 of a plain store, opened with timestamps."""
    with open_database(hf.stores.key_value("t")) as db:
        db["t"].put_all([(b"a", b"1"), (b"b", b"2"), (b"c", b"3"), (b"d", b"4")])
        db.commit()
    return open_database(hf.stores.timestamped_key_value("t"))


def test_make_converts_times_and_a_null_value():
    moment = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert V.make(None, 5) is None
    assert V.make(b"1", moment) == (b"1", 1_000_000)
    assert V.make_allow_nullable(None, 5) == (None, 5)


@pytest.mark.parametrize("between", ["nothing", "commit", "reopen"])
def test_scalar_methods_agree_before_and_after_a_commit_and_a_reopen(open_database, between):
    builder = hf.stores.timestamped_key_value("t")
    db = open_database(builder)

    def store():
        nonlocal db
        if between != "nothing":
            db.commit()
        if between == "reopen":
            db.close()
            db = open_database(builder)
        return db["t"]

    store().put(b"b", b"2", -20)
    store().put(b"b", b"22", datetime(1970, 1, 1, tzinfo=UTC))
    store().put_all([(b"a", b"1", 10), (b"c", b"3", 30), (b"ab", b"", 15), (b"c", None, 31)])
    assert store().get(b"b") == V(b"22", 0)
    assert store().get(b"c") is None
    assert store().put_if_absent(b"a", b"x", 99) == V(b"1", 10)
    assert store().put_if_absent(b"d", b"4", 40) is None
    assert list(store().range()) == [
        (b"a", V(b"1", 10)),
        (b"ab", V(b"", 15)),
        (b"b", V(b"22", 0)),
        (b"d", V(b"4", 40)),
    ]
    assert [key for key, _ in store().range(b"ab", b"b", reverse=True)] == [b"b", b"ab"]
    assert [key for key, _ in store().prefix_scan(b"a")] == [b"a", b"ab"]
    assert store().approximate_num_entries() >= 4
    assert store().delete(b"a") == V(b"1", 10)
    assert store().delete(b"a") is None
    with store().range() as rows:
        assert rows.peek_next_key() == b"ab"
        assert next(rows) == (b"ab", V(b"", 15))


def test_batches_put_get_scan_and_delete(db):
    store = db["t"]
    store.put(b"c", b"old", 1)
    store.put_batch(
        pa.array([b"a", b"b", b"c"]), pa.array([b"1", b"", None]), pa.array([10, -1, 30])
    )
    found = pa.record_batch(store.get_batch(pa.array([b"b", b"x", b"a", b"c"])))
    assert found.to_pydict() == {
        "value": [b"", None, b"1", None],
        "timestamp": [-1, None, 10, None],
    }
    rows = pa.RecordBatchReader.from_stream(store.range_batches(batch_rows=1)).read_all()
    assert rows.to_pydict() == {"key": [b"a", b"b"], "value": [b"1", b""], "timestamp": [10, -1]}
    backward = pa.RecordBatchReader.from_stream(
        store.range_batches(b"a", b"a", reverse=True)
    ).read_all()
    assert backward.column("key").to_pylist() == [b"a"]
    store.delete_batch(pa.array([b"a", b"x"]))
    assert list(store.range()) == [(b"b", V(b"", -1))]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda s: s.put_batch(pa.array([b"a", None]), pa.array([b"1", b"2"]), pa.array([1, 2])),
            "row 1 of keys is null",
        ),
        (
            lambda s: s.put_batch(
                pa.array([b"a", b"b"]), pa.array([b"1", b"2"]), pa.array([1, None])
            ),
            "row 1 of timestamps is null",
        ),
        (
            lambda s: s.put_batch(pa.array([b"a", b"b"]), pa.array([b"1", b"2"]), pa.array([1])),
            "keys has 2 rows, timestamps has 1",
        ),
        (lambda s: s.put_all([(b"a", b"1", 1), (b"b", b"2", 2**63)]), "timestamp is"),
        (lambda s: s.put_all([(b"a", b"1", 1), (None, b"2", 2)]), "key is None"),
    ],
)
def test_an_invalid_row_leaves_nothing_written(db, call, words):
    with pytest.raises(ValueError, match=words):
        call(db["t"])
    assert list(db["t"].range()) == []
    db.commit()


def test_readers_see_their_isolation_level(db):
    store = db["t"]
    store.put(b"a", b"1", 1)
    db.commit()
    store.put(b"a", b"2", 2)
    assert (store.read_only(RC).get(b"a"), store.read_only(RU).get(b"a")) == (
        V(b"1", 1),
        V(b"2", 2),
    )
    rows = store.read_only(RU).range()
    db.rollback()
    assert list(rows) == [(b"a", V(b"2", 2))]
    assert store.get(b"a") == V(b"1", 1)


def test_a_restore_ends_with_the_last_record_of_each_key(db):
    db.restore_batch(
        "t",
        pa.array([b"a", b"b", b"a"]),
        pa.array([b"1", b"2", b"3"]),
        pa.array([1, 2, 3]),
        {("log", 0): 7},
    )
    db.restore_batch(
        "t", pa.array([b"b"]), pa.array([None], pa.binary()), pa.array([4]), {("log", 0): 8}
    )
    assert list(db["t"].range()) == [(b"a", V(b"3", 3))]
    assert db.committed_offset(("log", 0)) == 8
    with pytest.raises(ValueError, match="timestamped_key_value store needs timestamps"):
        db.restore_batch("t", pa.array([b"a"]), pa.array([b"1"]), None, {})


def test_rows_of_a_plain_store_have_no_timestamp(upgraded):
    store = upgraded["t"]
    assert store.get(b"a") == V(b"1", -1)
    assert list(store.range(b"b", b"c")) == [(b"b", V(b"2", -1)), (b"c", V(b"3", -1))]
    assert pa.record_batch(store.get_batch(pa.array([b"a", b"x"]))).to_pydict() == {
        "value": [b"1", None],
        "timestamp": [-1, None],
    }


def test_rows_of_a_plain_store_count_in_the_metrics(upgraded):
    assert upgraded.metrics()["stores"]["t"]["rows"] == 4


def test_rows_of_a_plain_store_move_as_they_are_written(upgraded, open_database):
    store = upgraded["t"]
    store.put(b"c", b"33", 33)
    store.put(b"bb", b"5", 5)
    assert store.delete(b"d") == V(b"4", -1)
    assert store.put_if_absent(b"a", b"x", 9) == V(b"1", -1)
    expected = [(b"a", V(b"1", -1)), (b"b", V(b"2", -1)), (b"bb", V(b"5", 5)), (b"c", V(b"33", 33))]
    assert list(store.range()) == expected
    assert list(store.range(reverse=True)) == expected[::-1]
    assert list(store.prefix_scan(b"b")) == expected[1:3]
    assert list(store.read_only(RC).range()) == [
        (key.encode(), V(value.encode(), -1)) for key, value in ("a1", "b2", "c3", "d4")
    ]
    upgraded.rollback()
    assert [value for _, value in store.range()] == [
        V(b"1", -1),
        V(b"2", -1),
        V(b"3", -1),
        V(b"4", -1),
    ]
    for n, key in enumerate([b"a", b"b", b"c", b"d"]):
        store.put(key, b"new", n)
    upgraded.commit()
    upgraded.close()
    again = open_database(hf.stores.timestamped_key_value("t"))["t"]
    assert [value.timestamp for _, value in again.range()] == [0, 1, 2, 3]


def test_a_timestamped_store_cannot_become_a_plain_one(upgraded, open_database):
    upgraded.close()
    with pytest.raises(
        ValueError, match='made as "timestamped_key_value" and is now asked for as "key_value"'
    ):
        open_database(hf.stores.key_value("t"))


def test_a_wrong_time_names_the_argument(db):
    with pytest.raises(TypeError, match="timestamp is a str"):
        db["t"].put(b"a", b"1", "now")
    with pytest.raises(ValueError, match="without a time zone"):
        db["t"].put(b"a", b"1", datetime(2026, 1, 1))
