"""The changes of tables: applied to an empty table, they give the table of each epoch."""

from __future__ import annotations

import random
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hosted import JOIN, LAYOUT, Host, Query
from processors import OUT, EveryChange, Hits
from pyspark.sql import functions as F
from reading import connect, stored
from streams import KEYS, Stream, seconds

import holdfast as hf
import holdfast.spark as hfs
from holdfast.errors import (
    ChangesLostError,
    NotUpToBoundError,
    RestoreError,
    UnsupportedOperationError,
)

DAY = "1 day"


def of_one(table: hf.StateTable) -> list[str]:
    """The columns that identify a row of a table."""
    times = ["valid_from", "window_start", "window_end", "start", "end"]
    return [*table.key, *(time for time in times if time in table.changes_schema.names)]


class Model:
    """A table to which changes are applied."""

    def __init__(self, table: hf.StateTable, *, many: bool = False) -> None:
        self.table, self.many = table, many
        self.rows: dict[Any, dict[str, Any] | None] = {}

    def apply(self, changes: list[dict[str, Any]]) -> None:
        for change in changes:
            row = {name: value for name, value in change.items() if name != "epoch"}
            name = tuple(repr(row[column]) for column in of_one(self.table))
            if self.many:
                name = (*name, len(self.rows))
            self.rows[name] = None if row.pop("deleted") else row
            if self.rows[name] is None and self.table.kind == "versioned":
                # A tombstone ends the version before it.
                self.rows[name] = {**row, "deleted": True}

    def state(self) -> list[str]:
        rows = [row for row in self.rows.values() if row is not None]
        if self.table.kind == "versioned":
            rows = self.with_ends(rows)
        return shown(rows)

    def with_ends(self, versions: list[dict[str, Any]]) -> list[dict[str, Any]]:
        of_keys = defaultdict(list)
        for version in versions:
            of_keys[repr([version[name] for name in self.table.key])].append(version)
        found = []
        for of_key in of_keys.values():
            of_key.sort(key=lambda version: version["valid_from"])
            ends = [version["valid_from"] for version in of_key[1:]] + [None]
            for version, end in zip(of_key, ends, strict=True):
                if "deleted" not in version:
                    found.append({**version, "valid_to": end})
        return found


def shown(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)


def check(table: hf.StateTable, *, many: bool = False) -> int:
    """Compares the table of each epoch with its changes up to then; returns their number."""
    model, changes = Model(table, many=many), table.changes()
    assert changes.schema == table.changes_schema
    rows = changes.read_all().to_pylist()
    assert [row["epoch"] for row in rows] == sorted(row["epoch"] for row in rows)
    newest = max(row["epoch"] for row in rows)
    for epoch in range(newest + 1):
        of_epoch = [row for row in rows if row["epoch"] == epoch]
        alone = table.changes(from_epoch=epoch, to_epoch=epoch).read_all().to_pylist()
        assert alone == of_epoch
        model.apply(of_epoch)
        asked = {"epoch": epoch, "offline": "only"}
        scan = table.versions if table.kind == "versioned" else table.scan
        assert model.state() == shown(scan(**asked).read_all().to_pylist())
    return len(rows)


@pytest.fixture
def batches(stream: Stream) -> None:
    """Micro-batches of random rows; some rows have nulls, which delete."""
    draw = random.Random(11)
    times = draw.sample(range(1000), 60)
    for number in range(6):
        rows = [
            (draw.choice(KEYS), time, None if index % 4 == 3 else number * 100 + index)
            for index, time in enumerate(times[number * 10 : number * 10 + 10])
        ]
        right = [(key, time, None if x is None else f"v{x}") for key, time, x in rows]
        stream.batch(left=rows, right=right)


@pytest.mark.usefixtures("batches")
@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({}, "key_value"),
        ({"on": "t"}, "timestamped_key_value"),
        ({"on": "t", "history_retention": DAY}, "versioned"),
    ],
)
def test_changes_of_a_materialized_table(stream: Stream, options: dict[str, Any], kind: str):
    frame = stream.source("left")
    if not options:
        frame = frame.drop("t")
    stream.run(hfs.materialize(frame, by="k", state=stream.state(), name="table", **options))
    with connect(stream) as reader:
        table = reader["table"]
        assert table.kind == kind
        assert check(table) > 10
        changes = table.changes().read_all()
        deleted = changes.filter(changes["deleted"])
        assert deleted.num_rows > 0
        assert set(deleted["x"].to_pylist()) == {None}
        assert table.oldest_changes() == 0


