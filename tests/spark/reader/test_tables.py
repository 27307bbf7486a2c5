"""The tables of a query between two runs, compared with models.

Its state hosts continue to run, and answer. With `copies` the reader does not ask them.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import reading
from processors import OUT, EveryKind, Hits, Totals
from pyspark.sql import functions as F
from reading import stored
from streams import KEYS, Stream, at, seconds

import holdfast as hf
import holdfast.spark as hfs
from holdfast.errors import (
    NotUpToBoundError,
    StateMismatchError,
    StoreClosedError,
    UnsupportedOperationError,
)

DAY = "1 day"


@pytest.fixture(autouse=True, params=["auto", "only"], ids=["hosts", "copies"])
def offline(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The option `offline` of `connect`: state hosts answer the reads, or copies do."""
    monkeypatch.setattr(f"{__name__}.OFFLINE", request.param)
    return request.param


OFFLINE = "auto"


def connect(stream: Stream, **options: Any) -> hf.StateReader:
    return reading.connect(stream, **{"offline": OFFLINE, **options})


@pytest.fixture
def batches(stream: Stream) -> list[list[tuple[str, int, int]]]:
    """Micro-batches of random rows (key, seconds, value), in the order in which they were written.

    Times are unique, so that the order of equal times does not matter.
    """
    draw = random.Random(7)
    times = draw.sample(range(1000), 60)
    found = []
    for number in range(6):
        rows = [
            (draw.choice(KEYS), time, number * 100 + index)
            for index, time in enumerate(times[number * 10 : number * 10 + 10])
        ]
        found.append(rows)
        stream.batch(left=rows)
    return found


def in_order(batches: list[list[tuple[str, int, int]]]) -> Iterator[tuple[int, str, int, int]]:
    for epoch, rows in enumerate(batches):
        for key, time, value in sorted(rows, key=lambda row: row[1]):
            yield epoch, key, time, value


def test_a_key_value_table_has_the_last_row_of_each_key_in_every_epoch(stream: Stream, batches):
    stream.run(stored(stream))
    with connect(stream) as reader:
        table = reader["table"]
        assert (table.kind, table.key, table.schema.names) == ("key_value", ("k",), ["k", "t", "x"])
        for epoch in range(len(batches)):
            # Without `on` the rows of an epoch are ordered by content: by time here.
            model = {k: v for e, k, _, v in in_order(batches) if e <= epoch}
            found = table.get_batch(list(KEYS), epoch=epoch)
            assert dict(zip(KEYS, found["x"].to_pylist(), strict=True)) == {
                key: model.get(key) for key in KEYS
            }
            rows = table.scan(epoch=epoch, columns=["x", "k"]).read_all()
            assert rows.schema.names == ["x", "k"]
            assert dict(zip(rows["k"].to_pylist(), rows["x"].to_pylist(), strict=True)) == model
        assert reader.epoch == len(batches) - 1


def test_a_timestamped_table_has_the_newest_row_of_each_key(stream: Stream, batches):
    stream.run(stored(stream, on="t"))
    model: dict[str, tuple[int, int]] = {}
    for _, key, time, value in in_order(batches):
        model[key] = max(model.get(key, (-1, -1)), (time, value))
    table = connect(stream)["table"]
    assert table.kind == "timestamped_key_value"
    rows = table.scan().read_all().to_pylist()
    assert {row["k"]: (seconds(row["t"]), row["x"]) for row in rows} == model
    key = next(iter(model))
    assert table.get(key) == {"t": at(model[key][0]), "x": model[key][1]}


def test_a_versioned_table_is_read_as_of_any_time(stream: Stream, batches):
    stream.run(stored(stream, on="t", history_retention=DAY))
    rows = sorted((time, key, value) for _, key, time, value in in_order(batches))

    def model(key: str, moment: float) -> int | None:
        found = [value for time, other, value in rows if other == key and time <= moment]
        return found[-1] if found else None

    table = connect(stream)["table"]
    for moment in (-1, 0, 3.5, 250, 500.25, 999, 5000):
        found = table.get_batch(list(KEYS), as_of=at(moment))
        assert found["x"].to_pylist() == [model(key, moment) for key in KEYS]
        scanned = table.scan(as_of=at(moment)).read_all().to_pylist()
        expected = {key: model(key, moment) for key in KEYS if model(key, moment) is not None}
        assert {row["k"]: row["x"] for row in scanned} == expected
        one = table.get("a", as_of=at(moment))
        assert (one and one["x"]) == model("a", moment)
    moments = [time + 0.5 for time, _, _ in rows]
    keys = [key for _, key, _ in rows]
    each = table.get_batch(keys, as_of=[at(moment) for moment in moments])
    assert each["x"].to_pylist() == [value for _, _, value in rows]


