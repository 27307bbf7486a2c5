"""Runs a query of Pathway in Pathway's own environment, until it has read all files.

The argument is a JSON object of the job. A line of JSON is printed: the wall time from the start
of the run to the end of the minibatch with the last row, and the answer.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time as clock
from typing import TYPE_CHECKING, Any

import pathway as pw  # type: ignore[import-not-found]

if TYPE_CHECKING:
    from collections.abc import Callable

HOUR, DAY = 3_600_000_000, 86_400_000_000


class Order(pw.Schema):  # type: ignore[misc]
    """A row of the orders, times in microseconds."""

    k: int
    t: int
    x: int
    note: str


class Rate(pw.Schema):  # type: ignore[misc]
    """A row of the rates."""

    k: int
    since: int
    v: float


def joined(orders: pw.Table, rates: pw.Table) -> pw.Table:
    """Rows of the same key within an hour. State older than two days is dropped."""
    # Without this, one file is read far ahead of the other, and rows that match are dropped.
    pw.io.register_input_synchronization_group(orders.t, rates.since, max_difference=DAY)
    return pw.temporal.interval_join(
        orders,
        rates,
        orders.t,
        rates.since,
        pw.temporal.interval(-HOUR, HOUR),
        orders.k == rates.k,
        behavior=pw.temporal.common_behavior(cutoff=2 * DAY),
    ).select(orders.k, orders.t, orders.x, orders.note, rates.v)


def best(orders: pw.Table, rates: pw.Table) -> pw.Table:
    """The best match of each key."""
    rows = joined(orders, rates)
    return rows.groupby(rows.k).reduce(rows.k, best=pw.reducers.max(rows.v))


QUERIES: dict[str, tuple[Callable[[pw.Table, pw.Table], pw.Table], str]] = {
    "join": (joined, "x"),
    "best match": (best, "best"),
}
"""By name: the query, and the column of its result whose sum is in the answer."""


class Run:
    """What has been read and answered so far."""

    def __init__(self, rows: dict[str, int]) -> None:
        self._rows = rows
        self._last: dict[str, int] = {}
        """The minibatch with the last row of a side."""
        self._answer: dict[str, Any] = {"rows": 0, "total": 0}
        self._start = clock.perf_counter()

    def count(self, side: str, table: pw.Table) -> None:
        """Watches for the last row of a side."""

        def on_change(*, row: dict[str, Any], time: int, is_addition: bool, **_: Any) -> None:
            if is_addition and row["rows"] == self._rows[side]:
                self._last[side] = time

        pw.io.subscribe(table.reduce(rows=pw.reducers.count()), on_change=on_change)

    def answer(self, result: pw.Table, column: str) -> None:
        """Watches the result, and ends the process after the last minibatch."""

        def on_change(*, row: dict[str, Any], is_addition: bool, **_: Any) -> None:
            if is_addition:
                self._answer = row

        def on_time_end(time: int) -> None:
            if len(self._last) == len(self._rows) and time >= max(self._last.values()):
                seconds = clock.perf_counter() - self._start
                print(json.dumps({"seconds": seconds, **self._answer}), flush=True)
                os._exit(0)  # a stream of files has no end

        answer = result.reduce(rows=pw.reducers.count(), total=pw.reducers.sum(result[column]))
        pw.io.subscribe(answer, on_change=on_change, on_time_end=on_time_end)

    def go(self, store: str, interval: int) -> None:
        """Runs with the inputs and offsets persisted; other persistence needs a licence key."""
        backend = pw.persistence.Backend.filesystem(store)
        config = pw.persistence.Config(backend, snapshot_interval_ms=interval)
        self._start = clock.perf_counter()
        pw.run(monitoring_level=pw.MonitoringLevel.NONE, persistence_config=config)


def main() -> None:
    logging.disable(logging.WARNING)  # it reports each file that it reads
    job = json.loads(sys.argv[1])
    orders = pw.io.csv.read(job["orders"], schema=Order, name="orders")
    rates = pw.io.csv.read(job["rates"], schema=Rate, name="rates")
    make, column = QUERIES[job["query"]]
    result = make(orders, rates)
    pw.io.null.write(result)
    run = Run(job["rows"])
    run.count("orders", orders)
    run.count("rates", rates)
    run.answer(result, column)
    run.go(job["store"], job["interval"])


main()
