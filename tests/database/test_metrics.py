"""`Database.metrics`: what it counts, its names, and the same for Prometheus."""

from __future__ import annotations

import random
import re
from datetime import timedelta
from pathlib import Path
from typing import NotRequired, get_origin

import pyarrow as pa
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import holdfast as hf
from holdfast.metrics import DatabaseMetrics, StoreMetrics

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
PAGE = (Path(__file__).parents[2] / "docs/metrics.md").read_text()
BUILDERS = [
    hf.stores.key_value("kv"),
    hf.stores.timestamped_key_value("stamped"),
    hf.stores.versioned("versioned", history_retention=HOUR, segment_interval=MINUTE),
    hf.stores.window("window", retention=HOUR, window_size=MINUTE),
    hf.stores.timestamped_window("stamped_window", retention=HOUR, window_size=MINUTE),
    hf.stores.session("session", retention=HOUR),
]
SECOND = 1_000_000
LATE = 7_200 * SECOND


def open_database(path, level=hf.MetricsLevel.INFO):
    return hf.open(path, BUILDERS, metrics_level=level)


@pytest.fixture(params=[hf.MetricsLevel.INFO, hf.MetricsLevel.DEBUG], ids=["info", "debug"])
def db(request, tmp_path):
    with open_database(tmp_path / "db", request.param) as db:
        yield db


@pytest.fixture
def debug(tmp_path):
    with open_database(tmp_path / "db", hf.MetricsLevel.DEBUG) as db:
        yield db


def counts(db, store):
    """Returns a store's counts of calls and records that are not 0."""
    figures = db.metrics()["stores"][store]
    ours = {
        name: value
        for name, value in figures.items()
        if name.endswith("-total") and not name.startswith("commit-")
    }
    return {name.removesuffix("-total"): value for name, value in ours.items() if value}


# --- what is counted
# --------------------------------------------------------------------------------------------------


def test_each_call_on_a_key_value_store_is_counted_once(db):
    kv = db["kv"]
    kv.put(b"a", b"1")
    kv.put(b"b", b"2")
    kv.put_if_absent(b"c", b"3")
    kv.put_all([(b"d", b"4"), (b"e", None), (b"f", b"6")])
    kv.delete(b"a")
    kv.get(b"b")
    kv.read_only(hf.IsolationLevel.READ_COMMITTED).get(b"b")
    list(kv.range(b"a", b"c"))
    list(kv.range())
    list(kv.prefix_scan(b"a"))
    kv.put_batch(pa.array([b"g", b"h"]), pa.array([b"7", None]))
    kv.get_batch(pa.array([b"g", b"h", b"i"]))
    kv.delete_batch(pa.array([b"g"]))
    list(kv.range_batches(b"a"))
    kv.delete_range(b"x", b"y")
    assert counts(db, "kv") == {
        "put": 2,
        "put-if-absent": 1,
        "put-all": 1,
        "put-all-records": 3,
        "delete": 1,
        "get": 2,
        "range": 2,
        "all": 1,
        "prefix-scan": 1,
        "put-batch": 1,
        "put-batch-records": 2,
        "get-batch": 1,
        "get-batch-records": 3,
        "delete-batch": 1,
        "delete-batch-records": 1,
        "delete-range": 1,
    }


def test_each_call_on_a_timestamped_store_is_counted_once(db):
    store = db["stamped"]
    store.put(b"a", b"1", 1)
    store.put_if_absent(b"b", b"2", 1)
    store.delete(b"a")
    store.get(b"b")
    list(store.range(b"a", b"c"))
    list(store.range())
    list(store.prefix_scan(b"a"))
    store.put_batch(pa.array([b"g", b"h"]), pa.array([b"7", None]), pa.array([1, 2]))
    store.get_batch(pa.array([b"g", b"h", b"i"]))
    store.delete_batch(pa.array([b"g"]))
    assert counts(db, "stamped") == {
        "put": 1,
        "put-if-absent": 1,
        "delete": 1,
        "get": 1,
        "range": 1,
        "all": 1,
        "prefix-scan": 1,
        "put-batch": 1,
        "put-batch-records": 2,
        "get-batch": 1,
        "get-batch-records": 3,
        "delete-batch": 1,
        "delete-batch-records": 1,
    }


