"""`holdfast top`: what the partitions of a running query do."""

import sys
import time
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
    help="The time between two refreshes of a terminal.",
)
@output.json_option("a line for each partition, as StateReader.report() has it")
def top(
    *, root: str, storage_options: options.StorageOptions, interval: float, as_json: bool
) -> None:
    """Shows the state and the figures of each partition of a running query.

    A terminal is refreshed until Ctrl-C; a pipe gets the figures once.
    """
    with options.connect(root, storage_options) as reader:
        if as_json:
            for partition in reader.report()["partitions"]:
                output.show_json(partition)
        elif sys.stdout.isatty():
            _watch(reader, interval)
        else:
            output.show_table(_TITLES, map(_row, reader.report()["partitions"]))


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
        report = reader.report()
    except HoldfastError as error:
        return Text(f"not refreshed: {output.cell_text(str(error))}")
    table = output.rich_table(_TITLES, map(_row, report["partitions"]))
    table.title = f"epoch {output.cell_text(report['epoch'])}"
    return table


def _row(partition: dict[str, Any]) -> tuple[object, ...]:
    begin = (partition["operator"], partition["partition"], partition["condition"]["text"])
    figures = partition["figures"]
    if figures is None:
        return (*begin, *[None] * (len(_TITLES) - len(begin)))
    database, unused = figures["database"], figures["unused_rows"]
    micros, age = figures["stream_time"], figures["snapshots"]["age_seconds"]
    return (
        *begin,
        partition["host"],
        figures["epoch"],
        None if micros is None else _EPOCH + timedelta(microseconds=micros),
        database["rows"],
        round((database["files"] + database["unflushed"]) / 2**20, 1),
        unused["late"] + unused["expired"],
        unused["dropped"] + unused["far_future"],
        None if age is None else round(age),
    )
