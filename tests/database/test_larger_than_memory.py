"""A transaction of 1 GiB: it commits, with less than 256 MiB of memory."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

CHILD = """
import json, os, sys
from pathlib import Path

import pyarrow as pa
import holdfast as hf

ROWS, VALUE, BATCHES = 10_000, 1_000, 106

def peak():
    status = Path("/proc/self/status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(peak.split()[1]) / 1024

def keys(batch):
    return pa.array([b"%016d" % (batch + row * BATCHES) for row in range(ROWS)])

buffer = pa.py_buffer(os.urandom(VALUE * ROWS))
values = pa.FixedSizeBinaryArray.from_buffers(pa.binary(VALUE), ROWS, [None, buffer])
with hf.open(sys.argv[1], [hf.stores.key_value("kv")]) as db:
    before = peak()
    for batch in range(BATCHES):
        db["kv"].put_batch(keys(batch), values)
    db.commit({("log", 0): 1})
    used = peak() - before
with hf.open(sys.argv[1], [hf.stores.key_value("kv")]) as db:
    wanted = values.cast(pa.binary())
    found = (pa.array(db["kv"].get_batch(keys(batch))) for batch in range(BATCHES))
    same = all(batch.equals(wanted) for batch in found)
    written, offset = ROWS * (16 + VALUE) * BATCHES, db.committed_offset(("log", 0))
    print(json.dumps({"used": used, "same": same, "bytes": written, "offset": offset}))
"""


@pytest.mark.survive
def test_a_transaction_of_one_gib_takes_256_mib_of_memory(tmp_path):
    # In a separate process, so that its memory alone is measured.
    output = subprocess.run(
        [sys.executable, "-c", CHILD, tmp_path / "db"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    found = json.loads(output)
    assert found["bytes"] > 1 << 30
    assert found["same"]
    assert found["offset"] == 1
    assert found["used"] < 256, f"{found['used']:.0f} MiB"