def test_versions_are_the_history_of_a_key(stream: Stream, batches):
    stream.run(stored(stream, on="t", history_retention=DAY))
    table = connect(stream)["table"]
    of_key = sorted((time, value) for _, key, time, value in in_order(batches) if key == "c")
    found = table.versions("c").read_all().to_pylist()
    assert [(seconds(row["valid_from"]), row["x"]) for row in found] == of_key
    ends = [seconds(row["valid_to"]) for row in found]
    assert ends == [time for time, _ in of_key[1:]] + [None]
    between = table.versions("c", start=at(of_key[1][0]), end=at(of_key[2][0])).read_all()
    assert between["x"].to_pylist() == [value for _, value in of_key[1:3]]
    assert table.versions().read_all().num_rows == 60
    assert table.versions(limit=7).read_all().num_rows == 7


def test_scans_have_bounds_and_a_limit(stream: Stream):
    stream.batch(left=[(key, 1, number) for number, key in enumerate(["a", "b", "ba", "c"])])
    stream.run(stored(stream))
    table = connect(stream)["table"]

    def keys(**options: Any) -> list[str]:
        return sorted(table.scan(columns=["k"], **options).read_all()["k"].to_pylist())

    assert keys(start="b") == ["b", "ba", "c"]
    assert keys(end="b") == ["a", "b"]
    assert keys(start="b", end="ba") == ["b", "ba"]
    # A prefix has whole columns: it is no prefix of a text.
    assert keys(prefix="b") == ["b"]
    assert len(keys(limit=3)) == 3
    assert keys(limit=0) == []


def test_keys_of_several_columns_are_given_in_many_ways(stream: Stream):
    stream.batch(left=[("a", 1, 1), ("a", 2, 2), ("b", 1, 3)])
    frame = stream.source("left").select("k", (F.col("x") % 2).alias("odd"), "x")
    stream.run(hfs.materialize(frame, by=["k", "odd"], name="table", state=stream.state()))
    table = connect(stream)["table"]
    assert table.get(("a", 0)) == table.get({"k": "a", "odd": 0}) == {"x": 2}
    asked = pa.table({"odd": pa.array([1, 0, 1], pa.int64()), "k": ["b", "a", "z"]})
    for keys in (
        [("b", 1), ("a", 0), ("z", 1)],
        asked,
        asked.to_pandas(),
        {"k": ["b", "a", "z"], "odd": [1, 0, 1]},
    ):
        found = table.get_batch(keys)
        assert found["x"].to_pylist() == [3, 2, None]
        assert found["k"].to_pylist() == ["b", "a", "z"]
    rows = table.scan(prefix="a").read_all()
    assert sorted(rows["x"].to_pylist()) == [1, 2]
    with pytest.raises(ValueError, match="key column 'k' is missing"):
        table.get({"odd": 1})
    with pytest.raises(ValueError, match="'other' is no key column"):
        table.get({"k": "a", "other": 1})
    with pytest.raises(ValueError, match="give a tuple of the key columns"):
        table.get("a")
    with pytest.raises(ValueError, match="do not fit"):
        table.get(("a", "x"))


def test_joins_show_the_tables_of_their_sides(stream: Stream):
    stream.batch(right=[("a", 1, "one"), ("b", 2, "two"), ("a", 5, "five")])
    stream.batch(left=[("a", 6, 1)])
    stream.run(stream.joined())
    table = connect(stream)["join"]
    assert (table.operator_kind, table.kind) == ("join_asof", "versioned")
    assert table.get("a", as_of=at(4))["v"] == "one"
    assert table.get_batch(["a", "b"])["v"].to_pylist() == ["five", "two"]


