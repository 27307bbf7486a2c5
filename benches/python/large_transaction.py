"""A transaction larger than memory: its time against that of small ones, and its peak memory.

1 GiB; 10 GiB with `HOLDFAST_BENCH_FULL`, which takes 40 GiB of disk for a while.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

from figure import LEAST_TURNS, Figure, ratios

BATCH = 10_000
VALUE = 1_000
RECORD = 16 + VALUE
SPILL_AT = 64 << 20


def figures(*, quick: bool) -> list[Figure]:
    """Two rows. Each measurement has its own process, so other memory does not count."""
    turns = 1 if quick else LEAST_TURNS
    size = (
        (256 << 20) if quick else (10 << 30) if os.environ.get("HOLDFAST_BENCH_FULL") else (1 << 30)
    )
    pairs = [(_measured(size, size), _measured(size, SPILL_AT // 2)) for _ in range(turns)]
    spilled, fits = ([pair[side] for pair in pairs] for side in (0, 1))
    settings = "no WAL, no fsync; cache 128 MiB; LZ4"
    return [
        Figure(
            f"a transaction of {size / 2**30:g} GiB, spilled: put and commit",
            "the same records in transactions that fit",
            ratios((large["seconds"], small["seconds"]) for large, small in pairs),
            "<= 2",
            "time",
            f"{_middle(spilled, 'seconds'):.1f} s against {_middle(fits, 'seconds'):.1f} s",
            settings,
        ),
        Figure(
            f"peak memory of a transaction of {size / 2**30:g} GiB, default settings",
            "nothing (absolute)",
            [large["peak"] - large["imports"] for large in spilled],
            "<= 256",
            "MiB",
            f"beside {_middle(spilled, 'imports'):.0f} MiB of Python's imports; "
            f"{median(small['peak'] - small['imports'] for small in fits):.0f} MiB where all fit",
            settings,
        ),
    ]


def _middle(turns: list[dict[str, float]], what: str) -> float:
    return median(turn[what] for turn in turns)


def _measured(size: int, transaction: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, folder, str(size), str(transaction)]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    measured: dict[str, float] = json.loads(output)
    return measured


def _peak() -> float:
    status = Path("/proc/self/status").read_text()
    return (
        int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
        / 1024
    )


def _child(folder: Path, size: int, transaction: int) -> None:
    import pyarrow as pa

    import holdfast as hf

    def column(width: int) -> pa.Array:
        return pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(width), BATCH, [None, pa.py_buffer(os.urandom(width * BATCH))]
        )

    values = column(VALUE)
    imports, count = _peak(), size // (BATCH * RECORD)
    some: list[pa.Array] = []
    with hf.open(folder, [hf.stores.key_value("kv")], durability=hf.Durability.CHANGELOG) as db:
        store, staged, started = db["kv"], 0, time.perf_counter()
        for number in range(count):
            keys = column(16)
            store.put_batch(keys, values)
            staged += BATCH * RECORD
            if staged >= transaction:
                db.commit()
                staged = 0
            if number % (count // 10 + 1) == 0:
                some.append(keys)
                print(
                    f"{number * BATCH * RECORD / 2**30:.1f} of {size / 2**30:g} GiB put",
                    file=sys.stderr,
                )
        db.commit()
        seconds = time.perf_counter() - started
        peak = _peak()
        for keys in some:
            if pa.array(store.get_batch(keys)).null_count:
                raise RuntimeError("a record is missing")
    print(json.dumps({"seconds": seconds, "imports": imports, "peak": peak}))


if __name__ == "__main__":
    _child(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
