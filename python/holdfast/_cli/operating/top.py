"""`holdfast top`: what the partitions of a running query do."""

import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click
from rich.live import Live
from rich.table import Table
from rich.text import Text

import holdfast as hf
from holdfast._cli import options, output
from holdfast.errors import HoldfastError

_TITLES: Final = (
    "operator",
    "partition",
    "state",
    "host",
    "epoch",
    "stream time",
    "rows",
    "MiB",
    "late",
    "dropped",
    "snapshot s",
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@click.command(short_help="Shows each partition of a running query.")
@options.root_argument()
@click.option(
    "--interval",
    type=options.seconds,
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="A terminal is refreshed so often.",
)
@output.json_option("a line for each partition, with the figures of docs/metrics.md")
def top(
    *, root: str, storage_options: options.StorageOptions, interval: float, as_json: bool
) -> None:
    """Shows the state and the figures of each partition of a running query.

    A terminal is refreshed until Ctrl-C; a pipe gets the figures once.
    """
    with options.connect(root, storage_options) as reader:
        if as_json:
            for host in reader.metrics():
                for partition in host["partitions"]:
                    output.show_json({"host": host["host"], **partition})
        elif sys.stdout.isatty():
            _watch(reader, interval)
        else:
            output.show_table(_TITLES, _rows(reader))


def _watch(reader: hf.StateReader, interval: float) -> None:
    """Refreshes the terminal until it is interrupted, at most 10 times a second."""
    with Live(auto_refresh=False) as live:
        try:
            while True:
                live.update(_shown(reader), refresh=True)
                time.sleep(max(interval, 0.1))
        except KeyboardInterrupt:
            return


def _shown(reader: hf.StateReader) -> Table | Text:
    """Returns the partitions as a table, or why there are none for the moment."""
    try:
        table = output.rich_table(_TITLES, _rows(reader))
        table.title = f"epoch {output.cell_text(reader.epoch)}"
    except HoldfastError as error:
        return Text(f"not refreshed: {output.cell_text(str(error))}")
    return table


def _rows(reader: hf.StateReader) -> Iterator[tuple[object, ...]]:
    """Returns a row for each partition; one that no host has, has a row that says so."""
    final = reader.epoch
    found = [(host["host"], one) for host in reader.metrics() for one in host["partitions"]]
    operators = {operator for operator, _ in reader.tables}
    operators |= {partition["operator"] for _, partition in found}
    for operator in sorted(operators):
        for number in range(reader.partitions):
            here = [
                (host, one)
                for host, one in found
                if (one["operator"], one["partition"]) == (operator, number)
            ]
            if not here:
                yield (operator, number, "no host answers", *[None] * (len(_TITLES) - 3))
            for host, partition in here:
                yield (operator, number, *_figures(final, host, partition))


def _figures(final: int | None, host: str, partition: dict[str, Any]) -> tuple[object, ...]:
    database, unused = partition["database"], partition["unused_rows"]
    micros, age = partition["stream_time"], partition["snapshots"]["age_seconds"]
    return (
        _state(final, partition),
        host,
        partition["epoch"],
        None if micros is None else _EPOCH + timedelta(microseconds=micros),
        database["rows"],
        round((database["files"] + database["unflushed"]) / 2**20, 1),
        unused["late"] + unused["expired"],
        unused["dropped"] + unused["far_future"],
        None if age is None else round(age),
    )


def _state(final: int | None, partition: dict[str, Any]) -> str:
    """Returns the state of a partition, or its problem, in a few words."""
    epoch, snapshots = partition["epoch"], partition["snapshots"]
    behind = 0 if final is None or epoch is None else final - epoch
    if partition["is_busy"]:
        return "opens or restores"
    if snapshots["rebuilds"]:
        return f"rebuilt {snapshots['rebuilds']} times: look at the disk"
    # A host applies an epoch when the next one begins.
    if behind > 1:
        return f"{behind} epochs behind"
    return "uploads a snapshot" if snapshots["is_uploading"] else "in order"
