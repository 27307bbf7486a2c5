"""The command line `holdfast`: maintenance of a query's state."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from holdfast import _core
from holdfast._progress import read_progress
from holdfast.errors import HoldfastError


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit status.

    The status is 0, or 1 with the error on stderr. Raises `SystemExit` for invalid arguments.
    """
    asked = _parser().parse_args(arguments)
    try:
        asked.run(asked)
    except (HoldfastError, OSError, ValueError) as error:
        print(f"holdfast: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="holdfast", description="Maintenance of the state of PySpark queries."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    rewind = commands.add_parser(
        "rewind",
        help="take state and checkpoint back, so that a given epoch is computed next",
        description="Take the state of a stopped query, and Spark's checkpoint with it, back, so "
        "that the given epoch is computed next. Sinks are not rewound: they receive that epoch and "
        "later ones a second time. Sinks that skip epochs they already have, such as Spark's file "
        "sink and Delta, do not evaluate the query for these epochs, and the next epoch fails: "
        "before the start give such a sink a new output path, or take its own log back, too (the "
        "file sink's _spark_metadata/<n>, for n from that epoch on).",
    )
    _add_root_options(
        rewind,
        _core.rewind,
        "nothing had to be removed from {root}: start the query, epoch {epoch} is next",
    )
    rewind.add_argument("--epoch", type=_epoch, required=True, help="the epoch to compute next")

    epochs = commands.add_parser(
        "epochs",
        help="what happened in the newest epochs",
        description="Show the newest epochs of a query: their rows by operator, with those that "
        "had no effect. The query may run meanwhile.",
    )
    _add_root(epochs)
    epochs.add_argument(
        "--last", type=_count, default=10, metavar="N", help="how many epochs (default: 10)"
    )
    epochs.set_defaults(run=_epochs)

    epoch = commands.add_parser("epoch", help="one epoch of a query").add_subparsers(
        required=True, metavar="COMMAND"
    )
    drop = epoch.add_parser(
        "drop",
        help="remove what was staged of an epoch",
        description="Remove what was staged of an epoch that Spark has not committed, so that new "
        "code may compute other results. Use it only if no sink has the old code's output.",
    )
    _add_root_options(
        drop,
        _core.drop_epoch,
        "nothing is staged of epoch {epoch} in {root}: nothing was removed",
    )
    drop.add_argument("epoch", type=_epoch, help="the epoch")
    return parser


def _epochs(asked: Any) -> None:
    found = read_progress(asked.root, dict(asked.storage_option), last=asked.last)
    if asked.json:
        print(json.dumps([asdict(epoch) for epoch in found]))
        return
    titles = (
        "epoch",
        "status",
        "run",
        "operator",
        "input",
        "output",
        "late",
        "dropped",
        "expired",
        "ahead",
    )
    rows: list[tuple[object, ...]] = []
    for epoch in found:
        head = (epoch.epoch, epoch.status, "" if epoch.run is None else epoch.run)
        for name, operator in epoch.operators.items() or [("", None)]:
            counts = (
                ("",) * 6
                if operator is None
                else (
                    operator.input_rows,
                    operator.output_rows,
                    operator.late,
                    operator.dropped,
                    operator.expired,
                    operator.ahead,
                )
            )
            rows.append((*head, name, *counts))
    table = [titles, *rows]
    widths = [max(len(str(row[i])) for row in table) for i in range(len(titles))]
    for row in table:
        cells = (str(cell).ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


def _add_root(command: argparse.ArgumentParser) -> None:
    command.add_argument("root", help="the state's root, as given to State(...)")
    command.add_argument(
        "--storage-option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        type=_option,
        help="as in State(storage_options=...)",
    )
    command.add_argument("--json", action="store_true", help="print JSON")


def _add_root_options(
    command: argparse.ArgumentParser, take_back: Callable[..., tuple[int, int] | None], nothing: str
) -> None:
    _add_root(command)

    def run(asked: Any) -> None:
        number, objects = take_back(asked.root, asked.epoch, dict(asked.storage_option)) or (
            None,
            0,
        )
        if asked.json:
            print(
                json.dumps(
                    {"root": asked.root, "epoch": asked.epoch, "run": number, "objects": objects}
                )
            )
            return
        if not objects:
            print(nothing.format(root=asked.root, epoch=asked.epoch))
            return
        print(
            f"{objects} objects are now in removed/{number}/ of {asked.root}: "
            f"start the query, epoch {asked.epoch} is next"
        )

    command.set_defaults(run=run)


def _epoch(text: str) -> int:
    # Spark's batch ids have 64 bits.
    if not text.isdecimal() or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"{text!r} is not an epoch: give Spark's batch id")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)


def _option(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


if __name__ == "__main__":
    sys.exit(main())