@pytest.mark.parametrize("kind", [hf.stores.key_value, hf.stores.timestamped_key_value])
def test_a_prefix_scan_of_struct_keys_is_counted_as_one(kind):
    key = hf.serde.struct(pa.schema([("a", pa.string()), ("b", pa.int64())]))
    with hf.open(None, [kind("s", key=key)]) as db:
        list(db["s"].prefix_scan(("x",)))
        assert counts(db, "s") == {"prefix-scan": 1}


def test_each_call_on_a_versioned_store_is_counted_once(db):
    store = db["versioned"]
    store.put(b"a", b"1", LATE)
    assert not store.put(b"a", b"0", 0).accepted
    store.delete(b"a", LATE + 5)
    store.get(b"a")
    store.get(b"a", as_of=LATE)
    assert store.get(b"a", as_of=0) is None
    list(store.versions(b"a", 0, LATE))
    list(store.versions_range(None, None, 0, LATE))
    list(store.scan())
    store.put_batch(pa.array([b"b", b"c"]), pa.array([b"1", b"2"]), pa.array([LATE, LATE]))
    store.get_batch(pa.array([b"b", b"c", b"d"]), as_of=pa.array([LATE] * 3))
    store.apply_batch(
        pa.array([True, False]),
        pa.array([b"b", b"c"]),
        pa.array([b"1", b"2"]),
        pa.array([LATE, LATE]),
    )
    assert counts(db, "versioned") == {
        "put": 2,
        "delete": 1,
        "get": 3,
        "versions": 1,
        "versions-range": 1,
        "scan": 1,
        "put-batch": 1,
        "put-batch-records": 2,
        "get-batch": 1,
        "get-batch-records": 3,
        "apply-batch": 1,
        "apply-batch-records": 2,
        "dropped-records": 1,
        "expired-reads": 1,
    }


def test_each_call_on_window_and_session_stores_is_counted_once(db):
    window, session = db["window"], db["session"]
    window.put(b"a", b"1", LATE)
    window.put(b"a", b"1", 0)
    window.fetch(b"a", LATE)
    list(window.fetch_range(b"a", b"b", LATE, LATE))
    list(window.all())
    window.put_batch(pa.array([b"a", b"b"]), pa.array([b"1", b"2"]), pa.array([LATE, LATE]))
    window.fetch_batch(pa.array([b"a"]), pa.array([LATE]))
    window.fetch_batch(pa.array([b"a", b"b"]), pa.array([LATE, LATE]), pa.array([LATE, LATE]))
    assert counts(db, "window") == {
        "put": 2,
        "fetch": 2,
        "all": 1,
        "put-batch": 1,
        "put-batch-records": 2,
        "fetch-batch": 2,
        "fetch-batch-records": 3,
        "dropped-records": 1,
        "expired-window-record-drop": 1,
    }
    session.put(hf.WindowedKey(b"a", LATE, LATE), b"1")
    session.remove(hf.WindowedKey(b"a", LATE, LATE))
    session.fetch_session(b"a", LATE, LATE)
    list(session.find_sessions(b"a", 0, LATE))
    assert counts(db, "session") == {"put": 1, "remove": 1, "fetch": 2}


def test_a_restore_is_counted_by_batch_and_record(db):
    db.restore_batch("kv", pa.array([b"a", b"b"]), pa.array([b"1", None]), None, {("t", 0): 2})
    rows = (pa.array([b"a"]), pa.array([b"1"]), pa.array([LATE]))
    db.restore_batch("versioned", *rows, {("t", 1): 2})
    db.restore_batch("stamped", *rows, {("t", 2): 2})
    db.restore_batch("window", *rows, {("t", 3): 2})
    assert counts(db, "kv") == {"restore": 1, "restore-records": 2}
    for store in ("versioned", "stamped", "window"):
        assert counts(db, store) == {"restore": 1, "restore-records": 1}


