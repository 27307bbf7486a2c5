"""`holdfast serve`: the tables of roots over HTTP."""

from typing import Any

import click

from holdfast._cli import options
from holdfast.gateway import LISTEN, Gateway, named_roots

_FILE = click.Path(dir_okay=False)


@click.command(short_help="Serves the tables of roots over HTTP.")
@click.argument("roots", type=options.utf8, nargs=-1, required=True, metavar="[NAME=]ROOT...")
@options.storage_option
@click.option(
    "--listen",
    type=options.utf8,
    default=LISTEN,
    show_default=True,
    metavar="ADDRESS:PORT",
    help="Another address than 127.0.0.1 needs a token and encryption.",
)
@click.option("--token-file", type=_FILE, metavar="FILE", help="The secret that clients send.")
@click.option("--cert", type=_FILE, metavar="FILE", help="A certificate with its chain (PEM).")
@click.option("--key", type=_FILE, metavar="FILE", help="The certificate's private key (PEM).")
@click.option(
    "--insecure",
    is_flag=True,
    help="Send tokens and rows unencrypted: use it only behind a proxy that encrypts.",
)
@click.option(
    "--offline",
    type=click.Choice(["auto", "never", "only"]),
    default="never",
    show_default=True,
    help="When to read copies, made from snapshots and log: if no state host answers, "
    "never, or always.",
)
@click.option(
    "--cache-dir", type=click.Path(file_okay=False), metavar="DIR", help="Where copies are."
)
@click.option(
    "--cache-bytes",
    type=click.IntRange(min=0, max=2**63 - 1),
    metavar="N",
    help="How much of the disk the copies of each root may take. [default: 16 GiB]",
)
@click.option(
    "--max-requests",
    type=click.IntRange(min=1, max=2**20),
    default=64,
    show_default=True,
    metavar="N",
    help="How many reads run at the same time.",
)
@click.option(
    "--timeout",
    type=options.seconds,
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="The longest time that a read waits.",
)
def serve(
    *, roots: tuple[str, ...], storage_options: options.StorageOptions, **settings: Any
) -> None:
    """Serves the tables of roots over HTTP, and a page that shows them, until it is interrupted.

    A root has the name of its folder in paths, unless it is given as NAME=ROOT.
    """
    try:
        gateway = Gateway(named_roots(roots), storage_options=dict(storage_options), **settings)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    click.echo(f"serving at {gateway.url}")
    gateway.run()
