"""A key with many versions: a scan holds only a few of them in memory."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import holdfast as hf
from processes import run_script

COUNT, VALUE = 10_000, 4_000  # 40 MB

# In a separate process, since the peak of a process only rises. A scan that collects all versions
# has them at its first row. The rest of the scan is not measured: RocksDB's cache grows with it.
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
    first_rows = {
        name: (int(first), int(grown))
        for name, first, grown in map(str.split, run_script(READ, memory_path).splitlines())
    }
    assert {name: first for name, (first, _) in first_rows.items()} == dict.fromkeys(first_rows, 0)
    assert len(first_rows) == 3
    assert all(grown < 10 << 10 for _, grown in first_rows.values()), (
        f"{first_rows} (first, KiB) of {COUNT * VALUE >> 10} KiB of values"
    )
