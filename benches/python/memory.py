"""Resident memory of a process with an open database of ten million records.

Measured while it loads and while it reads.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

from figure import LEAST_TURNS, Figure

BATCH = 10_000


def figures(*, quick: bool) -> list[Figure]:
    """One row; each measured process is a fresh one, so nothing else counts."""
    records = 500_000 if quick else 10_000_000
    turns = [_measured(records) for _ in range(1 if quick else LEAST_TURNS)]
    peaks = {what: median(turn[what] for turn in turns) for what in turns[0]}
    return [
        Figure(
            f"resident memory of an open database of {records:,} records, default settings",
            "nothing (absolute)",
            [max(turn.values()) for turn in turns],
            "<= 512",
            "MiB",
            ", ".join(f"{what}: {mib:.0f} MiB" for what, mib in peaks.items())
            + "; the imports of Python and pyarrow included",
            "no WAL, no fsync; cache 128 MiB, write buffers 128 MiB; LZ4",
        )
    ]


def _measured(records: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, folder, str(records)]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    peaks: dict[str, float] = json.loads(output)
    return peaks


def _resident() -> float:
    status = Path("/proc/self/status").read_text()
    return (
        int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])
        / 1024
    )


def _child(folder: Path, records: int) -> None:
    import os

    import pyarrow as pa

    import holdfast as hf

    def column(width: int) -> pa.Array:
        return pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(width), BATCH, [None, pa.py_buffer(os.urandom(width * BATCH))]
        )

    peaks = {"imports": _resident(), "while loading": 0.0, "while reading": 0.0}
    with hf.open(folder, [hf.stores.key_value("kv")], durability=hf.Durability.CHANGELOG) as db:
        store = db["kv"]
        some: list[pa.Array] = []
        for number in range(records // BATCH):
            keys = column(16)
            store.put_batch(keys, column(100))
            db.commit()
            peaks["while loading"] = max(peaks["while loading"], _resident())
            if number % 50 == 0:
                some.append(keys)
        for _ in range(5):
            for keys in some:
                found = pa.array(store.get_batch(keys))
                if found.null_count:
                    raise RuntimeError("a record is missing")
                peaks["while reading"] = max(peaks["while reading"], _resident())
    print(json.dumps(peaks))


if __name__ == "__main__":
    _child(Path(sys.argv[1]), int(sys.argv[2]))
