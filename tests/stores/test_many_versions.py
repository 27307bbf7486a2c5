"""A key with many versions: no scan of them takes memory for more than a few."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import holdfast as hf
from processes import run_script

COUNT, VALUE = 10_000, 4_000  # 40 MB

# In a process of its own, since the peak of one only rises. Whoever collects versions has all of
# them by the first row; a scan's rest is not looked at, since what was read lies in RocksDB's
# cache, too.
READ = """
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))

with hf.open(sys.argv[1], [hf.stores.versioned("v", history_retention=10**9)]) as db:
    v = db["v"]
    scans = {
        "versions": lambda: next(v.versions(b"k", 0, 10**9, descending=False))[1].timestamp,
        "versions_range": lambda: next(v.versions_range(None, None, 0, 10**9))[1].timestamp,
        "versions_batches": lambda: pa.record_batch(next(iter(v.versions_batches(None, None, 0,
        10**9, batch_rows=10))))["timestamp"][0],
    }
    assert pa.record_batch(next(iter(v.versions_batches(b"l", None, 0, 10**9)))).num_rows == 1
    before = peak()
    for name, first in scans.items():
        print(name, int(first()), peak() - before)
"""


def test_the_first_of_many_versions_takes_memory_for_a_few(memory_path: Path):
    with hf.open(memory_path, [hf.stores.versioned("v", history_retention=10**9)]) as db:
        for begin in range(0, COUNT, 2_000):
            times = range(begin, begin + 2_000)
            values = pa.array([at.to_bytes(8, "big") * (VALUE // 8) for at in times])
            db["v"].put_batch(pa.array([b"k"] * len(times)), values, pa.array(times))
            db.commit()
        db["v"].put(b"l", b"", COUNT)
        db.commit()
    told = {
        name: (int(first), int(grown))
        for name, first, grown in map(str.split, run_script(READ, memory_path).splitlines())
    }
    assert {name: first for name, (first, _) in told.items()} == dict.fromkeys(told, 0)
    assert len(told) == 3
    assert all(grown < 10 << 10 for _, grown in told.values()), (
        f"{told} (first, KiB) of {COUNT * VALUE >> 10} KiB of values"
    )
