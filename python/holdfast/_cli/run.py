"""Runs one command line: errors on stderr, and the exit code."""

import sys
from collections.abc import Sequence
from typing import Final

import click

from holdfast._cli.commands import holdfast
from holdfast.errors import HoldfastError

_INTERRUPTED: Final = 130


def run(arguments: Sequence[str] | None) -> int:
    """Runs one command and returns the exit status.

    The status is 0; 1 if the command failed or found a problem; 130 if it was interrupted.
    Raises `SystemExit` for invalid arguments.
    """
    try:
        status = holdfast.main(
            args=None if arguments is None else list(arguments),
            prog_name="holdfast",
            standalone_mode=False,
        )
    except click.ClickException as error:
        error.show()
        if isinstance(error, click.UsageError):
            sys.exit(error.exit_code)
        return 1
    except click.Abort:
        click.echo("holdfast: interrupted", err=True)
        return _INTERRUPTED
    except (HoldfastError, OSError, ValueError) as error:
        click.echo(f"holdfast: {error}", err=True)
        return 1
    return status if isinstance(status, int) else 0
