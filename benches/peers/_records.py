"""The records of the bench, seeded; `kafka-streams/…/Records.java` makes the same ones."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

GAMMA = 0x9E3779B97F4A7C15
KEY_BYTES, VALUE_BYTES = 16, 100
POOL = 10_007
"""The number of different values; after them they repeat."""

Numbers = np.ndarray[tuple[int], np.dtype[np.uint64]]


def _mix(numbers: Numbers) -> Numbers:
    z = numbers
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _column(rows: np.ndarray[tuple[int, int], np.dtype[np.uint8]]) -> pa.Array:
    """Rows of bytes of one width as a binary column."""
    count, width = rows.shape
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(rows.tobytes())]
    )


def keys(numbers: Numbers) -> pa.Array:
    """Keys of 16 bytes; consecutive numbers come in random order."""
    numbers = numbers.astype(np.uint64)
    words = np.stack([_mix((numbers + np.uint64(1)) * np.uint64(GAMMA)), numbers], axis=1)
    return _column(words.astype(">u8").view(np.uint8).reshape(len(numbers), KEY_BYTES))


def values(numbers: Numbers) -> pa.Array:
    """Values of 100 random bytes."""
    words = -(-VALUE_BYTES // 8)
    pool = _mix(np.arange(1, POOL * words + 1, dtype=np.uint64) * np.uint64(GAMMA))
    rows = pool.astype("<u8").view(np.uint8).reshape(POOL, words * 8)[:, :VALUE_BYTES]
    return _column(rows[numbers.astype(np.int64) % POOL])


def draw(seed: int, count: int, limit: int) -> Numbers:
    """Random numbers below `limit`."""
    start = seed * 1_000_000_007 + 1
    return _mix(np.arange(start, start + count, dtype=np.uint64) * np.uint64(GAMMA)) % np.uint64(
        limit
    )


def first_words(column: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The first eight bytes of each value, which are all of one width."""
    rows = pa.array(column)
    if rows.null_count:
        raise ValueError(f"{rows.null_count} of {len(rows)} values are missing")
    data = np.frombuffer(rows.buffers()[2], np.uint8)[: len(rows) * VALUE_BYTES]
    return np.ascontiguousarray(data.reshape(len(rows), VALUE_BYTES)[:, :8]).view("<i8").ravel()