def test_groups_have_the_results_of_their_functions(stream: Stream, batches):
    frame = hfs.aggregate(
        stream.source("left"),
        by="k",
        aggs={
            "n": "count",
            "total": ("sum", "x"),
            "least": ("min", "x"),
            "most": ("max", "x"),
            "mean": ("avg", "x"),
            "different": ("count_distinct", "x"),
            "all": ("collect_set", "x"),
        },
        state=stream.state(),
        name="groups",
    )
    emitted = stream.last_of_each(frame)
    table = connect(stream)["groups"]
    found = table.get_batch(list(emitted)).to_pylist()

    def plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(tuple(value) if isinstance(value, list) else value for value in row)

    shown = {plain(tuple(row.values())) for row in found}
    expected = {plain(row) for row in emitted.values()}
    assert shown == expected
    assert table.get("zz") is None
    assert table.get_batch(["zz"])["n"].to_pylist() == [None]


def test_windows_of_an_aggregate_are_read_by_their_start(stream: Stream):
    stream.batch(left=[("a", 5, 1), ("a", 7, 2), ("a", 15, 3), ("b", 15, 4)])
    frame = hfs.aggregate(
        stream.source("left"),
        by="k",
        on="t",
        window=hfs.window("10 seconds"),
        aggs={"total": ("sum", "x")},
        retention=DAY,
        state=stream.state(),
        name="windows",
    )
    stream.run(frame)
    table = connect(stream)["windows"]
    assert table.schema.names == ["k", "window_start", "window_end", "total"]
    assert table.fetch("a", at(0)) == {
        "window_start": at(0),
        "window_end": at(10),
        "total": 3,
    }
    assert table.fetch("a", at(20)) is None
    found = table.fetch_batch(["b", "a"], [at(10), at(10)])
    assert found["total"].to_pylist() == [4, 3]
    assert sorted(table.scan(time_from=at(10)).read_all()["total"].to_pylist()) == [3, 4]
    assert sorted(table.scan(prefix="a").read_all()["total"].to_pylist()) == [3, 3]
    with pytest.raises(UnsupportedOperationError, match="call fetch in place of get"):
        table.get("a")


def test_sessions_of_an_aggregate_have_start_and_end(stream: Stream):
    stream.batch(left=[("a", 5, 1), ("a", 7, 2), ("a", 15, 3)])
    frame = hfs.aggregate(
        stream.source("left"),
        by="k",
        on="t",
        window=hfs.session_window("5 seconds"),
        aggs={"total": ("sum", "x")},
        retention=DAY,
        state=stream.state(),
        name="sessions",
    )
    rows = stream.run(frame)[0]
    table = connect(stream)["sessions"]
    rows_found = table.scan().read_all().to_pylist()
    for row in rows_found:
        assert (
            table.fetch(row["k"], row["window_start"], row["window_end"])["total"] == row["total"]
        )
    ends = {row["window_end"] for row in rows_found}
    later = table.scan(time_from=min(ends), time_to=at(1000)).read_all()
    assert later.num_rows == len(rows_found)
    found = [tuple(row.values()) for row in rows_found]
    emitted = [(row[0], row[1].astimezone(UTC), row[2].astimezone(UTC), row[3]) for row in rows]
    assert sorted(found) == sorted(emitted)


@pytest.mark.parametrize("kind", ["windows", "sessions"])
def test_closed_windows_have_their_collected_values_until_their_retention_ends(
    stream: Stream, kind: str
):
    window = {"windows": hfs.window, "sessions": hfs.session_window}[kind]("10 seconds")
    stream.batch(left=[("a", 5, 1), ("a", 6, 1)])
    # The stream time of each partition closes its windows.
    stream.batch(left=[(key, 100, 2) for key in KEYS])
    frame = hfs.aggregate(
        stream.source("left"),
        by="k",
        on="t",
        window=window,
        aggs={"n": "count", "all": ("collect_list", "x"), "set": ("collect_set", "x")},
        grace="0 seconds",
        retention=DAY,
        state=stream.state(),
        name=kind,
    )
    stream.run(frame)
    rows = connect(stream)[kind].scan(prefix="a", time_to=at(50)).read_all().to_pylist()
    assert [(row["n"], row["all"], row["set"]) for row in rows] == [(2, [1, 1], [1])]


def test_a_processors_stores_are_tables(stream: Stream):
    stream.batch(left=[("a", 1, 1), ("b", 2, 2), ("a", 3, 3)])
    frame = hfs.process(
        stream.source("left"), Hits(), by="k", schema=OUT, state=stream.state(), name="visits"
    )
    stream.run(frame)
    table = connect(stream)["visits"]
    assert (table.store, table.kind, table.schema.names) == ("hits", "key_value", ["key", "value"])
    assert table.get("a") == {"value": 2}
    assert table.get_batch(["b", "zz"])["value"].to_pylist() == [1, None]
    assert sorted(table.scan().read_all()["key"].to_pylist()) == ["a", "b"]