@pytest.mark.usefixtures("batches")
def test_changes_have_the_columns_of_the_table(stream: Stream):
    stream.run(stored(stream, on="t", history_retention=DAY))
    table = connect(stream)["table"]
    assert table.schema.names == ["k", "valid_from", "valid_to", "x"]
    assert table.changes_schema.names == ["epoch", "k", "valid_from", "x", "deleted"]
    assert table.changes_schema.field("epoch").type == pa.int64()
    first = table.changes().read_next_batch().to_pylist()[0]
    assert first["epoch"] == 0
    assert seconds(first["valid_from"]) is not None


def test_a_column_of_the_table_keeps_its_name(stream: Stream):
    stream.batch(left=[("a", 1, 7)])
    frame = stream.source("left").select("k", F.col("x").alias("epoch"), F.lit(1).alias("deleted"))
    stream.run(hfs.materialize(frame, by="k", state=stream.state(), name="table"))
    row = connect(stream)["table"].changes().read_all().to_pylist()
    assert row == [{"_epoch": 0, "k": "a", "epoch": 7, "deleted": 1, "_deleted": False}]


@pytest.mark.usefixtures("batches")
def test_changes_of_both_tables_of_a_join(stream: Stream):
    joined = hfs.join_table(
        stream.source("left"),
        stream.source("right").drop("n"),
        by="k",
        left_on="t",
        right_on="since",
        history_retention=DAY,
        state=stream.state(),
        name="join",
    )
    stream.run(joined)
    tables = connect(stream)["join"]
    assert sorted(tables) == ["left", "right"]
    for table in tables.values():
        assert check(table) > 30


AGGS = {
    "n": "count",
    "total": ("sum", "x"),
    "least": ("min", "x"),
    "mean": ("avg", "x"),
    "different": ("count_distinct", "x"),
    "newest": ("max_by", "x", "t"),
}
WINDOWS = {
    "none": {},
    "tumbling": {"on": "t", "window": hfs.window("100 seconds"), "retention": DAY},
    "session": {"on": "t", "window": hfs.session_window("30 seconds"), "retention": DAY},
}


@pytest.mark.usefixtures("batches")
@pytest.mark.parametrize("window", WINDOWS)
def test_changes_of_groups_are_their_new_results(stream: Stream, window: str):
    frame = hfs.aggregate(
        stream.source("left"),
        by="k",
        aggs=AGGS,
        state=stream.state(),
        name="groups",
        **WINDOWS[window],
    )
    stream.run(frame)
    table = connect(stream)["groups"]
    assert check(table) > 30
    if window == "session":
        changes = table.changes().read_all()
        assert changes.filter(changes["deleted"]).num_rows > 0, "no session was merged"


@pytest.mark.parametrize("function", ["collect_list", "collect_set"])
def test_groups_of_collected_values_have_no_changes(stream: Stream, function: str):
    stream.batch(left=[("a", 1, 1)])
    aggs = {"n": "count", "all": (function, "x")}
    frame = hfs.aggregate(
        stream.source("left"), by="k", aggs=aggs, state=stream.state(), name="groups"
    )
    stream.run(frame)
    with pytest.raises(UnsupportedOperationError, match=f"column all is a {function}: its values"):
        connect(stream)["groups"].changes()


@pytest.fixture
def kinds(stream: Stream) -> Any:
    """The tables of a processor with every kind of store, after puts and deletes."""
    draw = random.Random(5)
    put: list[tuple[str, int]] = []
    for number in range(5):
        rows = [(draw.choice(KEYS), number, number * 10 + index) for index in range(1, 9)]
        rows += [(key, number, -x) for key, x in draw.sample(put, min(3, len(put)))]
        put += [(key, x) for key, _, x in rows if x > 0]
        stream.batch(left=rows)
    frame = hfs.process(
        stream.source("left"), EveryChange(), by="k", schema=OUT, state=stream.state(), name="kinds"
    )
    stream.run(frame)
    return connect(stream)["kinds"]