def test_a_commit_is_counted_for_the_database_and_each_store(db):
    db["kv"].put(b"a", b"1")
    db.commit()
    metrics = db.metrics()
    for figures in (metrics, *metrics["stores"].values()):
        assert figures["commit-total"] == 1
        assert 0 < figures["commit-latency-avg"] <= figures["commit-latency-max"] < 60
        assert figures["commit-rate"] > 0
        assert (
            figures["flush-rate"]
            == figures["flush-latency-avg"]
            == figures["flush-latency-max"]
            == 0
        )


def test_uncommitted_bytes_are_counted_per_store(db):
    db["kv"].put(b"a", bytes(1_000))
    metrics = db.metrics()
    stores = metrics["stores"]
    assert (
        stores["kv"]["uncommitted-bytes"]
        == metrics["uncommitted-bytes"]
        == db.approximate_num_uncommitted_bytes
        > 1_000
    )
    assert stores["versioned"]["uncommitted-bytes"] == 0
    db.commit()
    assert db.metrics()["stores"]["kv"]["uncommitted-bytes"] == 0


def test_the_files_of_a_transaction_that_outgrew_its_memory_are_counted(tmp_path):
    with hf.open(tmp_path / "db", BUILDERS, uncommitted_max_bytes=10_000) as db:
        db["kv"].put(b"a", b"1")
        assert db.metrics()["spilled-bytes"] == 0
        for key in range(100):
            db["kv"].put(b"%d" % key, random.randbytes(1_000))
        metrics = db.metrics()
        spilled = metrics["spilled-bytes"]
        assert 80_000 < spilled < 200_000
        assert metrics["stores"]["kv"]["spilled-bytes"] == spilled
        assert metrics["stores"]["versioned"]["spilled-bytes"] == 0
        db.commit()
        assert db.metrics()["spilled-bytes"] == 0


def test_an_iterator_is_open_from_its_opening_to_its_end(db):
    db["kv"].put(b"a", b"1")

    def figures():
        return db.metrics()["stores"]["kv"]

    assert figures()["num-open-iterators"] == figures()["oldest-iterator-open-since-ms"] == 0
    first, second = db["kv"].range(), db["kv"].range_batches()
    assert figures()["num-open-iterators"] == 2
    assert figures()["oldest-iterator-open-since-ms"] > 1_700_000_000_000
    assert figures()["iterator-duration-max"] == 0
    first.close()
    assert figures()["num-open-iterators"] == 1
    del second
    assert figures()["num-open-iterators"] == 0
    assert 0 < figures()["iterator-duration-avg"] <= figures()["iterator-duration-max"] < 60


@pytest.mark.parametrize("store", ["kv", "stamped", "versioned", "window", "session"])
def test_iterators_of_every_kind_are_counted(db, store):
    read, arguments = {
        "versioned": ("scan", ()),
        "window": ("all", ()),
        "session": ("find_sessions", (b"a", 0, 1)),
    }.get(store, ("range", ()))
    opened = getattr(db[store], read)(*arguments)
    assert db.metrics()["stores"][store]["num-open-iterators"] == 1
    opened.close()
    assert db.metrics()["stores"][store]["num-open-iterators"] == 0


@pytest.mark.parametrize(
    "read",
    [
        lambda store: store.range(),
        lambda store: store.range(b"x"),
        lambda store: store.range_batches(batch_rows=7),
        lambda store: pa.RecordBatchReader.from_stream(store.range_batches(batch_rows=7)),
    ],
    ids=["rows", "no rows", "batches", "stream"],
)
def test_an_exhausted_iterator_is_closed_although_it_is_referenced(db, read):
    db["kv"].put_all([(b"%d" % number, b"") for number in range(20)])
    opened = read(db["kv"])
    assert db.metrics()["stores"]["kv"]["num-open-iterators"] == 1
    list(opened)
    assert db.metrics()["stores"]["kv"]["num-open-iterators"] == 0
    with pytest.raises(StopIteration):
        next(opened)


