"""All commands of `holdfast`. A new command is added to the list here."""

import contextlib
import os
import sys
from typing import Any

import click

from holdfast._cli import export, reading
from holdfast._cli.doctor import command as doctor
from holdfast._cli.operating import followers, maintenance, serve, top, verify
from holdfast._core import __version__


class Commands(click.Group):
    """The commands. It is no error if the reader of the output ends first (`| head`)."""

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # The flush of buffered output at the interpreter's exit must not fail.
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return None
        return result


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit code: 0; 1 if a command failed, with the reason on stderr; 2 for wrong arguments.",
)
@click.version_option(__version__, prog_name="holdfast")
def holdfast() -> None:
    """Reads and maintains the state of PySpark queries."""


for _command in (
    reading.tables,
    reading.get,
    reading.scan,
    reading.versions,
    reading.changes,
    reading.sql,
    export.export,
    serve.serve,
    top.top,
    maintenance.epochs,
    verify.verify,
    doctor.doctor,
    maintenance.rewind,
    maintenance.epoch,
    followers.followers,
):
    holdfast.add_command(_command)
