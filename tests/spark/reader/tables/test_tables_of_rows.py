"""Tables of materialized rows, compared with models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from processors import OUT, Hits
from pyspark.sql import functions as F
from reading import Connect, stored
from streams import KEYS, Stream, at, seconds

import holdfast.spark as hfs

DAY = "1 day"


def in_order(batches: list[list[tuple[str, int, int]]]) -> Iterator[tuple[int, str, int, int]]:
    for epoch, rows in enumerate(batches):
        for key, time, value in sorted(rows, key=lambda row: row[1]):
            yield epoch, key, time, value


def test_a_key_value_table_has_the_last_row_of_each_key_in_every_epoch(
    stream: Stream, connect: Connect, batches
):
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


def test_a_timestamped_table_has_the_newest_row_of_each_key(
    stream: Stream, connect: Connect, batches
):
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


def test_a_versioned_table_is_read_as_of_any_time(stream: Stream, connect: Connect, batches):
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


def test_versions_are_the_history_of_a_key(stream: Stream, connect: Connect, batches):
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


def test_scans_have_bounds_and_a_limit(stream: Stream, connect: Connect):
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


def test_keys_of_several_columns_are_given_in_many_ways(stream: Stream, connect: Connect):
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


def test_a_bound_of_text_is_exact(stream: Stream, connect: Connect):
    stream.batch(left=[("a", 1, 1), ("b", 2, 2), ("banana", 3, 3)])
    frame = hfs.process(
        stream.source("left"), Hits(), by="k", schema=OUT, state=stream.state(), name="visits"
    )
    stream.run(frame)
    table = connect(stream)["visits"]
    assert sorted(table.scan(end="b").read_all()["key"].to_pylist()) == ["a", "b"]
    assert sorted(table.scan(start="b", end="b").read_all()["key"].to_pylist()) == ["b"]
    assert sorted(table.scan(prefix="b").read_all()["key"].to_pylist()) == ["b", "banana"]


def test_a_null_moment_finds_nothing(stream: Stream, connect: Connect):
    stream.batch(left=[("a", 1, 1)])
    stream.run(stored(stream, on="t", history_retention=DAY))
    table = connect(stream)["table"]
    moments = pa.array([at(2), None], pa.timestamp("us", "UTC"))
    assert table.get_batch(["a", "a"], as_of=moments)["x"].to_pylist() == [1, None]
    assert table.get_batch([], offline="only").num_rows == 0


def test_columns_that_move_and_appear_are_read_by_name(stream: Stream, connect: Connect):
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