def test_segments_that_stream_time_passes_are_expired(db):
    for at in (LATE, 2 * LATE):
        db["versioned"].put(b"a", b"1", at)
        db["window"].put(b"a", b"1", at)
        db.commit()
    # Rows that a view of the previous commit can read expire with the next commit.
    db.commit({("t", 0): 1})
    assert counts(db, "versioned")["expired-segments"] == 120
    assert counts(db, "window")["expired-segments"] > 0


def test_calls_for_one_record_are_timed_at_debug_only(tmp_path):
    with open_database(tmp_path / "info") as db:
        db["kv"].get(b"a")
        assert "get-latency-avg" not in db.metrics()["stores"]["kv"]
        db["kv"].get_batch(pa.array([b"a"]))
        assert db.metrics()["stores"]["kv"]["get-batch-latency-avg"] > 0
    with open_database(tmp_path / "debug", hf.MetricsLevel.DEBUG) as db:
        db["kv"].get(b"a")
        figures = db.metrics()["stores"]["kv"]
        assert 0 < figures["get-latency-avg"] <= figures["get-latency-max"] < 60


def test_rocksdb_counts_bytes_and_hits_at_debug(debug):
    debug["kv"].put(b"a", bytes(100_000))
    debug.commit()
    debug["kv"].get(b"a")
    metrics = debug.metrics()
    assert metrics["bytes-written-total"] > 100_000
    assert metrics["bytes-read-total"] >= 100_000
    assert metrics["memtable-hit-ratio"] > 0
    assert metrics["stores"]["kv"]["cur-size-all-mem-tables"] > 100_000
    assert metrics["stores"]["kv"]["num-entries-active-mem-table"] == 1
    assert metrics["stores"]["versioned"]["num-entries-active-mem-table"] == 0


def test_rocksdb_counts_are_of_their_own_database(tmp_path):
    with (
        open_database(tmp_path / "a", hf.MetricsLevel.DEBUG) as a,
        open_database(tmp_path / "b", hf.MetricsLevel.DEBUG) as b,
    ):
        a["kv"].put(b"a", bytes(100_000))
        a.commit()
        assert b.metrics()["bytes-written-total"] < 100_000 < a.metrics()["bytes-written-total"]


def test_metrics_of_a_closed_database_are_an_error(tmp_path):
    db = open_database(tmp_path / "db")
    db.close()
    with pytest.raises(hf.errors.StoreClosedError):
        db.metrics()


# --- what they are called
# ----------------------------------------------------------------------------------------------


