"""Progress of long work: on stderr, and only in a terminal."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class Shown:
    """A line of progress."""

    def __init__(self, progress: Progress, title: str) -> None:
        self._progress = progress
        self._task = progress.add_task(title, total=None, note="")

    def update(self, done: int, total: int | None, note: str) -> None:
        """Shows how many steps are done, of `total` if it is known, and the note."""
        self._progress.update(self._task, completed=done, total=total, note=note)


@contextmanager
def shown_progress(title: str) -> Iterator[Shown]:
    """Shows a line of progress until the block ends."""
    is_terminal = sys.stderr.isatty()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not is_terminal) as progress:
        yield Shown(progress, title)