def test_a_key_in_several_partitions_gives_all_rows_or_an_error(stream: Stream):
    stream.batch(left=[(key, n, n) for n, key in enumerate("abcdef")])
    frame = hfs.process(
        stream.source("left"), Totals(), by="k", schema=OUT, state=stream.state(), name="totals"
    )
    stream.run(frame)
    table = connect(stream)["totals"]
    parts = [row["value"] for row in table.scan(prefix="all").read_all().to_pylist()]
    assert len(parts) > 1
    assert sum(parts) == 6
    found = table.find(["a", "all", "b", "zz"]).to_pylist()
    assert [row["key"] for row in found] == ["a", *["all"] * len(parts), "b"]
    assert sorted(row["value"] for row in found[1:-1]) == sorted(parts)
    chosen = table.dataset().to_table(filter=pc.field("key") == "all")
    assert sorted(chosen["value"].to_pylist()) == sorted(parts)
    assert table.get_batch(["b", "a"])["value"].to_pylist() == [1, 1]
    for read in (lambda: table.get("all"), lambda: table.get_batch(["a", "all"])):
        with pytest.raises(UnsupportedOperationError, match="several partitions have a row"):
            read()


def micros(number: int) -> datetime:
    return datetime(1970, 1, 1, 0, 0, 0, number, tzinfo=UTC)


def test_every_kind_of_a_processors_store_is_read(stream: Stream):
    stream.batch(left=[("a", 1, 1), ("b", 2, 2), ("a", 3, 3)])
    frame = hfs.process(
        stream.source("left"), EveryKind(), by="k", schema=OUT, state=stream.state(), name="kinds"
    )
    stream.run(frame)
    tables = connect(stream)["kinds"]
    kinds = {name: table.kind for name, table in tables.items()}
    assert kinds == {
        "kv": "key_value",
        "raw": "key_value",
        "rows": "key_value",
        "ts": "timestamped_key_value",
        "v": "versioned",
        "w": "window",
        "many": "window",
        "tw": "timestamped_window",
        "s": "session",
    }
    assert tables["kv"].get_batch(["a", "b", "c"])["value"].to_pylist() == [3, 2, None]
    assert tables["raw"].get(b"a") == {"value": b"3"}
    assert tables["rows"].get({"k": "a", "n": 3}) == {"value": '{"value":3}'}
    assert tables["ts"].get("a") == {"timestamp": micros(30), "value": 3}
    assert tables["v"].get("a", as_of=29) == {
        "valid_from": micros(10),
        "valid_to": micros(30),
        "value": 1,
    }
    assert tables["v"].versions("a").read_all()["value"].to_pylist() == [1, 3]
    window = {"window_start": micros(10), "window_end": micros(20)}
    assert tables["w"].fetch("a", 10) == {**window, "value": 1}
    assert tables["tw"].fetch("a", 10) == {**window, "timestamp": micros(11), "value": 1}
    assert tables["tw"].fetch("a", 11) is None
    both = tables["w"].fetch_batch(["a", "b"], [30, 10])
    assert both["value"].to_pylist() == [3, None]
    assert sorted(tables["w"].scan(prefix="a").read_all()["value"].to_pylist()) == [1, 3]
    assert sorted(tables["many"].scan().read_all()["value"].to_pylist()) == [b"1", b"2", b"3"]
    assert tables["s"].fetch("b", 20, 25) == {"start": micros(20), "end": micros(25), "value": 2}
    assert sorted(tables["s"].scan(time_from=21, time_to=30).read_all()["value"].to_pylist()) == [
        2,
        3,
    ]
    with pytest.raises(ValueError, match="give start and end"):
        tables["s"].fetch("b", 20)
    with pytest.raises(UnsupportedOperationError, match="fetch a range"):
        tables["many"].fetch(b"a", 10)


def test_a_bound_of_text_is_exact(stream: Stream):
    stream.batch(left=[("a", 1, 1), ("b", 2, 2), ("banana", 3, 3)])
    frame = hfs.process(
        stream.source("left"), Hits(), by="k", schema=OUT, state=stream.state(), name="visits"
    )
    stream.run(frame)
    table = connect(stream)["visits"]
    assert sorted(table.scan(end="b").read_all()["key"].to_pylist()) == ["a", "b"]
    assert sorted(table.scan(start="b", end="b").read_all()["key"].to_pylist()) == ["b"]
    assert sorted(table.scan(prefix="b").read_all()["key"].to_pylist()) == ["b", "banana"]


