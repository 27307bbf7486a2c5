"""The clock of the peers' benches."""

from __future__ import annotations

import time
from pathlib import Path

CLOCKS = {"wall": time.perf_counter, "thread": time.thread_time, "process": time.process_time}


class Clock:
    """Measures the time inside `with`, in seconds.

    Three clocks: the wall, the thread's processor time and the process's.
    """

    def __init__(self) -> None:
        self.taken = dict.fromkeys(CLOCKS, 0.0)

    def __enter__(self) -> None:
        self._began = {what: clock() for what, clock in CLOCKS.items()}

    def __exit__(self, *exc: object) -> None:
        for what, clock in CLOCKS.items():
            self.taken[what] += clock() - self._began[what]


def settle(pid: int) -> None:
    """Waits until a process hardly uses the processor: its flushes and compactions are done.

    It waits for 30 seconds at most.
    """

    def ticks() -> int:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    calm, before = 0, ticks()
    for _ in range(300):
        time.sleep(0.1)
        now = ticks()
        calm = calm + 1 if now - before <= 1 else 0
        before = now
        if calm == 3:
            return
