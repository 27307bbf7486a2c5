"""The command line `holdfast`: reads and maintains the state of queries.

The commands are in `holdfast._cli`, which needs the extra `cli`.
"""

import sys
from collections.abc import Sequence

from holdfast._requirements import how_to_install


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit status.

    The status is 0; 1 if the command failed, with the error on stderr, or found a problem; 130 if
    it was interrupted. Raises `SystemExit` for invalid arguments.
    """
    try:
        from holdfast._cli.run import run
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("click", "rich"):
            raise
        print(
            f"holdfast: the command line needs {package}: {how_to_install('cli')}",
            file=sys.stderr,
        )
        return 1
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
