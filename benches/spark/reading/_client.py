"""A client of a running query, in a process of its own: `_client.py reads|scan ROOT`.

It works from a line `go` on its input until a line `pause`, which it answers with a line of JSON:
how many keys or bytes it read a second. `reads` reads at most 1,000 keys a second, `scan` at most
10 MB.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

import holdfast as hf

if TYPE_CHECKING:
    from pathlib import Path

READS_A_SECOND = 1_000
BYTES_A_SECOND = 10_000_000
BEHIND = 0.1
"""The most seconds that a client makes up for when it has waited for a processor."""


class Client:
    """A client at nice 19, as the bench uses it."""

    def __init__(self, what: str, root: Path) -> None:
        command = ["nice", "-n", "19", sys.executable, __file__, what, str(root)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ
        )
        self._answer()

    def go(self) -> None:
        self._say("go")

    def pause(self) -> float:
        """Returns how many keys or bytes it has read a second since `go`."""
        self._say("pause")
        return float(self._answer())

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def _say(self, word: str) -> None:
        assert self._process.stdin is not None
        print(word, file=self._process.stdin, flush=True)

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


class _Pace:
    """Limits how much is read in a second: it sleeps after reads that were too fast."""

    def __init__(self, a_second: int) -> None:
        self._unit = 1 / a_second
        self._due = time.perf_counter()
        self._started = self._due
        self.read = 0

    def wait(self, amount: int) -> None:
        self.read += amount
        now = time.perf_counter()
        self._due = max(self._due + amount * self._unit, now - BEHIND)
        if self._due > now:
            time.sleep(self._due - now)

    def rate(self) -> float:
        return self.read / (time.perf_counter() - self._started)


def _read_keys(table: Any, running: threading.Event) -> float:
    pace, random = _Pace(READS_A_SECOND), np.random.default_rng(7)
    numbers = random.integers(0, 1_000_000, 100_000).tolist()
    while running.is_set():
        table.get(numbers[pace.read % len(numbers)])
        pace.wait(1)
    return pace.rate()


def _scan(table: Any, running: threading.Event) -> float:
    pace = _Pace(BYTES_A_SECOND)
    while running.is_set():
        for batch in table.scan():
            pace.wait(batch.nbytes)
            if not running.is_set():
                break
    return pace.rate()


def main() -> None:
    """Serves the bench until its input ends."""
    what, root = sys.argv[1:]
    work = {"reads": _read_keys, "scan": _scan}[what]
    with hf.connect(root, offline="never") as reader:
        (table,) = reader.tables.values()
        table.get(0)
        print(json.dumps(reader.epoch), flush=True)
        running = threading.Event()
        while sys.stdin.readline().strip() == "go":
            running.set()
            with ThreadPoolExecutor(1) as pool:
                rate = pool.submit(work, table, running)
                sys.stdin.readline()
                running.clear()
                print(json.dumps(rate.result()), flush=True)


if __name__ == "__main__":
    main()
