"""Python processes that tests start with a script, read from and kill."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager

HEADER = """
import os, sys
import pyarrow as pa
import holdfast as hf
"""


def run_script(script: str, *args: object, timeout: float = 60) -> str:
    """Returns the script's output; fails with its error output if it fails."""
    command = [sys.executable, "-c", HEADER + textwrap.dedent(script), *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def running(script: str, *args: object) -> Iterator[subprocess.Popen[str]]:
    """A process that runs the script; killed at the end if it is still alive."""
    command = [sys.executable, "-u", "-c", HEADER + textwrap.dedent(script), *map(str, args)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
