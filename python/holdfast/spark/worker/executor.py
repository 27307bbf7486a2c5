"""The executor's JVM that a Python worker belongs to."""

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from holdfast.errors import HoldfastError


class Executor(NamedTuple):
    """An executor's process id, with its start time, since process ids are reused."""

    pid: int
    started: str

    def address(self) -> "tuple[str, str | None] | None":
        """Returns the executor's host name in Spark, and its bind address if one is given.

        Every cluster manager puts them on the executor's command line. Other executors fetch
        Spark's blocks from that host name, so they can also reach the state host there. Returns
        None if Spark has no other executors (`local[...]`).
        """
        arguments = (
            Path(f"/proc/{self.pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        )
        options = dict(pairwise(arguments))
        name = options.get("--hostname")
        return None if name is None else (name, options.get("--bind-address"))

    @staticmethod
    def of_process(pid: int) -> "Executor":
        """Returns the JVM above a Python worker: its parent, or the parent of its fork server."""
        above = pid
        while above > 1:
            parent, started, command = _process(above)
            if command == "java":
                return Executor(above, started)
            above = parent
        raise HoldfastError(
            f"no Java process above process {pid}: an operator's task must run in a Python worker "
            "that Spark started"
        )


def _process(pid: int) -> tuple[int, str, str]:
    """Returns the parent, the start time and the command's name of a process."""
    # The name is in parentheses and may contain any character, even parentheses.
    head, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    fields = rest.split()
    return int(fields[1]), fields[19], head.partition("(")[2]
