"""`holdfast verify`: finds damaged objects of a root."""

import json

import click

from holdfast import _core
from holdfast._cli import options, output
from holdfast._cli.progress import shown_progress


@click.command()
@options.root_argument()
@output.json_option("one object: objects (how many were read), damage (object and problem of each)")
@click.pass_context
def verify(
    context: click.Context,
    *,
    root: str,
    storage_options: options.StorageOptions,
    as_json: bool,
) -> None:
    """Reads the objects of a root, and checks digests and chains.

    It changes nothing, so the query may run. The exit code is 1 if an object is damaged or missing.
    Log objects and files of snapshots have digests, so any change of them is found. JSON objects
    and files of far-future rows have no digests: they are parsed, and most of them are compared
    with the objects that refer to them.
    """
    with shown_progress("verifying") as progress:

        def show(done: int, total: int, objects: int) -> None:
            progress.update(done, total or None, f"{objects} objects")

        report = json.loads(_core.verify_root(root, dict(storage_options), show))
    damage = report["damage"]
    if as_json:
        output.show_json(report)
    elif damage:
        output.show_table(
            ("damaged object", "problem"), ((one["object"], one["problem"]) for one in damage)
        )
    else:
        click.echo(f"{report['objects']} objects of {root} were read: all are whole")
    if damage:
        count = f"{len(damage)} of {root}" if len(damage) > 1 else f"1 object of {root}"
        click.echo(f"holdfast: damaged or missing: {count}", err=True)
        context.exit(1)
