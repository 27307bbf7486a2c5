"""One script per kind of store that calls every method.

It runs on a processor's context and on a database, with equal results.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

import holdfast as hf

S, N = hf.serde.STRING, hf.serde.INT64
BUILDERS = [
    hf.stores.key_value("kv", key=S, value=N),
    hf.stores.key_value("raw"),
    hf.stores.key_value(
        "rows",
        key=hf.serde.struct(pa.schema([("k", pa.string()), ("n", pa.int32())])),
        value=hf.serde.JSON,
    ),
    hf.stores.timestamped_key_value("ts", key=S, value=N),
    hf.stores.versioned("v", history_retention=1_000, key=S, value=N),
    hf.stores.window("w", retention=1_000, window_size=10, key=S, value=N),
    hf.stores.window("many", retention=1_000, window_size=10, retain_duplicates=True),
    hf.stores.timestamped_window("tw", retention=1_000, window_size=10, key=S, value=N),
    hf.stores.session("s", retention=1_000, key=S, value=N),
]


def script(stores: Any) -> list[str]:
    """All results, as text."""
    found: list[str] = []
    for run in (
        _key_value,
        _raw,
        _rows,
        _timestamped,
        _versioned,
        _window,
        _duplicates,
        _stamped_window,
        _session,
    ):
        for number, result in enumerate(run(stores)):
            found.append(f"{run.__name__} {number}: {_plain(result)!r}")
    return found


def _plain(result: Any) -> Any:
    """Anything with Arrow's interface, or an iterator, as lists."""
    if isinstance(result, pa.Array | pa.RecordBatch):
        return result.to_pylist()
    if hasattr(result, "column_names"):
        return pa.record_batch(result).to_pylist()
    if hasattr(result, "__arrow_c_array__"):
        return pa.array(result).to_pylist()
    if hasattr(result, "__arrow_c_stream__"):
        return [row for batch in result for row in pa.record_batch(batch).to_pylist()]
    if isinstance(result, Iterator):
        return list(result)
    return result


def _ns(*numbers: int | None) -> pa.Array:
    return pa.array(numbers, pa.int64())


def _raises(call: Any, *given: Any, **named: Any) -> str:
    try:
        return f"gave {call(*given, **named)!r}"
    except Exception as error:  # noqa: BLE001 - errors are compared, too
        return type(error).__name__


def _around(store: Any, keys: list[str], call: Any, *given: Any) -> tuple[Any, Any, Any]:
    """The entries of the keys before and after a call that bypasses a processor's cache."""
    return [store.get(key) for key in keys], call(*given), [store.get(key) for key in keys]


def _key_value(stores: Any) -> Iterator[Any]:
    kv = stores["kv"]
    yield kv.name, kv.persistent, kv.transactional, kv.is_open, kv.manages_offsets
    yield kv.get("a")
    kv.put("a", 1)
    kv.put("b", 2)
    yield kv.get("a"), kv.put_if_absent("a", 9), kv.put_if_absent("c", 3), kv.get("c")
    kv.put_all([("d", 4), ("a", None), ("e", 5)])
    yield kv.get("a"), kv.delete("b"), kv.delete("b"), kv.get("b")
    yield kv.range()
    yield kv.range("d", reverse=True)
    yield kv.range("x", "a")
    scan = kv.range()
    yield scan.peek_next_key(), next(scan), scan.peek_next_key()
    kv.put("d", 44)
    yield list(scan)
    scan.close()
    yield _raises(next, scan)
    yield kv.prefix_scan("d")
    words = pa.array(["a", "d", "é"])
    yield _around(kv, ["a", "d", "é"], kv.put_batch, words.dictionary_encode(), _ns(1, None, 7))
    yield kv.get_batch(pa.chunked_array([["a", "zz"], ["é"]]))
    yield kv.range_batches(batch_rows=1)
    yield _around(kv, ["a", "é"], kv.delete_batch, pa.array(["a", "absent"], pa.large_string()))
    yield kv.approximate_num_entries() > 0
    yield _around(kv, ["p", "q", "r"], kv.put_batch, pa.array(["p", "q", "r"]), _ns(1, 2, 3))
    yield _around(kv, ["e", "p", "q", "r"], kv.delete_range, "p", "q")
    kv.put("r", 33)
    yield _around(kv, ["c", "e", "r"], kv.delete_range, "r", None)
    yield _around(kv, ["c", "e", "r"], kv.delete_range, None, "c")
    yield kv.range(None, None)
    yield (
        _raises(kv.put_batch, pa.array(["x", None]), _ns(1, 2)),
        _raises(kv.put_batch, pa.array(["x"]), _ns(1, 2)),
    )
    yield (
        _raises(kv.put, None, 1),
        _raises(kv.put, 7, 1),
        _raises(kv.get_batch, _ns(1)),
        _raises(kv.range_batches, batch_rows=0),
    )


