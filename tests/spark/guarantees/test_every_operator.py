"""What all operators share: stores in memory, and far-future rows."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from processors import OUT, Hits
from pyspark.sql import DataFrame
from streams import Stream, kill_hosts, sides

import holdfast.spark as hfs

FAR = datetime(2999, 1, 1, tzinfo=UTC)
BY_TIME = {"by": "k", "on": "t"}
NEAR = {"by": "k", "left_on": "t", "right_on": "since"}
COUNT = {"n": "count"}
OPERATORS: dict[str, Callable[..., DataFrame]] = {
    "aggregate": lambda left, _, **given: hfs.aggregate(left, aggs=COUNT, **BY_TIME, **given),
    "windows": lambda left, _, **given: hfs.aggregate(
        left, aggs=COUNT, window=hfs.window("10 seconds"), emit="close", **BY_TIME, **given
    ),
    "drop_duplicates": lambda left, _, **given: hfs.drop_duplicates(
        left, within="1 hour", **BY_TIME, **given
    ),
    "materialize": lambda left, _, **given: hfs.materialize(
        left, name="materialize", **BY_TIME, **given
    ),
    "process": lambda left, _, **given: hfs.process(left, Hits(), schema=OUT, **BY_TIME, **given),
    "join_asof": lambda left, right, **given: hfs.join_asof(
        left, right, history_retention="1 hour", grace="2 seconds", **NEAR, **given
    ),
    "join_table": lambda left, right, **given: hfs.join_table(left, right, **NEAR, **given),
    "foreign_key": lambda left, right, **given: hfs.join_table(
        left.selectExpr("x id", "k", "t"), right, foreign_key="k", **{**NEAR, "by": "id"}, **given
    ),
    "join_window": lambda left, right, **given: hfs.join_window(
        left, right, before="5 seconds", after="1 second", how="left", **NEAR, **given
    ),
}
# A join by a foreign key is two operators.
NAMES = {*OPERATORS, "foreign_key_left"}


def evaluate(
    stream: Stream,
    *,
    ahead: Sequence[tuple[Any, ...]] = (),
    between: Callable[[], Any] = lambda: None,
    persistent: bool = True,
    **options: Any,
) -> dict[int, dict[str, list[Any]]]:
    """Returns each operator's results of two micro-batches; the second depends on the state."""
    stream.partitions = 1
    stream.batch(
        left=[
            ("a", 1, -1),
            ("b", 1, -2),
            ("a", 4, -3),
            ("a", 2, 1),
            ("b", 3, 2),
            ("a", 5, 3),
            *ahead,
        ]
    )
    stream.batch(left=[("a", 6, 4), ("b", 2, 5), ("c", 7, -4), ("c", 12, 6)])
    state = stream.state(snapshot_interval="0 seconds")
    found: dict[int, dict[str, list[Any]]] = {}

    def each(frame: DataFrame, batch: int) -> None:
        if batch == 1:
            between()
        found[batch] = {}
        for name, operator in OPERATORS.items():
            materialized = hfs.Materialized(name, persistent=persistent)
            result = operator(*sides(frame), materialized=materialized, state=state, **options)
            found[batch][name] = sorted(map(tuple, result.collect()), key=str)

    stream.run(stream.source("left"), each=hfs.foreach_batch(each))
    return found


@pytest.mark.parametrize("option", ["materialized", "max_ahead"])
def test_no_operator_is_left_out(option: str):
    functions = {
        name: getattr(hfs, name) for name in hfs.__all__ if inspect.isfunction(getattr(hfs, name))
    }
    taking = {
        name
        for name, function in functions.items()
        if option in inspect.signature(function).parameters
    }
    assert taking == functions.keys() & OPERATORS.keys()


@pytest.fixture(scope="module")
def expected(spark, tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, list[Any]]]:
    found = evaluate(Stream(spark, tmp_path_factory.mktemp("plain")))
    assert all(found[1].values()), "an operator's second result is empty"
    return found


def test_stores_in_memory_are_restored_from_the_log(stream: Stream, expected: dict):
    killed: list[int] = []
    assert (
        evaluate(stream, between=lambda: killed.extend(kill_hosts()), persistent=False) == expected
    )
    assert killed
    stored = {
        file.stem: json.loads(file.read_text())
        for file in (stream.root / "operators").glob("*.json")
    }
    assert {
        name: operator["settings"].get("persistent") for name, operator in stored.items()
    } == dict.fromkeys(NAMES, False)
    assert not (stream.root / "snapshots").exists()


def test_far_future_rows_are_left_out(stream: Stream, expected: dict):
    assert evaluate(stream, ahead=[("a", FAR, 7), ("a", FAR, -5)], max_ahead="1 day") == expected
    objects: list[Path] = list((stream.root / "ahead").glob("*/*.arrow"))
    assert sorted((file.parent.name, file.name) for file in objects) == [
        (name, f"{0:020}.0.arrow") for name in sorted(NAMES)
    ]
