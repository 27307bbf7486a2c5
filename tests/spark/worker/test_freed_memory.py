"""A state host returns freed memory to the system."""

import subprocess
import sys

_FREED = """
import ctypes, threading, time
from pathlib import Path
from holdfast import host

def resident():
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:")) >> 10

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
blocks = [libc.malloc(10_000) for _ in range(10_000)]
for block in blocks:
    ctypes.memset(block, 1, 10_000)
# The last block stays, so that those before it are not at the heap's end.
for block in blocks[:-1]:
    libc.free(block)
freed = resident()
host._TRIM_SECONDS = 0.01
threading.Thread(target=host._return_freed_memory, daemon=True).start()
deadline = time.monotonic() + 60
while resident() > freed - 64 and time.monotonic() < deadline:
    time.sleep(0.01)
print(freed, resident())
"""


def test_a_host_returns_what_is_freed_between_blocks_in_use() -> None:
    run = [sys.executable, "-P", "-c", _FREED]
    found = subprocess.run(run, capture_output=True, text=True, check=True, timeout=120)
    freed, left = map(int, found.stdout.split())
    assert left <= freed - 64, f"{left} of {freed} MiB are left"