def _raw(stores: Any) -> Iterator[Any]:
    raw = stores["raw"]
    raw.put(b"\xff\xff", b"")
    raw.put(b"", b"\x00")
    yield raw.get(b""), raw.get(b"\xff\xff"), raw.get(b"\xff")
    yield raw.prefix_scan(b"\xff")
    raw.put_batch(pa.array([f"{n:06}" for n in range(2_500)]), pa.array([b"x"] * 2_500))
    yield len(list(raw.range())), len(_plain(raw.range_batches(batch_rows=700)))
    yield raw.get_batch(pa.array([b"000001", b"\xff\xff"], pa.binary_view()))
    yield _raises(raw.put, "text", b"v")


def _rows(stores: Any) -> Iterator[Any]:
    rows = stores["rows"]
    rows.put(("a", 2), {"x": [1, None]})
    rows.put({"k": "a", "n": -1}, "text")
    rows.put((None, None), 1.5)
    yield rows.get(("a", 2)), rows.get((None, None))
    yield rows.prefix_scan(("a",))
    yield rows.range()


def _timestamped(stores: Any) -> Iterator[Any]:
    ts = stores["ts"]
    ts.put("a", 1, 10)
    yield ts.get("a"), ts.get("b"), ts.put_if_absent("a", 2, 20), ts.put_if_absent("b", 3, 30)
    ts.put_all([("c", 4, 40), ("a", None, 50)])
    yield ts.get("a"), ts.delete("b"), ts.get("b")
    yield list(ts.range()), list(ts.prefix_scan("c"))
    words, times = pa.array(["a", "c", "e"]), pa.array([1, 2, 3], pa.timestamp("ms", "UTC"))
    yield _around(ts, ["a", "c", "e"], ts.put_batch, words, _ns(5, None, 6), times)
    yield ts.get_batch(words)
    yield _around(ts, ["a", "e"], ts.delete_batch, pa.array(["e"]))
    yield ts.range_batches()
    ts.put_all([("b", 7, 70), ("f", 8, 80), ("g", 9, 90)])
    yield _around(ts, ["a", "b", "f", "g"], ts.delete_range, "b", "f")
    yield list(ts.range())
    yield _around(ts, ["a", "g"], ts.delete_range)
    yield list(ts.range())


def _versioned(stores: Any) -> Iterator[Any]:
    v = stores["v"]
    yield v.stream_time, v.history_retention, v.segment_interval
    yield (
        v.put("a", 1, 100),
        v.put("a", 3, 300),
        v.put("a", 2, 200),
        v.put("b", 9, 2_000),
        v.put("a", 0, 50),
    )
    yield (
        v.get("a"),
        v.get("b"),
        v.get("z"),
        v.get("b", as_of=1_999),
        v.get("b", as_of=2_000),
        v.stream_time,
    )
    yield (
        v.put("b", None, 2_100),
        v.get("b"),
        v.get("b", as_of=2_050),
        v.delete("b", 2_050),
        v.delete("b", 1),
    )
    yield v.versions("b", 0, 3_000)
    yield v.versions("b", 0, 3_000, descending=False)
    yield v.versions_range(None, None, 0, 3_000)
    yield v.scan()
    yield v.scan(as_of=2_010)
    yield v.put_batch(pa.array(["a", "c"]), _ns(7, None), _ns(2_200, 10))
    yield v.get_batch(pa.array(["a", "b", "c"]))
    yield v.get_batch(pa.array(["a", "b"]), _ns(2_199, 2_010))
    yield v.apply_batch(
        pa.array([False, True, False]),
        pa.array(["d", "d", "d"]),
        _ns(None, 4, None),
        _ns(2_300, 2_300, 2_301),
    )
    yield v.scan_batches(batch_rows=1)
    yield v.versions_batches("a", "d", 0, 3_000)


