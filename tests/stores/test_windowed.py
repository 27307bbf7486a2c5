"""Window and session stores: batches, timestamps, restores, bad rows, readers, and a kill."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

import holdfast as hf
from processes import running

RC, RU = hf.IsolationLevel.READ_COMMITTED, hf.IsolationLevel.READ_UNCOMMITTED
V = hf.ValueAndTimestamp
W = hf.WindowedKey

BUILDERS = [
    hf.stores.window("w", retention=100, window_size=5),
    hf.stores.window("d", retention=100, window_size=5, retain_duplicates=True),
    hf.stores.timestamped_window("t", retention=100, window_size=5),
    hf.stores.session("s", retention=100),
]


@pytest.fixture
def open_database(tmp_path):
    opened = []

    def opener(*builders, **options):
        opened.append(hf.open(tmp_path / "db", builders or BUILDERS, **options))
        return opened[-1]

    yield opener
    for db in opened:
        db.close()


@pytest.fixture
def db(open_database):
    return open_database()


def table(reader) -> list[tuple]:
    return [
        tuple(row.values())
        for row in pa.RecordBatchReader.from_stream(reader).read_all().to_pylist()
    ]


def rows(batch) -> list[tuple]:
    return [tuple(row.values()) for row in pa.record_batch(batch).to_pylist()]


KEYS = pa.array([b"b", b"a", b"a", b"c", b"a"])
STARTS = pa.array([2, 7, 1, -8, 1])
VALUES = pa.array([b"1", b"", b"3", b"4", b"5"])


def test_batches_of_windows_are_read_and_written(db):
    store = db["w"]
    store.put_batch(KEYS, VALUES, STARTS)
    in_order = [(b"c", -8, -3, b"4"), (b"a", 1, 6, b"5"), (b"b", 2, 7, b"1"), (b"a", 7, 12, b"")]
    assert table(store.all_batches()) == in_order
    assert table(store.all_batches(reverse=True, batch_rows=1)) == in_order[::-1]
    assert store.all_batches().__arrow_c_schema__() is not None
    names = pa.RecordBatchReader.from_stream(store.all_batches()).schema.names
    assert names == ["key", "window_start", "window_end", "value"]
    assert table(store.fetch_range_batches(b"a", b"b", 1, 2, batch_rows=2)) == in_order[1:3]
    assert pa.array(
        store.fetch_batch(pa.array([b"a", b"a", b"x", b"b"]), pa.array([7, 2, 7, 2]))
    ).to_pylist() == [
        b"",
        None,
        None,
        b"1",
    ]
    found = store.fetch_batch(
        pa.array([b"a", b"x", b"b", b"a"]), pa.array([0, 0, 0, 2]), pa.array([9, 9, 9, 9])
    )
    assert pa.record_batch(found).schema.names == ["row", "window_start", "window_end", "value"]
    assert rows(found) == [(0, 1, 6, b"5"), (0, 7, 12, b""), (2, 2, 7, b"1"), (3, 7, 12, b"")]
    store.put_batch(pa.array([b"a", b"b"]), pa.nulls(2), pa.array([1, 50]))
    assert table(store.all_batches()) == [in_order[0], *in_order[2:]]


def test_batches_retain_duplicates(db):
    store = db["d"]
    store.put_batch(KEYS, pa.array([b"1", None, b"3", b"4", b"5"]), STARTS)
    assert table(store.all_batches()) == [
        (b"c", -8, -3, b"4"),
        (b"a", 1, 6, b"3"),
        (b"a", 1, 6, b"5"),
        (b"b", 2, 7, b"1"),
    ]
    assert rows(store.fetch_batch(pa.array([b"a"]), pa.array([1]), pa.array([1]))) == [
        (0, 1, 6, b"3"),
        (0, 1, 6, b"5"),
    ]


def test_a_timestamped_window_has_value_and_timestamp(db):
    store = db["t"]
    store.put(b"a", b"1", datetime(1970, 1, 1, tzinfo=UTC), 44)
    store.put_batch(
        pa.array([b"b", b"a"]), pa.array([b"2", b"3"]), pa.array([0, 9]), pa.array([-5, 6])
    )
    assert store.fetch(b"a", 0) == V(b"1", 44)
    assert list(store.fetch(b"a", 0, 9)) == [
        (W(b"a", 0, 5), V(b"1", 44)),
        (W(b"a", 9, 14), V(b"3", 6)),
    ]
    assert [value for _, value in store.all()] == [V(b"1", 44), V(b"2", -5), V(b"3", 6)]
    assert rows(store.fetch_batch(pa.array([b"b", b"b"]), pa.array([0, 1]))) == [
        (b"2", -5),
        (None, None),
    ]
    assert rows(store.fetch_batch(pa.array([b"a"]), pa.array([0]), pa.array([0]))) == [
        (0, 0, 5, b"1", 44)
    ]
    assert table(store.all_batches())[1] == (b"b", 0, 5, b"2", -5)
    store.put(b"a", None, 0, 1)
    assert store.fetch(b"a", 0) is None


def test_a_timestamped_window_store_reads_the_rows_of_a_plain_one(open_database):
    plain, stamped = (
        kind("w", retention=100, window_size=5)
        for kind in (hf.stores.window, hf.stores.timestamped_window)
    )
    with open_database(plain) as db:
        db["w"].put(b"a", b"1", 10)
        db["w"].put(b"b", b"2", 10)
        db.commit()
    with open_database(stamped) as db:
        store = db["w"]
        store.put(b"b", b"22", 10, 7)
        assert list(store.all()) == [(W(b"a", 10, 15), V(b"1", -1)), (W(b"b", 10, 15), V(b"22", 7))]
        db.commit()
    with open_database(stamped) as db:
        assert [value for _, value in db["w"].all()] == [V(b"1", -1), V(b"22", 7)]
    with pytest.raises(ValueError, match='made as "timestamped_window"'):
        open_database(plain)


def test_retain_duplicates_is_fixed(open_database):
    open_database(hf.stores.window("w", retention=9, window_size=1)).close()
    with pytest.raises(ValueError, match="retain_duplicates=false"):
        open_database(hf.stores.window("w", retention=9, window_size=1, retain_duplicates=True))
    with open_database(hf.stores.window("w", retention=99, window_size=2)) as db:
        assert (db["w"].retention, db["w"].window_size, db["w"].retain_duplicates) == (
            99,
            2,
            False,
        )


def test_a_longer_retention_shows_no_part_of_a_row(open_database):
    with open_database(hf.stores.window("w", retention=10, window_size=1)) as db:
        db["w"].put_batch(pa.array([b"a"] * 50), pa.array([b"v"] * 50), pa.array(range(50)))
        db.commit()
    with open_database(hf.stores.window("w", retention=100, window_size=1)) as db:
        by_key, by_time = list(db["w"].fetch(b"a", 0, 99)), list(db["w"].all())
        assert by_time == by_key
        assert [key.start for key, _ in by_time] == list(range(40, 50))


def test_batches_of_sessions_are_read_and_written(db):
    store = db["s"]
    starts, ends = pa.array([2, 7, 1, -8, 1]), pa.array([3, 7, 9, -8, 9])
    store.put_batch(KEYS, starts, ends, VALUES)
    in_order = [(b"c", -8, -8, b"4"), (b"b", 2, 3, b"1"), (b"a", 7, 7, b""), (b"a", 1, 9, b"5")]
    reader = pa.RecordBatchReader.from_stream(
        store.find_batches(None, -100, 100, key_to=None, batch_rows=3)
    )
    assert reader.schema.names == ["key", "start", "end", "value"]
    assert [tuple(row.values()) for row in reader.read_all().to_pylist()] == in_order
    assert table(store.find_batches(b"a", 0, 100, reverse=True)) == in_order[:1:-1]
    found = store.find_batch(
        pa.array([b"a", b"x", b"a", b"c"]), pa.array([8, 0, 0, -9]), pa.array([9, 9, 9, 9])
    )
    assert pa.record_batch(found).schema.names == ["row", "start", "end", "value"]
    assert rows(found) == [(0, 1, 9, b"5"), (2, 7, 7, b""), (2, 1, 9, b"5"), (3, -8, -8, b"4")]
    values = store.fetch_session_batch(pa.array([b"a", b"a"]), pa.array([7, 7]), pa.array([7, 8]))
    assert pa.array(values).to_pylist() == [b"", None]
    store.remove_batch(pa.array([b"a", b"absent"]), pa.array([7, 0]), pa.array([7, 0]))
    store.put_batch(pa.array([b"b"]), pa.array([2]), pa.array([3]), pa.nulls(1))
    assert table(store.find_batches(None, -100, 100, key_to=None)) == [in_order[0], in_order[3]]


def test_scans_longer_than_a_chunk_have_all_rows_in_order(db):
    n = 5_000
    keys = pa.array([b"%05d" % ((i * 7919) % n) for i in range(n)])
    times = pa.array([i % 90 for i in range(n)])
    db["w"].put_batch(keys, keys, times)
    db.commit()
    db["w"].put_batch(keys[:100], pa.nulls(100), times[:100])
    rest = sorted(zip(times.to_pylist()[100:], keys.to_pylist()[100:], strict=True))
    assert [(start, key) for key, start, _, _ in table(db["w"].all_batches(batch_rows=333))] == rest
    assert [(key.start, key.key) for key, _ in db["w"].all(reverse=True)] == rest[::-1]
    inside = [row for row in rest if b"01000" <= row[1] <= b"01010"]
    assert [
        (key.start, key.key) for key, _ in db["w"].fetch_range(b"01000", b"01010", 0, 90)
    ] == inside


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda t: t["w"].put_batch(
                pa.array([b"a", None]), pa.array([b"1", b"2"]), pa.array([1, 2])
            ),
            "row 1 of keys is null",
        ),
        (
            lambda t: t["w"].put_batch(
                pa.array([b"a", b"b"]), pa.array([b"1", b"2"]), pa.array([1, None])
            ),
            "row 1 of window_starts is null",
        ),
        (
            lambda t: t["w"].put_batch(pa.array([b"a", b"b"]), pa.array([b"1"]), pa.array([1, 2])),
            "keys has 2 rows, values has 1",
        ),
        (
            lambda t: t["t"].put_batch(
                pa.array([b"a", b"b"]),
                pa.array([b"1", b"2"]),
                pa.array([1, 2]),
                pa.array([None, 1]),
            ),
            "row 0 of timestamps",
        ),
        (
            lambda t: t["s"].put_batch(
                pa.array([b"a", b"b"]), pa.array([1, 2]), pa.array([1, 1]), pa.array([b"1", b"2"])
            ),
            "row 1: the session",
        ),
        (
            lambda t: t["s"].remove_batch(
                pa.array([b"a", b"b"]), pa.array([1, 2]), pa.array([1, 1])
            ),
            "row 1: the session",
        ),
        (
            lambda t: t["s"].put_batch(
                pa.array([b"a"]), pa.array([1]), pa.array([None], pa.int64()), pa.array([b"1"])
            ),
            "row 0 of ends is null",
        ),
    ],
)
def test_an_invalid_row_leaves_nothing_written(db, call, words):
    with pytest.raises(ValueError, match=words):
        call(db)
    assert db.approximate_num_uncommitted_bytes == 0
    assert [list(db[name].all()) for name in ("w", "t")] == [[], []]
    assert list(db["s"].find_sessions(None, 0, 9, key_to=None)) == []
    db.commit()


def test_a_timestamped_batch_without_timestamps_is_refused(db):
    with pytest.raises(TypeError, match="timestamps"):
        db["t"].put_batch(pa.array([b"a"]), pa.array([b"1"]), pa.array([1]), None)
    assert list(db["t"].all()) == []


@pytest.mark.parametrize("name", ["w", "t", "s"])
def test_readers_see_their_isolation_level(db, name):
    store = db[name]
    rest = (7,) if name == "t" else ()

    def put(key, value):
        if name == "s":
            store.put(W(key, 5, 5), value)
        else:
            store.put(key, value, 5, *rest)

    def keys(store):
        scan = store.find_sessions(None, 0, 99, key_to=None) if name == "s" else store.all()
        return [key.key for key, _ in scan]

    put(b"a", b"1")
    put(b"b", b"2")
    db.commit()
    put(b"a", None)
    put(b"c", b"3")
    assert (keys(store.read_only(RC)), keys(store.read_only(RU)), keys(store)) == (
        [b"a", b"b"],
        [b"b", b"c"],
        [b"b", b"c"],
    )
    with (
        store.read_only(RU).find_sessions(None, 0, 99, key_to=None)
        if name == "s"
        else store.read_only(RU).all() as before
    ):
        assert before.peek_next_key().key == b"b"
        put(b"d", b"4")
        db.rollback()
        assert [key.key for key, _ in before] == [b"b", b"c"]
    assert keys(store) == keys(store.read_only(RU)) == [b"a", b"b"]


def test_iterators_end_with_their_database(db):
    db["w"].put(b"a", b"1", 1)
    scans = [db["w"].all(), db["w"].fetch(b"a", 0, 9), db["s"].fetch(b"a"), db["t"].all()]
    db.close()
    for scan in scans:
        with pytest.raises(hf.errors.StoreClosedError):
            next(scan)
    for call in [
        lambda: db["w"].put(b"a", b"1", 1),
        lambda: db["w"].fetch(b"a", 1),
        db["w"].all,
        lambda: db["s"].fetch_session(b"a", 1, 1),
        lambda: db["s"].put(W(b"a", 1, 1), b"1"),
        db["t"].all_batches,
    ]:
        with pytest.raises(hf.errors.StoreClosedError):
            call()


@pytest.mark.parametrize("cut", [1, 2, 5])
def test_a_restore_does_not_depend_on_its_batches(db, cut):
    keys, values, starts = (
        [b"a", b"b", b"a", b"z", b"a"],
        [b"1", b"2", b"3", b"4", None],
        [10, 90, 10, -15, 50],
    )
    sessions = [
        key + end.to_bytes(8, "big", signed=True) + (end - 3).to_bytes(8, "big", signed=True)
        for key, end in zip(keys, starts, strict=True)
    ]
    stamped = [None if value is None else (7).to_bytes(8, "big") + value for value in values]
    for at in range(0, 5, cut):
        part = slice(at, at + cut)
        k, v, t = pa.array(keys[part]), pa.array(values[part], pa.binary()), pa.array(starts[part])
        db.restore_batch("w", k, v, t, {("log", 0): at})
        db.restore_batch("d", k, v, t, {("log", 0): at})
        db.restore_batch("t", k, pa.array(stamped[part], pa.binary()), t, {("log", 0): at})
        db.restore_batch("s", pa.array(sessions[part]), v, None, {("log", 0): at})
    assert list(db["w"].read_only(RC).all()) == [(W(b"a", 10, 15), b"3"), (W(b"b", 90, 95), b"2")]
    assert list(db["d"].all()) == [
        (W(b"a", 10, 15), b"1"),
        (W(b"a", 10, 15), b"3"),
        (W(b"b", 90, 95), b"2"),
    ]
    assert list(db["t"].all()) == [(W(b"a", 10, 15), V(b"3", 7)), (W(b"b", 90, 95), V(b"2", 7))]
    assert list(db["s"].find_sessions(None, 0, 99, key_to=None)) == [
        (W(b"a", 7, 10), b"3"),
        (W(b"b", 87, 90), b"2"),
    ]
    assert {db[name].stream_time for name in "wdts"} == {90}
    # The restore skips the expired record of `z`, but does not count it as dropped.
    assert {store["dropped-records-total"] for store in db.metrics()["stores"].values()} == {0}


def test_bad_records_of_a_restore_name_the_row(db):
    with pytest.raises(ValueError, match="row 1: this is not a session's record"):
        db.restore_batch(
            "s", pa.array([b"a" + bytes(16), b"short"]), pa.array([b"1", b"2"]), None, {}
        )
    with pytest.raises(ValueError, match="row 1: the value has 3 bytes"):
        db.restore_batch(
            "t", pa.array([b"a", b"b"]), pa.array([bytes(8), b"abc"]), pa.array([1, 2]), {}
        )
    with pytest.raises(ValueError, match="window store needs timestamps"):
        db.restore_batch("w", pa.array([b"a"]), pa.array([b"1"]), None, {})
    with pytest.raises(ValueError, match="session store takes no timestamps"):
        db.restore_batch("s", pa.array([bytes(16)]), pa.array([b"1"]), pa.array([1]), {})
    assert list(db["t"].all()) == []


def test_keys_and_values_pass_through_their_serdes(open_database):
    class Text:
        def serialize(self, value):
            return value.encode()

        def deserialize(self, data):
            return data.decode()

    options = {"retention": timedelta(hours=1), "key": Text(), "value": Text()}
    db = open_database(
        hf.stores.window("w", window_size=timedelta(minutes=5), **options),
        hf.stores.session("s", **options),
    )
    db["w"].put("a", "x", datetime(2026, 11, 21, tzinfo=UTC))
    ((key, value),) = db["w"].all()
    assert (key.key, key.end - key.start, value) == ("a", 300_000_000, "x")
    db["s"].put(W("a", 1, 2), "y")
    with db["s"].fetch("a") as sessions:
        assert sessions.peek_next_key() == W("a", 1, 2)
        assert next(sessions) == (W("a", 1, 2), "y")


@pytest.mark.parametrize(
    ("make", "arguments", "named"),
    [
        (hf.stores.window, {"retention": -1, "window_size": 0}, r"retention is negative \(-1\)"),
        (hf.stores.window, {"retention": 5, "window_size": -1}, r"window_size is negative \(-1\)"),
        (hf.stores.window, {"retention": 5, "window_size": 6}, "window_size is 6"),
        (
            hf.stores.window,
            {"retention": 2**63, "window_size": 6},
            r"retention is too long \(9223372036854775808\)",
        ),
        (
            hf.stores.timestamped_window,
            {"retention": timedelta.max, "window_size": 6},
            "retention is",
        ),
        (
            hf.stores.timestamped_window,
            {"retention": 5, "window_size": timedelta(1)},
            "window_size is",
        ),
        (hf.stores.session, {"retention": -1}, r"retention is negative \(-1\)"),
        (hf.stores.session, {"retention": 2**63}, "retention is"),
    ],
)
def test_bad_durations_name_the_argument(make, arguments, named):
    with pytest.raises(ValueError, match=named):
        make("w", **arguments)


@pytest.mark.crash
@pytest.mark.parametrize("durability", list(hf.Durability))
def test_a_kill_loses_no_window_of_an_older_time(open_database, tmp_path, durability):
    """Late records survive a kill.

    Kafka Streams has one database per segment but only the offset of the newest, so it loses late
    records of an older segment (case SX1).
    """
    script = """
    path, durability = sys.argv[1:]
    # Without a log, small memtables make rows durable while the writer continues.
    db = hf.open(
        path,
        [hf.stores.window("w", retention=2_000_000, window_size=1)],
        durability=hf.Durability(durability),
        rocksdb_options={"write_buffer_size": "65536"},
    )
    offset = 0
    while True:
        for start in (10, 1_500_000):
            starts = pa.array(range(start + offset, start + offset + 500))
            values = pa.array([b"%d" % n for n in range(500)])
            db["w"].put_batch(pa.array([b"k"] * 500), values, starts)
        offset += 500
        db.commit({("log", 0): offset})
        print(offset, flush=True)
    """
    with running(script, tmp_path / "db", durability.value) as process:
        acknowledged = 0
        while acknowledged < 20_000:
            acknowledged = int(process.stdout.readline())
        process.kill()
        process.wait()
    db = open_database(
        hf.stores.window("w", retention=2_000_000, window_size=1), durability=durability
    )
    offset = db.committed_offset(("log", 0)) or 0
    assert offset >= acknowledged if durability is hf.Durability.SYNC else offset > 0
    starts = [key.start for key, _ in db["w"].all()]
    assert starts == [*range(10, 10 + offset), *range(1_500_000, 1_500_000 + offset)]
    assert [key.start for key, _ in db["w"].fetch(b"k", 0, 2_000_000)] == starts


@pytest.mark.parametrize("kind", ["window", "session"])
def test_a_longer_retention_does_not_restore_expired_rows(tmp_path, kind):
    def opened(retention):
        more = {"window_size": 1} if kind == "window" else {}
        return hf.open(
            tmp_path / "db", [getattr(hf.stores, kind)("s", retention=retention, **more)]
        )

    def put(store, at):
        store.put(b"k", b"v", at) if kind == "window" else store.put(
            hf.WindowedKey(b"k", at, at), b"v"
        )

    def starts(store):
        found = (
            store.all() if kind == "window" else store.find_sessions(None, 0, 10_000, key_to=None)
        )
        one = (
            (at for at in range(0, 301, 50) if store.fetch(b"k", at) is not None)
            if kind == "window"
            else (at for at in range(0, 301, 50) if store.fetch_session(b"k", at, at) is not None)
        )
        times = [key.start for key, _ in found]
        assert list(one) == times
        return times

    with opened(100) as db:
        for at in (0, 100, 150, 200):
            put(db["s"], at)
        db.commit()
        assert starts(db["s"]) == [150, 200]
    for _ in range(2):
        with opened(1_000) as db:
            assert starts(db["s"]) == [150, 200]
            put(db["s"], 50)
            assert starts(db["s"]) == [150, 200]
    with opened(1_000) as db:
        put(db["s"], 300)
        db.commit()
        assert starts(db["s"]) == [150, 200, 300]
