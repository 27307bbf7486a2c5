"""One million puts through `put_batch` from Python, against the loop in Rust (`put_loop.rs`)."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from figure import Figure, alternate

import holdfast as hf

KEY_BYTES, VALUE_BYTES = 16, 100


def binary(rows: int, width: int, seed: int) -> pa.Array:
    """Random bytes of one width as a binary column."""
    data = np.random.default_rng(seed).bytes(rows * width)
    offsets = np.arange(0, (rows + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def figures(*, quick: bool) -> list[Figure]:
    """The one figure."""
    rows, batch, rounds = (100_000, 10_000, 3) if quick else (1_000_000, 10_000, 7)
    target = Path(os.environ["CARGO_TARGET_DIR"])
    subprocess.run(
        [
            "cargo",
            "build",
            "--release",
            "--locked",
            "-p",
            "holdfast-python",
            "--example",
            "put_loop",
        ],
        check=True,
    )
    keys, values = binary(rows, KEY_BYTES, 1), binary(rows, VALUE_BYTES, 2)

    def python() -> float:
        with tempfile.TemporaryDirectory() as folder:
            stores = [hf.stores.key_value("kv")]
            with hf.open(Path(folder) / "db", stores, durability=hf.Durability.CHANGELOG) as db:
                kv = db["kv"]
                began = time.perf_counter()
                for first in range(0, rows, batch):
                    kv.put_batch(keys[first : first + batch], values[first : first + batch])
                    db.commit()
                return time.perf_counter() - began

    def rust() -> float:
        with tempfile.TemporaryDirectory() as folder:
            command = [
                target / "release/examples/put_loop",
                Path(folder) / "db",
                str(rows),
                str(batch),
            ]
            return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    python(), rust()  # warm
    turns, note = alternate(python, rust, rounds)
    return [
        Figure(
            f"{rows:,} puts through `put_batch` from Python, transactions of {batch:,}",
            "the same loop in Rust",
            turns,
            "<= 1.2",
            "time",
            note,
            "no WAL, no fsync; cache 128 MiB; LZ4",
        )
    ]
