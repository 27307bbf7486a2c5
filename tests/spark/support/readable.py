"""Input that determines the state after each epoch: the rows of file n have the number n.

An epoch has one file. It has two if a driver was killed after Spark's source had recorded its next
file, and before the epoch was planned.

Two tables are made of the input: `newest` has each key's newest row, `history` has all rows.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

KEYS = [f"k{number:02}" for number in range(48)]
DDL = "k string, t timestamp, n long"
SCHEMA = pa.schema([("k", pa.string()), ("t", pa.timestamp("us", "UTC")), ("n", pa.int64())])
_START = datetime(2026, 1, 1, tzinfo=UTC)


def last_file(root: Path, epoch: int) -> int:
    """The last file of an epoch, by Spark's record of its offsets."""
    planned = (root / "query" / "offsets" / str(epoch)).read_text()
    return int(json.loads(planned.splitlines()[-1])["logOffset"])


def time_of(file: int) -> datetime:
    """The time of the rows of a file."""
    return _START + timedelta(seconds=file)


def has_row(key: int, file: int) -> bool:
    """Whether a file has a row of the key with this number."""
    return (key * 7 + file) % 3 == 0


def newest(key: int, file: int) -> int | None:
    """The number in a key's newest row of the files up to this one; None if it has no row."""
    rows = (before for before in range(file, max(file - 3, -1), -1) if has_row(key, before))
    return next(rows, None)


def versions(key: int, file: int) -> list[int]:
    """The numbers in all rows of a key in the files up to this one."""
    return [before for before in range(file + 1) if has_row(key, before)]


def write(folder: Path, file: int) -> None:
    """Writes the rows of a file."""
    rows = [key for key in range(len(KEYS)) if has_row(key, file)]
    table = pa.Table.from_arrays(
        [
            pa.array([KEYS[key] for key in rows]),
            pa.array([time_of(file)] * len(rows), SCHEMA.field("t").type),
            pa.array([file] * len(rows), pa.int64()),
        ],
        schema=SCHEMA,
    )
    hidden = folder / f".{file:08}"
    pq.write_table(table, hidden)
    # Spark's file source reads files in the order of their modification times.
    os.utime(hidden, (1_700_000_000 + file,) * 2)
    hidden.rename(folder / f"{file:08}.parquet")
