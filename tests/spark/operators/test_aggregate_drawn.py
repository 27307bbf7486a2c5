"""Windows of every kind over rows that Hypothesis draws, in any micro-batches, against polars.

The state host runs without Spark, with epochs, log and replays. The model of rows later than the
grace is in `rust/host/tests/operators/aggregate/model.rs`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hosted import Host, Query
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast.spark as hfs

GRACE = 9
EXAMPLES = int(os.environ.get("HOLDFAST_EXAMPLES", "4"))
"""The number of examples of each kind of window and each emit."""
LAYOUT = pa.schema(
    [
        ("pid", pa.int32()),
        ("side", pa.bool_()),
        ("deleted", pa.bool_()),
        ("t", pa.timestamp("us")),
        ("k0", pa.string()),
        ("l0", pa.int64()),
        ("l1", pa.int64()),
    ]
)
FUNCTIONS = (
    "count",
    "sum",
    "min",
    "max",
    "avg",
    "first",
    "last",
    "count_distinct",
    "collect_list",
    "collect_set",
    "max_by",
    "min_by",
)
RANKED = ("max_by", "min_by")
WINDOWS = [
    hfs.window("10 seconds"),
    hfs.window("10 seconds", "4 seconds"),
    hfs.session_window("4 seconds"),
    hfs.sliding_window("6 seconds"),
]
EPOCH = datetime(1970, 1, 1)
Row = tuple[str | None, int, int | None]


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with tempfile.TemporaryDirectory(prefix="hf") as folder:
        host = Host(Path(folder))
        yield host
        host.stop()


@st.composite
def arrivals(draw: st.DrawFn) -> tuple[list[list[Row]], list[bool], int]:
    """Micro-batches of rows within the grace, whether each is replayed, and the partition count."""
    row = st.tuples(
        st.sampled_from([None, "", "a", "b"]),
        st.integers(-20, 40),
        st.none() | st.integers(-3, 3),
        st.integers(0, GRACE),
    )
    rows = sorted(draw(st.lists(row, min_size=1, max_size=40)), key=lambda row: row[1] + row[3])
    cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    batches = [
        [row[:3] for row in rows[a:b]] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)
    ]
    replays = draw(st.lists(st.booleans(), min_size=len(batches), max_size=len(batches)))
    return batches, replays, draw(st.integers(1, 3))


def _partition(key: str | None, partitions: int) -> int:
    """The partition of a key. A key that only ends a stream contains it: `end2`."""
    return (
        int((key or "").removeprefix("end"))
        if (key or "").startswith("end")
        else ord(key or "?") % partitions
    )


def _order(number: int | None) -> int | None:
    """The order of a row: several numbers have the same one."""
    return None if number is None else number * number


def _batches(rows: list[Row], partitions: int) -> list[list[pa.RecordBatch]]:
    """The rows of each partition, in reverse order."""
    found = []
    for partition in range(partitions):
        ours = [row for row in reversed(rows) if _partition(row[0], partitions) == partition]
        columns = {
            "pid": [partition] * len(ours),
            "side": [True] * len(ours),
            "deleted": [None] * len(ours),
            "t": [EPOCH + timedelta(seconds=time) for _, time, _ in ours],
            "k0": [key for key, *_ in ours],
            "l0": [number for *_, number in ours],
            "l1": [_order(number) for *_, number in ours],
        }
        found.append([pa.RecordBatch.from_pydict(columns, schema=LAYOUT)])
    return found


def _known(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    known = [
        (
            row["k"],
            row["window_start"],
            row["window_end"],
            row["rows"],
            *(row[function] for function in FUNCTIONS),
        )
        for row in rows
        if not (row["k"] or "").startswith("end")
    ]
    return sorted(known, key=repr)


def _of_polars(rows: list[Row], window: Any) -> list[tuple[Any, ...]]:
    """The expected result by polars: sliding windows use rolling, other windows group_by."""
    frame = pl.DataFrame(
        [
            (key, EPOCH + timedelta(seconds=time), number, _order(number))
            for key, time, number in rows
        ],
        schema={"k": pl.String, "t": pl.Datetime("us"), "x": pl.Int64, "o": pl.Int64},
        orient="row",
    ).sort("k", "t", "x")
    x, order = pl.col("x"), pl.col("o")
    values = {
        "rows": pl.len(),
        "count": x.count(),
        "sum": pl.when(x.count() > 0).then(x.sum()),
        "min": x.min(),
        "max": x.max(),
        "avg": x.mean(),
        "first": x.first(),
        "last": x.last(),
        "count_distinct": x.drop_nulls().n_unique(),
        "collect_list": x.drop_nulls(),
        "collect_set": x.drop_nulls().unique().sort(),
        "max_by": x.filter(order == order.max()).max(),
        "min_by": x.filter(order == order.min()).min(),
    }
    columns = [value.alias(name) for name, value in values.items()]
    length = pl.duration(microseconds=window.length)
    if isinstance(window, hfs.SessionWindow):
        apart = (pl.col("t").diff() > length).fill_null(value=True).cum_sum().over("k")
        ends = [
            pl.col("t").min().alias("window_start"),
            (pl.col("t").max() + length).alias("window_end"),
        ]
        found = (
            frame.with_columns(apart.alias("session")).group_by("k", "session").agg(*ends, *columns)
        )
    elif isinstance(window, hfs.SlidingWindow):
        period = f"{window.length}us"
        before = frame.rolling("t", period=period, closed="both", group_by="k").agg(*columns)
        behind = frame.rolling("t", period=period, offset="1us", closed="both", group_by="k").agg(
            *columns
        )
        behind = behind.filter(pl.col("rows") > 0).with_columns(
            pl.col("t") + pl.duration(microseconds=window.length + 1)
        )
        found = pl.concat([before, behind]).unique(["k", "t"])
        found = found.with_columns(
            (pl.col("t") - length).alias("window_start"), pl.col("t").alias("window_end")
        )
    else:
        first = pl.col("t").dt.truncate(f"{window.slide}us")
        starts = [
            first - pl.duration(microseconds=n * window.slide)
            for n in range(-(-window.length // window.slide))
        ]
        found = frame.with_columns(pl.concat_list(starts).alias("window_start")).explode(
            "window_start"
        )
        found = found.filter(pl.col("t") < pl.col("window_start") + length)
        found = found.group_by("k", "window_start", maintain_order=True).agg(*columns)
        found = found.with_columns((pl.col("window_start") + length).alias("window_end"))
    return _known(found.to_dicts())


def _operator(window: Any, emit: str) -> dict[str, Any]:
    aggregates = [
        {"name": "rows", "function": "count"},
        *(
            {"name": f, "function": f, "column": 0, **({"order": 1} if f in RANKED else {})}
            for f in FUNCTIONS
        ),
    ]
    return {
        "name": "sums",
        "kind": "aggregate",
        "keys": ["k"],
        "left": ["x", "o"],
        "aggregates": aggregates,
        "window": window.request,
        "timed": True,
        "grace": GRACE * 1_000_000,
        "emit": emit,
    }


@pytest.mark.parametrize("emit", ["close", "update"])
@pytest.mark.parametrize("window", WINDOWS, ids=["tumbling", "hopping", "session", "sliding"])
def test_windows_equal_polars_for_any_micro_batches(host: Host, window: Any, emit: str):
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(arrivals())
    def check(drawn: tuple[list[list[Row]], list[bool], int]) -> None:
        batches, replays, partitions = drawn
        rows = [row for batch in batches for row in batch]
        expected = _of_polars(rows, window)
        # The host still has the databases open: RocksDB may write a file into a folder that is
        # being removed.
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
            query = Query(host, Path(root), _operator(window, emit), partitions)
            assert _known(query.static(_batches(rows, partitions))) == expected
            found: dict[Any, dict[str, Any]] = {}
            ends: list[Row] = [(f"end{partition}", 1_000, None) for partition in range(partitions)]
            for batch, replay in zip([*batches, ends], [*replays, False], strict=True):
                given = query.epoch(_batches(batch, partitions), commit=not replay)
                if replay:
                    assert _known(query.epoch(_batches(batch, partitions))) == _known(given), (
                        "a replay gives the same"
                    )
                for row in given:
                    if emit == "update" and isinstance(window, hfs.SessionWindow):
                        found = {
                            start: old
                            for start, old in found.items()
                            if old["k"] != row["k"]
                            or not row["window_start"] <= old["window_start"] < row["window_end"]
                        }
                    assert emit == "update" or (row["k"], row["window_start"]) not in found, (
                        "a window closes once"
                    )
                    found[row["k"], row["window_start"]] = row
            assert _known(list(found.values())) == expected

    check()
