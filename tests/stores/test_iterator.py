"""Scans row by row; the chunks that rows are fetched in are not observable."""

from __future__ import annotations

import threading

import pytest

import holdfast as hf


@pytest.fixture
def db(tmp_path):
    stores = [hf.stores.key_value("kv"), hf.stores.versioned("rates", history_retention=10**9)]
    with hf.open(tmp_path / "db", stores, durability=hf.Durability.CHANGELOG) as db:
        yield db


def key(number: int) -> bytes:
    return b"%06d" % number


@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 23, 24, 25, 2_000])
def test_a_scan_of_any_length_has_all_rows_once(db, rows):
    for number in range(rows):
        db["kv"].put(key(number), b"v%d" % number)
        db["rates"].put(key(number), b"v%d" % number, number)
        if number == rows // 2:
            db.commit()
    wanted = [(key(number), b"v%d" % number) for number in range(rows)]
    assert list(db["kv"].range()) == wanted
    assert list(db["kv"].range(reverse=True)) == wanted[::-1]
    assert [(found, record.value) for found, record in db["rates"].scan()] == wanted


def test_rows_larger_than_a_chunk_come_whole(db):
    wanted = [(key(number), bytes([number]) * 100_000) for number in range(20)]
    db["kv"].put_all(wanted)
    assert list(db["kv"].range()) == wanted


def test_peeking_at_the_next_key_does_not_advance(db):
    db["kv"].put_all([(key(number), b"") for number in range(30)])
    with db["kv"].range() as scan:
        for number in range(30):
            assert (scan.peek_next_key(), scan.peek_next_key()) == (key(number), key(number))
            assert next(scan) == (key(number), b"")
        with pytest.raises(StopIteration):
            scan.peek_next_key()


@pytest.mark.parametrize("store", ["kv", "text"])
def test_a_loop_continues_at_the_iterators_position(tmp_path, store):
    text = hf.stores.key_value("text", key=hf.serde.STRING, value=hf.serde.STRING)
    with hf.open(
        tmp_path / "other", [hf.stores.key_value("kv"), text], durability=hf.Durability.CHANGELOG
    ) as db:
        rows = [
            (key(number), b"v") if store == "kv" else (f"{number:06}", "v") for number in range(30)
        ]
        db[store].put_all(rows)
        scan, found = db[store].range(), []
        found.append(next(scan))
        for row in scan:
            found.append(row)
            if len(found) == 12:
                break
        found.append(next(scan))
        assert [*found, *scan] == rows
        scan.close()
        with pytest.raises(hf.errors.StoreClosedError):
            list(scan)


def test_an_exhausted_iterator_stays_at_its_end(db):
    db["kv"].put_all([(key(number), b"") for number in range(20)])
    scan = db["kv"].range()
    assert len(list(scan)) == 20
    db["kv"].put(key(20), b"")
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(scan)
        with pytest.raises(StopIteration):
            scan.peek_next_key()
    scan.close()
    with pytest.raises(hf.errors.StoreClosedError, match="iterator is closed"):
        next(scan)


@pytest.mark.parametrize("taken", [0, 1, 8, 20])
def test_rows_read_ahead_are_not_shown_after_the_end(db, taken):
    db["kv"].put_all([(key(number), b"") for number in range(100)])
    closed, ended = db["kv"].range(), db["kv"].range()
    for _ in range(taken):
        next(closed), next(ended)
    closed.close()
    with pytest.raises(hf.errors.StoreClosedError, match="iterator is closed"):
        next(closed)
    db.close()
    with pytest.raises(hf.errors.StoreClosedError, match="store is closed"):
        next(ended)
    with pytest.raises(hf.errors.StoreClosedError, match="store is closed"):
        ended.peek_next_key()


def test_threads_share_an_iterator_row_by_row(db):
    db["kv"].put_all([(key(number), b"") for number in range(5_000)])
    scan, found = db["kv"].range(), [[] for _ in range(4)]

    def read(rows):
        rows.extend(row for row, _ in scan)

    threads = [threading.Thread(target=read, args=(rows,)) for rows in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(row for rows in found for row in rows) == [key(number) for number in range(5_000)]
    assert all(rows == sorted(rows) for rows in found)


def test_an_iterator_that_has_raised_returns_no_further_row(tmp_path):
    store, rows = hf.stores.window("w", retention=10_000, window_size=1), 1_000
    plain = {"compression": "kNoCompression", "disable_auto_compactions": "true"}
    options = {"durability": hf.Durability.CHANGELOG, "rocksdb_options": plain}
    with hf.open(tmp_path / "db", [store], **options) as db:
        for number in range(rows):
            db["w"].put(key(number), b"value %06d" % number * 20, number)
        db.commit()
    # The scan reads keys from one table, which is intact, and values from another, where one value
    # is damaged.
    (damaged,) = [
        path for path in (tmp_path / "db").glob("*.sst") if b"value 000100" in path.read_bytes()
    ]
    damaged.write_bytes(damaged.read_bytes().replace(b"value 000100value", b"value 0001?0value", 1))
    with hf.open(tmp_path / "db", [store], **options) as db:
        scan, found = db["w"].all(), 0
        with pytest.raises(hf.errors.StoreCorruptedError):
            for _ in scan:
                found += 1
        assert found <= 100
        for _ in range(3):
            with pytest.raises(hf.errors.HoldfastError):
                next(scan)
            with pytest.raises(hf.errors.HoldfastError):
                scan.peek_next_key()