def test_changes_of_every_kind_of_a_processors_store(kinds: Any):
    assert len(kinds) == 9
    for name, table in kinds.items():
        assert check(table, many=name == "many") > 15
        rows = table.changes().read_all()
        assert (rows.filter(rows["deleted"]).num_rows > 0) == (name != "many")


def test_a_partition_is_read_alone(stream: Stream):
    for number in range(3):
        stream.batch(left=[(key, number, number) for key in KEYS])
    stream.run(stored(stream))
    reader = connect(stream)
    table = reader["table"]
    parts = [
        table.changes(partition=number).read_all().to_pylist()
        for number in range(reader.partitions)
    ]
    assert all(parts)
    whole = [row for epoch in range(3) for part in parts for row in part if row["epoch"] == epoch]
    assert table.changes().read_all().to_pylist() == whole
    with pytest.raises(ValueError, match="no partition 2: the state has 2 partitions"):
        table.changes(partition=2)


def test_a_range_of_epochs_includes_both_bounds(stream: Stream):
    for number in range(5):
        stream.batch(left=[("a", number, number)])
    stream.run(stored(stream))
    table = connect(stream)["table"]

    def values(**span: int) -> list[int]:
        return table.changes(**span).read_all()["x"].to_pylist()

    assert values() == [0, 1, 2, 3, 4]
    assert values(from_epoch=3) == [3, 4]
    assert values(to_epoch=1) == [0, 1]
    assert values(from_epoch=1, to_epoch=2) == [1, 2]
    assert values(from_epoch=5) == values(from_epoch=3, to_epoch=2) == []
    with pytest.raises(NotUpToBoundError, match="has not reached epoch 5"):
        table.changes(to_epoch=5)


def test_a_large_epoch_comes_in_batches(stream: Stream, spark):
    stream.batch(left=[("a", 1, 1)])
    rows = 50_000
    frame = stream.source("left").select(F.explode(F.sequence(F.lit(1), F.lit(rows))).alias("k"))
    frame = frame.select("k", F.repeat(F.lit("x"), 500).alias("x"))
    stream.run(hfs.materialize(frame, by="k", state=stream.state(), name="table"))
    sizes = [batch.num_rows for batch in connect(stream)["table"].changes()]
    assert sum(sizes) == rows
    assert max(sizes) <= 10_000


def remove_epoch(stream: Stream, epoch: int) -> None:
    (folder,) = (f for f in (stream.root / "log").iterdir() if int(f.name) == epoch)
    shutil.rmtree(folder)


def test_a_lost_epoch_is_an_error_that_names_the_oldest_one(stream: Stream):
    for number in range(5):
        stream.batch(left=[("a", number, number)])
    stream.run(stored(stream))
    table = connect(stream)["table"]
    for epoch in (0, 1):
        remove_epoch(stream, epoch)
    assert table.oldest_changes() == 2
    for span in ({"from_epoch": 0}, {"from_epoch": 1, "to_epoch": 3}):
        with pytest.raises(ChangesLostError, match="the oldest epoch that it holds is 2"):
            table.changes(**span)
    with pytest.raises(ChangesLostError, match="changes of epoch 1: the oldest .* is 2"):
        table.changes(to_epoch=1)
    assert table.changes().read_all()["x"].to_pylist() == [2, 3, 4]
    # The epochs before a gap cannot be used.
    remove_epoch(stream, 3)
    assert table.oldest_changes() == 4
    with pytest.raises(ChangesLostError, match="changes of epoch 2: the oldest .* is 4"):
        table.changes(from_epoch=2)


def test_an_epoch_that_is_removed_during_a_read_is_lost(stream: Stream):
    for number in range(12):
        stream.batch(left=[("a", number, number)])
    stream.run(stored(stream))
    table = connect(stream)["table"]
    changes = table.changes()
    assert changes.read_next_batch()["epoch"].to_pylist() == [0]
    # Epoch 10 is removed first, so epoch 11 is the oldest usable epoch from the first removal on.
    for epoch in reversed(range(11)):
        remove_epoch(stream, epoch)
    with pytest.raises(ChangesLostError, match="the oldest epoch that it holds is 11"):
        changes.read_all()


