"""The command `holdfast doctor`."""

from dataclasses import asdict
from pathlib import Path

import click

from holdfast._cli import options, output
from holdfast._cli.doctor.disk import check_disk, default_local_dir
from holdfast._cli.doctor.limits import check_limits
from holdfast._cli.doctor.programs import check_programs
from holdfast._cli.doctor.store import check_root
from holdfast._options import memory_bytes


@click.command()
@options.root_argument(required=False)
@click.option(
    "--local-dir",
    type=click.Path(path_type=Path),
    help="As in State(local_dir=...); by default the folder that State uses without it.",
)
@click.option("--memory", default="512m", show_default=True, help="As in State(memory=...).")
@output.json_option("a line for each check: check, status (ok, warning, problem), found, change")
@click.pass_context
def doctor(
    context: click.Context,
    *,
    root: str | None,
    local_dir: Path | None,
    memory: str,
    storage_options: options.StorageOptions,
    as_json: bool,
) -> None:
    """Checks this machine and a root, and says what to change.

    Without ROOT nothing is written. With it, an object of a random name is put into the root, and
    removed. The exit code is 1 if there is a problem. Run it on the driver's machine, and in the
    image of the executors.
    """
    try:
        needed = memory_bytes(memory)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--memory") from error
    findings = [
        *check_programs(),
        *check_limits(needed),
        *check_disk(local_dir or default_local_dir(root)),
        *([] if root is None else check_root(root, dict(storage_options))),
    ]
    if as_json:
        for finding in findings:
            output.show_json(asdict(finding))
    else:
        output.show_table(
            ("check", "status", "found", "change"),
            ((one.check, one.status, one.found, one.change) for one in findings),
        )
    if any(finding.status == "problem" for finding in findings):
        context.exit(1)