def _window(stores: Any) -> Iterator[Any]:
    w = stores["w"]
    yield w.stream_time, w.retention, w.window_size
    w.put("a", 1, 0)
    w.put("a", 2, 10)
    w.put("b", 3, 10)
    w.put("b", None, 10)
    w.put("c", 4, 10)
    yield w.fetch("a", 0), w.fetch("a", 5), w.fetch("b", 10), w.stream_time
    yield w.fetch("a", 0, 100)
    yield w.fetch("a", 0, 100, reverse=True)
    yield w.fetch_range("a", "b", 0, 100)
    yield w.all(reverse=True)
    scan = w.all()
    yield scan.peek_next_key(), next(scan)
    w.put_batch(pa.array(["a", "old"]), _ns(5, 6), _ns(5_000, 0))
    yield w.fetch("a", 5_000), w.fetch("old", 0), w.fetch("a", 0), w.stream_time
    yield w.fetch_batch(pa.array(["a", "b"]), _ns(5_000, 5_000))
    yield w.fetch_batch(pa.array(["a", "b"]), _ns(0, 0), _ns(9_000, 9_000))
    yield w.fetch_range_batches(None, None, 0, 9_000)
    yield w.all_batches(batch_rows=1)


def _duplicates(stores: Any) -> Iterator[Any]:
    many = stores["many"]
    for value in (b"1", b"2", b"1"):
        many.put(b"k", value, 10)
    yield many.fetch(b"k", 10, 10)


def _stamped_window(stores: Any) -> Iterator[Any]:
    tw = stores["tw"]
    tw.put("a", 1, 0, 7)
    tw.put("b", 2, 10, 17)
    tw.put_batch(pa.array(["c"]), _ns(3), _ns(20), _ns(27))
    yield tw.fetch("a", 0), tw.fetch("b", 0), tw.fetch("c", 20)
    yield tw.all()
    yield tw.fetch_batch(pa.array(["a", "z"]), _ns(0, 0))
    yield tw.fetch_batch(pa.array(["b"]), _ns(0), _ns(50))
    yield tw.all_batches()


def _session(stores: Any) -> Iterator[Any]:
    s, key = stores["s"], hf.WindowedKey
    yield s.stream_time, s.retention
    s.put(key("a", 10, 20), 1)
    s.put(key("a", 40, 50), 2)
    s.put(key("b", 10, 15), 3)
    s.remove(key("b", 10, 15))
    yield (
        s.fetch_session("a", 10, 20),
        s.fetch_session("a", 10, 21),
        s.fetch_session("b", 10, 15),
        s.stream_time,
    )
    yield s.fetch("a")
    yield s.fetch("a", "z", reverse=True)
    yield s.find_sessions("a", 15, 25)
    yield s.find_sessions(None, 0, 100, key_to=None)
    s.put_batch(pa.array(["b", "c"]), _ns(1, 2), _ns(3, 4), _ns(5, None))
    yield s.find_batch(pa.array(["a", "b", "c"]), _ns(0, 0, 0), _ns(99, 99, 99))
    yield s.fetch_session_batch(pa.array(["a", "b"]), _ns(10, 9), _ns(20, 9))
    s.remove_batch(pa.array(["a"]), _ns(10), _ns(20))
    yield s.find_batches("a", 0, 99, key_to=None)
    yield _raises(s.put, key("a", 5, 4), 1)