def test_a_trimmed_log_is_read_from_its_oldest_epoch(stream: Stream):
    state = {"snapshot_interval": "1 microsecond", "retain_epochs": 1}
    for number in range(8):
        stream.batch(left=[("a", number, number)])
        stream.run(stored(stream, state=stream.state(**state)))
    table = connect(stream)["table"]
    oldest = table.oldest_changes()
    assert oldest is not None
    assert oldest > 0, "no epoch was removed"
    found = table.changes().read_all()["x"].to_pylist()
    # A host may remove more meanwhile.
    assert found == list(range(max(oldest, found[0]), 8))
    with pytest.raises(ChangesLostError, match=r"the oldest epoch that it holds is \d"):
        table.changes(from_epoch=0)


def test_a_damaged_object_is_refused_with_its_path(stream: Stream):
    for number in range(2):
        stream.batch(left=[("a", number, number)])
    stream.run(stored(stream))
    table = connect(stream)["table"]
    path = max((p for p in stream.objects("table") if p.parent.name.endswith("1")), key=size)
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)
    with pytest.raises(RestoreError, match=f"log object .*{path.name} is damaged"):
        table.changes().read_all()
    assert table.changes(to_epoch=0).read_all()["x"].to_pylist() == [0]


def size(path: Path) -> int:
    return path.stat().st_size


def test_an_object_with_other_changes_than_the_decided_ones_is_refused(stream: Stream):
    for number in range(2):
        stream.batch(left=[(key, number, number) for key in KEYS])
    stream.run(stored(stream))
    table = connect(stream)["table"]
    first, second = (path for path in stream.objects("table") if ".0." in path.name)
    shutil.copy(first, second)
    with pytest.raises(RestoreError, match="under a wrong name"):
        table.changes().read_all()


def take_back_moves(stream: Stream) -> None:
    """Puts the moved objects back, as if the rewind had ended after it put its mark."""
    for removed in (stream.root / "removed").iterdir():
        shutil.copytree(removed, stream.root, dirs_exist_ok=True)


def test_changes_of_an_epoch_that_was_taken_back_are_not_read(stream: Stream):
    for number in range(3):
        stream.batch(left=[("a", number, number)])
    stream.run(stored(stream))
    reader = connect(stream)
    table = reader["table"]
    assert table.changes().read_all()["x"].to_pylist() == [0, 1, 2]
    assert reader.newest_rewind_of(2) == 0
    stream.rewind(1)
    assert reader.newest_rewind_of(0) == 0
    assert reader.newest_rewind_of(2) == reader.newest_rewind_of(1) > 0
    # This holds at once, also if the reader has cached the decisions.
    assert table.changes().read_all()["x"].to_pylist() == [0]
    with pytest.raises(NotUpToBoundError, match="epoch 0 is the newest"):
        table.changes(to_epoch=1)
    negated = stream.source("left").select("k", "t", (-F.col("x")).alias("x"))
    stream.run(hfs.materialize(negated, by="k", state=stream.state(), name="table"))
    assert table.changes().read_all()["x"].to_pylist() == [0, -1, -2]


@pytest.mark.parametrize("again", [True, False], ids=["computed_again", "gone"])
def test_a_rewind_of_epochs_that_were_read_ends_the_read(stream: Stream, again: bool):
    for number in range(12):
        stream.batch(left=[("a", number, number)])
    stream.run(stored(stream))
    changes = connect(stream)["table"].changes()
    for number in range(4):
        assert changes.read_next_batch()["x"].to_pylist() == [number]
    stream.rewind(2)
    if again:
        # Enough that all epochs of the read exist again.
        for number in range(12, 24):
            stream.batch(left=[("a", number, number)])
        negated = stream.source("left").select("k", "t", (-F.col("x")).alias("x"))
        stream.run(hfs.materialize(negated, by="k", state=stream.state(), name="table"))
    with pytest.raises(RestoreError, match="a rewind has taken back epoch"):
        changes.read_all()