def of_page(heading):
    """Returns name → (unit, level) of the table below a heading."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*`) \| (.+?) \| (\w+) \|", section, re.MULTILINE)
    return {
        name: (unit, level)
        for names, unit, level in rows
        for name in re.findall(r"`([\w-]+)`", names)
    }


def of_databases(tmp_path):
    """Returns the metrics of a database and of its stores from the extension."""
    found = {}
    for level in (hf.MetricsLevel.DEBUG, hf.MetricsLevel.INFO):
        with open_database(tmp_path / level.name, level) as db:
            figures, stores = db._core.metrics()
            of_stores = [figure for _, figures in stores for figure in figures]
            for scope, those in (("database", figures), ("store", of_stores)):
                found.setdefault(scope, {}).update(
                    {name: (unit, level.name) for name, _, unit, _ in those}
                )
    return found["database"], found["store"]


def test_the_page_lists_exactly_the_existing_metrics(tmp_path):
    db, store = of_databases(tmp_path)
    assert of_page("A database") == db
    assert of_page("A store") == store


def test_the_types_name_exactly_the_existing_metrics(debug):
    metrics = debug.metrics()
    in_info = {name for name, (_, level) in of_page("A database").items() if level == "INFO"}
    assert set(DatabaseMetrics.__annotations__) == set(metrics)
    assert {
        name
        for name, of in DatabaseMetrics.__annotations__.items()
        if get_origin(of) is not NotRequired
    } - {"stores"} == in_info
    assert set(StoreMetrics.__annotations__) == {
        name for of_store in metrics["stores"].values() for name in of_store
    }


def test_values_have_the_types_that_are_named(debug):
    metrics = debug.metrics()
    for figures, types in [
        (metrics, DatabaseMetrics),
        *((of_store, StoreMetrics) for of_store in metrics["stores"].values()),
    ]:
        for name, value in figures.items():
            if name != "stores":
                assert type(value).__name__ in str(types.__annotations__[name])


# --- Prometheus
# --------------------------------------------------------------------------------------------------


def test_prometheus_parses_the_text(debug):
    debug["kv"].put(b"a", b"1")
    debug.commit()
    text = hf.metrics.prometheus(debug, "orders")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    read = {
        (sample.name, sample.labels.get("store")): sample
        for family in families.values()
        for sample in family.samples
    }
    assert {sample.labels["database"] for sample in read.values()} == {"orders"}
    assert families["holdfast_store_put"].type == "counter"
    assert families["holdfast_database_uncommitted_bytes"].type == "gauge"
    assert read["holdfast_store_put_total", "kv"].value == 1

    def named(scope, name):
        return f"holdfast_{scope}_{name.replace('-', '_')}"

    metrics = debug.metrics()
    stores = metrics["stores"]
    wanted = {(named("database", name), None) for name in metrics if name != "stores"}
    wanted |= {
        (named("store", name), store) for store, figures in stores.items() for name in figures
    }
    assert set(read) == wanted


def test_a_collector_shows_many_databases_and_forgets_closed_ones(tmp_path):
    registry = CollectorRegistry()
    with open_database(tmp_path / "a") as a, open_database(None) as b:
        registry.register(hf.metrics.Collector({"a": a, "b": b}))

        def labels():
            text = generate_latest(registry).decode()
            samples = [
                sample
                for family in text_string_to_metric_families(text)
                for sample in family.samples
            ]
            return {sample.labels["database"] for sample in samples}

        assert labels() == {"a", "b"}
        a.close()
        assert labels() == {"b"}


def test_a_database_that_is_closed_during_a_scrape_is_left_out():
    with (
        hf.open(None, [hf.stores.key_value("kv")]) as a,
        hf.open(None, [hf.stores.key_value("kv")]) as b,
    ):
        # Stands for another thread that closes the database just before its metrics are read.
        class Closing:
            is_open = True

            @property
            def _core(self):
                a.close()
                return a._core

        families = hf.metrics.Collector({"a": Closing(), "b": b}).collect()
        assert {sample.labels["database"] for family in families for sample in family.samples} == {
            "b"
        }


def test_a_file_that_is_opened_again_finds_its_index_in_the_cache(tmp_path):
    """A database may have more files than `max_open_files`: each read may open one."""
    options = {
        "max_open_files": "20",
        # Small files.
        "write_buffer_size": "65536",
        "target_file_size_base": "16384",
        "max_bytes_for_level_base": "65536",
    }
    spread = random.Random(7)
    keys = [spread.randbytes(8) for _ in range(100_000)]
    path, stores = tmp_path / "db", [hf.stores.key_value("kv")]
    asked = {"rocksdb_options": options, "durability": hf.Durability.CHANGELOG}
    with hf.open(path, stores, **asked) as db:
        for first in range(0, len(keys), 5_000):
            part = pa.array(keys[first : first + 5_000], pa.binary())
            db["kv"].put_batch(part, part)
            db.commit()
    assert len(list(path.glob("*.sst"))) > 20
    with hf.open(path, stores, metrics_level=hf.MetricsLevel.DEBUG, **asked) as db:
        assert all(db["kv"].get(key) == key for key in keys[::5])
        metrics = db.metrics()
    assert metrics["number-file-opens-total"] > 1_000
    assert metrics["block-cache-index-hit-ratio"] > 0.9
    assert metrics["block-cache-filter-hit-ratio"] > 0.9
