"""Commands of administrators: `epochs`, `rewind`, `epoch drop`."""

from dataclasses import asdict

import click

from holdfast import _core
from holdfast._cli import options, output
from holdfast._progress import EpochProgress, OperatorProgress, read_progress

_COUNTS = ("input_rows", "output_rows", "late", "dropped", "expired", "ahead")
_MOVED = "one object: root, epoch, run (null if none was claimed), objects (how many were moved)"


@click.command(short_help="Shows the newest epochs of a query.")
@options.root_argument()
@click.option(
    "--last",
    type=click.IntRange(min=1, max=2**31),
    default=10,
    show_default=True,
    metavar="N",
    help="How many epochs.",
)
@output.json_option("a line for each epoch")
def epochs(*, root: str, storage_options: options.StorageOptions, last: int, as_json: bool) -> None:
    """Shows the newest epochs of a query: their rows by operator, and those that had no effect.

    The query may run meanwhile.
    """
    found = read_progress(root, dict(storage_options), last=last)
    if as_json:
        for epoch in found:
            output.show_json(asdict(epoch))
        return
    counts = (name.removesuffix("_rows") for name in _COUNTS)
    titles = ("epoch", "status", "run", "operator", *counts)
    output.show_table(
        titles,
        (
            _epoch_row(epoch, name, operator)
            for epoch in found
            for name, operator in epoch.operators.items() or [("", None)]
        ),
    )


def _epoch_row(
    epoch: EpochProgress, name: str, operator: OperatorProgress | None
) -> tuple[object, ...]:
    counts = [None if operator is None else getattr(operator, count) for count in _COUNTS]
    return (epoch.epoch, epoch.status, epoch.run, name, *counts)


@click.command(short_help="Takes a stopped query back to an epoch.")
@options.root_argument()
@click.option(
    "--epoch",
    type=options.epoch_number,
    metavar="EPOCH",
    required=True,
    help="The epoch to compute next.",
)
@output.json_option(_MOVED)
def rewind(
    *, root: str, storage_options: options.StorageOptions, epoch: int, as_json: bool
) -> None:
    """Takes state and checkpoint back, so that a given epoch is computed next.

    The query must be stopped. Sinks are not rewound: they receive that epoch and later ones a
    second time. Some sinks, such as Spark's file sink and Delta, skip epochs that they already
    have. They do not evaluate the query for these epochs, and the next epoch fails. Before the
    start, give such a sink a new output path, or take its log back, too (the file sink's
    _spark_metadata/<n> and <n>.compact, for n from that epoch on).
    """
    run, objects = _core.rewind(root, epoch, dict(storage_options))
    nothing = f"nothing had to be removed from {root}: start the query, epoch {epoch} is next"
    _show_removed(root, epoch, (run, objects), nothing, as_json=as_json)


@click.group()
def epoch() -> None:
    """Works on one epoch of a query."""


@epoch.command()
@options.root_argument()
@click.argument("epoch", type=options.epoch_number)
@output.json_option(_MOVED)
def drop(*, root: str, storage_options: options.StorageOptions, epoch: int, as_json: bool) -> None:
    """Removes what was staged of an epoch that Spark has not committed.

    New code may then compute other results. Use it only if no sink has the old code's output.
    """
    removed = _core.drop_epoch(root, epoch, dict(storage_options))
    nothing = f"nothing is staged of epoch {epoch} in {root}: nothing was removed"
    _show_removed(root, epoch, removed, nothing, as_json=as_json)


def _show_removed(
    root: str, epoch: int, removed: tuple[int, int] | None, nothing: str, *, as_json: bool
) -> None:
    run, objects = removed or (None, 0)
    if as_json:
        output.show_json({"root": root, "epoch": epoch, "run": run, "objects": objects})
    elif objects:
        click.echo(
            f"{objects} objects are now in removed/{run}/ of {root}: "
            f"start the query, epoch {epoch} is next"
        )
    else:
        click.echo(nothing)