def test_objects_that_an_unfinished_rewind_took_back_are_not_read(stream: Stream):
    for number in range(3):
        stream.batch(left=[("a", number, number)])
    stream.run(stored(stream))
    stream.rewind(1)
    take_back_moves(stream)
    assert len(stream.log("table")) == 3
    assert connect(stream)["table"].changes().read_all()["x"].to_pylist() == [0]


def test_a_rewind_of_epochs_that_were_not_read_is_followed(stream: Stream):
    for number in range(12):
        stream.batch(left=[("a", number, number)])
    stream.run(stored(stream))
    changes = connect(stream)["table"].changes(to_epoch=8)
    assert changes.read_next_batch()["x"].to_pylist() == [0]
    stream.rewind(8)
    negated = stream.source("left").select("k", "t", (-F.col("x")).alias("x"))
    stream.run(hfs.materialize(negated, by="k", state=stream.state(), name="table"))
    found = changes.read_all()["x"].to_pylist()
    assert found[:-1] == [1, 2, 3, 4, 5, 6, 7]
    assert found[-1] <= -8


def rate(partition: int, currency: str, value: int) -> pa.RecordBatch:
    """A right row of the join at a time that is its value."""
    row = (partition, False, None, value, currency, None, value)
    columns = [[cell] for cell in row]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, LAYOUT, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=LAYOUT)


NOTHING = [pa.RecordBatch.from_pylist([], schema=LAYOUT)]


@pytest.fixture
def query(tmp_path: Path) -> Any:
    (tmp_path / "host").mkdir()
    host = Host(tmp_path / "host")
    yield Query(host, tmp_path / "state", JOIN, partitions=2)
    host.stop()


def rates(query: Query, **span: int) -> list[tuple[int, int]]:
    rows = hf.connect(query.root)["join"].changes(**span).read_all().to_pylist()
    return [(row["epoch"], row["rate"]) for row in rows]


def test_only_objects_of_the_run_that_decided_are_read(query: Query):
    # The first run ends after one of its two tasks. The second run has another row.
    query.epoch([[rate(0, "EUR", 1)]], commit=False)
    query.epoch([[rate(0, "EUR", 2)], NOTHING])
    heads = sorted(path.name for path in (query.root / "log").rglob("join.0.*"))
    assert len(heads) == 2, "both runs have staged"
    # The host decides the epoch when it opens the next one.
    query.epoch([NOTHING, NOTHING])
    assert rates(query) == [(0, 2)]


def test_an_epoch_is_read_once_it_is_committed(query: Query):
    query.epoch([[rate(0, "EUR", 1)], NOTHING], commit=False)
    table = hf.connect(query.root)["join"]
    assert table.oldest_changes() is None
    assert table.changes().read_all().num_rows == 0
    query.epoch([[rate(0, "EUR", 1)], NOTHING])
    query.epoch([[rate(0, "EUR", 2)], NOTHING], commit=False)
    assert rates(query) == [(0, 1)]
    with pytest.raises(NotUpToBoundError, match="epoch 0 is the newest"):
        table.changes(to_epoch=1)
    query.epoch([[rate(0, "EUR", 2)], NOTHING])
    assert rates(query) == [(0, 1), (1, 2)]


def test_changes_of_a_running_query_follow_it(stream: Stream):
    stream.batch(left=[("a", 0, 0)])
    frame = hfs.process(
        stream.source("left"), Hits(), by="k", schema=OUT, state=stream.state(), name="visits"
    )
    writer = frame.writeStream.format("noop").option("checkpointLocation", stream.checkpoint)
    query = writer.trigger(processingTime="0 seconds").start()
    try:
        query.processAllAvailable()
        table, next_epoch, found = connect(stream)["visits"], 0, []
        for number in range(1, 12):
            stream.batch(left=[("a", number, number)])
            if number % 3 == 0:
                query.processAllAvailable()
            rows = table.changes(from_epoch=next_epoch).read_all().to_pylist()
            found += [row["value"] for row in rows]
            next_epoch = max([next_epoch, *(row["epoch"] + 1 for row in rows)])
        query.processAllAvailable()
        rows = table.changes(from_epoch=next_epoch).read_all().to_pylist()
        found += [row["value"] for row in rows]
        assert found == list(range(1, 13))
    finally:
        query.stop()