def test_a_group_whose_result_is_null_is_found(stream: Stream):
    stream.batch(left=[("a", 1, None)])
    frame = hfs.aggregate(
        stream.source("left"),
        by="k",
        aggs={"total": ("sum", "x")},
        state=stream.state(),
        name="groups",
    )
    stream.run(frame)
    table = connect(stream)["groups"]
    assert table.get("a") == {"total": None}
    assert table.get("b") is None


def test_a_null_moment_finds_nothing(stream: Stream):
    stream.batch(left=[("a", 1, 1)])
    stream.run(stored(stream, on="t", history_retention=DAY))
    table = connect(stream)["table"]
    moments = pa.array([at(2), None], pa.timestamp("us", "UTC"))
    assert table.get_batch(["a", "a"], as_of=moments)["x"].to_pylist() == [1, None]
    assert table.get_batch([], offline="only").num_rows == 0


def test_the_retention_of_the_newest_start_is_valid(stream: Stream):
    def windows(**options: Any):
        return hfs.aggregate(
            stream.source("left"),
            by="k",
            on="t",
            window=hfs.window("10 seconds"),
            aggs={"n": "count"},
            state=stream.state(),
            name="windows",
            **options,
        )

    stream.batch(left=[("a", 5, 1)])
    stream.run(windows(retention="20 seconds"))
    stream.batch(left=[("a", 100, 2)])
    stream.batch(left=[("a", 150, 3)])
    stream.run(windows(retention="1 hour"))
    starts = connect(stream)["windows"].scan().read_all()["window_start"].to_pylist()
    assert at(100) in starts
    assert at(150) in starts


def test_columns_that_move_and_appear_are_read_by_name(stream: Stream):
    stream.batch(left=[(key, 1, 1) for key in KEYS])
    frame = stream.source("left")
    stream.run(hfs.materialize(frame, by="k", name="table", state=stream.state()))
    table = connect(stream)["table"]
    assert table.get_batch(list(KEYS))["x"].to_pylist() == [1] * len(KEYS)
    stream.batch(left=[("a", 2, 2)])
    moved = frame.select("k", F.lit(7).alias("y"), "x", "t")
    stream.run(hfs.materialize(moved, by="k", name="table", state=stream.state()))
    found = table.get_batch(list(KEYS))
    assert found["x"].to_pylist() == [2, *[1] * (len(KEYS) - 1)]
    renewed = connect(stream)["table"].get("a")
    assert renewed == {"y": 7, "x": 2, "t": at(2)}


def test_tables_print_as_a_table(stream: Stream):
    stream.batch(left=[("a", 1, 1)])
    stream.run(stored(stream, on="t", history_retention=DAY))
    reader = connect(stream)
    assert repr(reader.tables).splitlines() == [
        "operator  table  kind       key  columns",
        "table     table  versioned  k    valid_from, valid_to, x",
    ]
    assert list(reader.tables) == [("table", "table")]
    assert repr(reader["table"]).startswith("<versioned table table.table by k: k: string")


