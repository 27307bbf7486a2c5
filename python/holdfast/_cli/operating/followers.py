"""`holdfast followers`: the streams of changes that hold the log back."""

import click

from holdfast import _core
from holdfast._cli import options, output
from holdfast._progress import read_progress


@click.group(short_help="Shows or removes the named followers of a query.")
def followers() -> None:
    """Works on the named followers of a query: streams of changes that hold its log back."""


@followers.command("list")
@options.root_argument()
@output.json_option("a line for each follower: follower, epoch (the first that it needs), behind")
def list_followers(*, root: str, storage_options: options.StorageOptions, as_json: bool) -> None:
    """Shows the followers, the first epoch that each needs, and how many epochs it is behind."""
    found = _core.read_followers(root, dict(storage_options))
    newest = read_progress(root, dict(storage_options), last=1)
    rows = [
        (name, first, max(0, newest[0].epoch - first + 1) if newest else None)
        for name, first in found
    ]
    titles = ("follower", "epoch", "behind")
    if as_json:
        for row in rows:
            output.show_json(dict(zip(titles, row, strict=True)))
        return
    output.show_table(titles, rows)


@followers.command()
@options.root_argument()
@click.argument("name")
def remove(*, root: str, storage_options: options.StorageOptions, name: str) -> None:
    """Removes a follower that is no longer in use, so that it does not hold the log back.

    A stream that still runs under this name records it again.
    """
    if not _core.remove_follower(root, dict(storage_options), name):
        there = [name for name, _ in _core.read_followers(root, dict(storage_options))]
        raise ValueError(f"{root} has no follower {name!r}; there are {there}")
    click.echo(f"removed the follower {name} of {root}")
