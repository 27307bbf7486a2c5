"""One million puts through `put_batch` from Python, against the loop in Rust (`put_loop.rs`)."""

from __future__ import annotations

import os
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
from figure import Figure, ratios

import holdfast as hf

KEY_BYTES, VALUE_BYTES = 16, 100
BATCH = 10_000
BUILD = "cargo build --release --locked -p holdfast-python --example put_loop"


def binary(rows: int, width: int, seed: int) -> pa.Array:
    """Random bytes of one width as a binary column."""
    data = np.random.default_rng(seed).bytes(rows * width)
    offsets = np.arange(0, (rows + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def test_puts(take_turns, publish, quick):
    rows, turns = (100_000, 3) if quick else (1_000_000, 7)
    subprocess.run(BUILD.split(), check=True)
    program = Path(os.environ["CARGO_TARGET_DIR"]) / "release/examples/put_loop"
    keys, values = binary(rows, KEY_BYTES, 1), binary(rows, VALUE_BYTES, 2)
    with ExitStack() as opened:

        def fresh() -> hf.Database:
            opened.close()  # the database of the turn before
            folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
            stores = [hf.stores.key_value("kv")]
            return opened.enter_context(
                hf.open(folder / "db", stores, durability=hf.Durability.CHANGELOG)
            )

        def python(db: hf.Database) -> None:
            kv = db["kv"]
            for first in range(0, rows, BATCH):
                kv.put_batch(keys[first : first + BATCH], values[first : first + BATCH])
                db.commit()

        def rust() -> float:
            opened.close()
            with tempfile.TemporaryDirectory() as folder:
                command = [str(program), str(Path(folder) / "db"), str(rows), str(BATCH)]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
            return float(done.stdout)

        pairs = take_turns(python, rust, fresh, turns)
    ours, theirs = (median(side) for side in zip(*pairs, strict=True))
    publish(
        Figure(
            f"{rows:,} puts through `put_batch` from Python, transactions of {BATCH:,}",
            "the same loop in Rust",
            ratios(pairs),
            "<= 1.2",
            "time",
            f"{ours:.3f} s against {theirs:.3f} s",
            "no WAL, no fsync; cache 128 MiB, write buffers 128 MiB; LZ4",
        )
    )
