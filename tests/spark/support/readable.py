"""Input of which every reader knows what the state is after each epoch: file n is epoch n.

Two tables are made of it: `newest` has each key's newest row, `history` all of them.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

KEYS = [f"k{number:02}" for number in range(48)]
DDL = "k string, t timestamp, n long"
SCHEMA = pa.schema([("k", pa.string()), ("t", pa.timestamp("us", "UTC")), ("n", pa.int64())])
_START = datetime(2026, 1, 1, tzinfo=UTC)


def time_of(epoch: int) -> datetime:
    """The time of the rows of an epoch."""
    return _START + timedelta(seconds=epoch)


def has_row(key: int, epoch: int) -> bool:
    """Whether an epoch has a row of the key with this number."""
    return (key * 7 + epoch) % 3 == 0


def newest(key: int, epoch: int) -> int | None:
    """The epoch of a key's newest row after an epoch; None if it has none yet."""
    rows = (before for before in range(epoch, max(epoch - 3, -1), -1) if has_row(key, before))
    return next(rows, None)


def versions(key: int, epoch: int) -> list[int]:
    """The epochs of all rows of a key after an epoch."""
    return [before for before in range(epoch + 1) if has_row(key, before)]


def write(folder: Path, epoch: int) -> None:
    """Writes the rows of an epoch."""
    rows = [key for key in range(len(KEYS)) if has_row(key, epoch)]
    table = pa.Table.from_arrays(
        [
            pa.array([KEYS[key] for key in rows]),
            pa.array([time_of(epoch)] * len(rows), SCHEMA.field("t").type),
            pa.array([epoch] * len(rows), pa.int64()),
        ],
        schema=SCHEMA,
    )
    hidden = folder / f".{epoch:08}"
    pq.write_table(table, hidden)
    # Spark's file source reads files in the order of their modification times.
    os.utime(hidden, (1_700_000_000 + epoch,) * 2)
    hidden.rename(folder / f"{epoch:08}.parquet")