def test_what_does_not_exist_is_named(stream: Stream, tmp_path):
    with pytest.raises(StateMismatchError, match="no such folder"):
        hf.connect(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(StateMismatchError, match="there is no state here"):
        hf.connect(tmp_path / "empty")
    stream.batch(left=[("a", 1, 1)])
    stream.run(stored(stream))
    reader = connect(stream)
    with pytest.raises(StateMismatchError, match="'tabel'; the operators are \\['table'\\]"):
        reader["tabel"]
    table = reader["table"]
    with pytest.raises(ValueError, match='no column "y"; it has'):
        table.scan(columns=["y"])
    with pytest.raises(UnsupportedOperationError, match="only a versioned one"):
        table.get("a", as_of=at(1))
    with pytest.raises(UnsupportedOperationError, match="keeps no versions"):
        table.versions("a")
    with pytest.raises(TypeError, match="'epochs' is no option"):
        table.get("a", epochs=3)
    with pytest.raises(NotUpToBoundError, match="epoch 0 is the newest"):
        table.get("a", at_least=1, timeout=0.1)
    with pytest.raises(NotUpToBoundError, match="has not reached epoch 9"):
        table.get("a", epoch=9)
    reader.close()
    with pytest.raises(StoreClosedError, match="reader is closed"):
        table.get("a")


def test_a_copy_is_made_from_the_snapshot_when_the_log_is_gone(stream: Stream):
    state = {"snapshot_interval": "1 microsecond", "retain_epochs": 1}
    model: dict[str, int] = {}
    for number in range(8):
        stream.batch(left=[(KEYS[number % 3], number, number), ("z", number, number)])
        model |= {KEYS[number % 3]: number, "z": number}
        stream.run(stored(stream, state=stream.state(**state)))
    epochs = [int(folder.name) for folder in (stream.root / "log").iterdir()]
    assert min(epochs) > 0, "no epoch was removed"
    table = connect(stream)["table"]
    rows = table.scan().read_all()
    assert dict(zip(rows["k"].to_pylist(), rows["x"].to_pylist(), strict=True)) == model
    with pytest.raises(hf.errors.RestoreError, match=r"epoch \d+ cannot be read any more: the old"):
        table.get("z", epoch=0)
    # The log still has its oldest epoch, but no snapshot is left from which it can be restored.
    left = [int(folder.name) for folder in (stream.root / "log").iterdir()]
    oldest = min(left)
    for snapshot in stream.root.glob("snapshots/table/*/*"):
        if snapshot.is_file() and int(snapshot.name.split(".")[0]) <= oldest:
            snapshot.unlink()
    gone = rf"epoch {oldest} cannot be read any more: .* the oldest that can be read is \d"
    with pytest.raises(hf.errors.RestoreError, match=gone):
        table.get("z", epoch=oldest, offline="only")


def test_a_reader_leaves_nothing_behind_and_writes_nothing(stream: Stream, tmp_path):
    stream.batch(left=[("a", 1, 1)])
    stream.run(stored(stream))

    def files() -> set[str]:
        return {str(path) for path in stream.root.rglob("*")}

    before, cache = files(), tmp_path / "cache"
    cache.mkdir()
    with connect(stream, cache_dir=cache, offline="only") as reader:
        assert reader["table"].get("a")["x"] == 1
        (folder,) = cache.iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
    del reader
    assert list(cache.iterdir()) == []
    assert files() == before


def test_copies_that_are_not_read_take_at_most_cache_bytes(stream: Stream, tmp_path):
    stream.batch(left=[("a", 1, 1)])
    stream.run(stored(stream))
    cache = tmp_path / "cache"
    cache.mkdir()
    with connect(stream, cache_dir=cache, cache_bytes=1 << 30, offline="only") as reader:
        assert reader["table"].get("a")["x"] == 1
        assert len(list(cache.rglob("CURRENT"))) == 1
    with connect(stream, cache_dir=cache, cache_bytes=0, offline="only") as reader:
        assert reader["table"].get("a")["x"] == 1
        assert list(cache.rglob("CURRENT")) == []
        other = pickle.loads(pickle.dumps(reader))
        assert other["table"].get("a")["x"] == 1
        assert len(list(cache.iterdir())) == 2, "each reader has a folder"
        assert list(cache.rglob("CURRENT")) == []
        other.close()
    with pytest.raises(ValueError, match="cache_bytes is -1: give 0 or more"):
        connect(stream, cache_bytes=-1)


def test_a_table_is_a_dataset_for_other_libraries(stream: Stream):
    import polars

    stream.batch(left=[(key, number, number) for number, key in enumerate(KEYS)])
    stream.run(stored(stream, on="t", history_retention=DAY))
    table = connect(stream)["table"]
    dataset = table.dataset()
    assert dataset.schema.names == ["k", "valid_from", "valid_to", "x"]
    assert dataset.to_table(columns=["x"], filter=pc.field("k") == "c")["x"].to_pylist() == [2]
    more = (pc.field("k") == "c") & (pc.field("x") > 2)
    assert dataset.count_rows(filter=more) == 0
    assert dataset.count_rows() == len(KEYS)
    frame = polars.scan_pyarrow_dataset(dataset)
    assert frame.filter(polars.col("x") > 5).select("k").collect()["k"].sort().to_list() == [
        "g",
        "h",
    ]
    assert frame.filter(polars.col("k") == "b").collect()["x"].to_list() == [1]
    assert table.dataset(as_of=at(3)).count_rows() == 4
