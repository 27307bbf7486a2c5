"""Stores under one interface: Holdfast's two forms, and what a Python user would take instead.

All are given 128 MiB of cache and, where they have them, write buffers of 16 MiB up to 128 MiB;
lmdb reads through the page cache, which is larger. Puts are staged in transactions of 10,000. If a
store is made with `sync`, its commits wait for the disk.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

import _records as records
import lmdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from quixstreams.state.rocksdb import RocksDBOptions, RocksDBStorePartition
from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    WriteBatch,
    WriteOptions,
)

import holdfast as hf

if TYPE_CHECKING:
    from pathlib import Path

CACHE = 128 << 20
WRITE_BUFFER, WRITE_BUFFERS = 16 << 20, 8

Batch = Any
"""Keys or values: an Arrow column for the stores with `arrow`, else a list of bytes."""


class Store(Protocol):
    """A store while it is measured."""

    arrow: bool

    def put(self, keys: Batch, values: Batch) -> None:
        """Puts the rows in one transaction."""

    def get(self, keys: Batch) -> Batch:
        """Returns the values; every key must have one."""

    def increment(self, keys: Batch) -> None:
        """One transaction of read-modify-writes.

        Each adds 1 to the number in the first eight bytes of its key's value.
        """

    def scan(self) -> int:
        """Reads all rows in order of their keys; returns how many there are."""

    def close(self) -> None:
        """Closes the store."""


def plus(value: bytes, count: int = 1) -> bytes:
    """A value whose number is greater by `count`."""
    number = (int.from_bytes(value[:8], "little") + count) % (1 << 64)
    return number.to_bytes(8, "little") + value[8:]


class HoldfastBatch:
    """Holdfast through its batch methods."""

    arrow = True

    def __init__(self, folder: Path, *, sync: bool) -> None:
        durability = hf.Durability.SYNC if sync else hf.Durability.CHANGELOG
        self.db = hf.open(folder / "db", [hf.stores.key_value("kv")], durability=durability)
        self.store = self.db["kv"]

    def put(self, keys: Batch, values: Batch) -> None:
        self.store.put_batch(keys, values)
        self.db.commit()

    def get(self, keys: Batch) -> Batch:
        return self.store.get_batch(keys)

    def increment(self, keys: Batch) -> None:
        counted = pc.value_counts(keys)
        unique, counts = counted.field("values"), counted.field("counts").to_numpy()
        found = pa.array(self.store.get_batch(unique))
        rows = np.frombuffer(found.buffers()[2], np.uint8)[
            : len(found) * records.VALUE_BYTES
        ].copy()
        rows = rows.reshape(len(found), records.VALUE_BYTES)
        rows[:, :8] = (
            (rows[:, :8].copy().view("<i8").ravel() + counts)
            .astype("<i8")
            .view(np.uint8)
            .reshape(-1, 8)
        )
        values = pa.Array.from_buffers(
            pa.binary(), len(found), [None, found.buffers()[1], pa.py_buffer(rows)]
        )
        self.store.put_batch(unique, values)
        self.db.commit()

    def scan(self) -> int:
        return sum(
            len(batch) for batch in pa.RecordBatchReader.from_stream(self.store.range_batches())
        )

    def close(self) -> None:
        self.db.close()


class HoldfastScalar(HoldfastBatch):
    """Holdfast through its scalar methods."""

    arrow = False

    def put(self, keys: Batch, values: Batch) -> None:
        put = self.store.put
        for key, value in zip(keys, values, strict=True):
            put(key, value)
        self.db.commit()

    def get(self, keys: Batch) -> Batch:
        get = self.store.get
        return [get(key) for key in keys]

    def increment(self, keys: Batch) -> None:
        get, put = self.store.get, self.store.put
        for key in keys:
            put(key, plus(get(key)))
        self.db.commit()

    def scan(self) -> int:
        rows = 0
        with self.store.range() as scan:
            for _key, _value in scan:
                rows += 1
        return rows


class Quixstreams:
    """quixstreams' `State`, as a stateful function gets it.

    There is one `State` for each record, scoped to the record's key. Commits write a write-ahead
    log without an fsync. A `State` cannot scan; the partition beneath it can.
    """

    arrow = False
    FIELD = b"v"

    def __init__(self, folder: Path, *, sync: bool) -> None:
        options = RocksDBOptions(
            block_cache_size=CACHE,
            write_buffer_size=WRITE_BUFFER,
            max_write_buffer_number=WRITE_BUFFERS,
        )
        self.partition = RocksDBStorePartition(str(folder / "db"), options)

    def put(self, keys: Batch, values: Batch) -> None:
        with self.partition.begin() as transaction:
            for key, value in zip(keys, values, strict=True):
                transaction.as_state(key).set_bytes(self.FIELD, value)

    def get(self, keys: Batch) -> Batch:
        transaction = self.partition.begin()
        return [transaction.as_state(key).get_bytes(self.FIELD) for key in keys]

    def increment(self, keys: Batch) -> None:
        with self.partition.begin() as transaction:
            for key in keys:
                state = transaction.as_state(key)
                state.set_bytes(self.FIELD, plus(state.get_bytes(self.FIELD)))

    def scan(self) -> int:
        rows = 0
        for _key, _value in self.partition.iter_items(b""):
            rows += 1
        return rows

    def close(self) -> None:
        self.partition.close()


class Rocksdict:
    """rocksdict: a WriteBatch for each transaction.

    Read-modify-writes go through a dict, since reads do not see the batch.
    """

    arrow = False

    def __init__(self, folder: Path, *, sync: bool) -> None:
        table = BlockBasedOptions()
        table.set_block_cache(Cache(CACHE))
        table.set_bloom_filter(10, block_based=False)
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_block_based_table_factory(table)
        options.set_write_buffer_size(WRITE_BUFFER)
        options.set_max_write_buffer_number(WRITE_BUFFERS)
        options.set_compression_type(DBCompressionType.lz4())
        self.database = Rdict(str(folder / "db"), options)
        self.write = WriteOptions()
        if sync:
            self.write.sync = True
        else:
            self.write.disable_wal = True

    def put(self, keys: Batch, values: Batch) -> None:
        batch = WriteBatch(raw_mode=True)
        for key, value in zip(keys, values, strict=True):
            batch[key] = value
        self.database.write(batch, self.write)

    def get(self, keys: Batch) -> Batch:
        get = self.database.get
        return [get(key) for key in keys]

    def increment(self, keys: Batch) -> None:
        get = self.database.get
        staged: dict[bytes, bytes] = {}
        for key in keys:
            old = staged.get(key)
            staged[key] = plus(get(key) if old is None else old)
        self.put(staged.keys(), staged.values())

    def scan(self) -> int:
        rows = 0
        for _key, _value in self.database.items():
            rows += 1
        return rows

    def close(self) -> None:
        self.database.close()


class RocksdictList(Rocksdict):
    """rocksdict, its reads by lists of keys."""

    def get(self, keys: Batch) -> Batch:
        return self.database.get(keys)

    def increment(self, keys: Batch) -> None:
        counts = Counter(keys)
        unique = list(counts)
        self.put(
            unique,
            [
                plus(old, count)
                for old, count in zip(self.get(unique), counts.values(), strict=True)
            ],
        )


class Lmdb:
    """lmdb: its own transactions, calls one by one."""

    arrow = False

    def __init__(self, folder: Path, *, sync: bool) -> None:
        self.environment = lmdb.open(str(folder / "db"), map_size=8 << 30, sync=sync, metasync=sync)

    def put(self, keys: Batch, values: Batch) -> None:
        with self.environment.begin(write=True) as transaction:
            put = transaction.put
            for key, value in zip(keys, values, strict=True):
                put(key, value)

    def get(self, keys: Batch) -> Batch:
        with self.environment.begin() as transaction:
            get = transaction.get
            return [get(key) for key in keys]

    def increment(self, keys: Batch) -> None:
        with self.environment.begin(write=True) as transaction:
            get, put = transaction.get, transaction.put
            for key in keys:
                put(key, plus(get(key)))

    def scan(self) -> int:
        rows = 0
        with self.environment.begin() as transaction:
            for _key, _value in transaction.cursor():
                rows += 1
        return rows

    def close(self) -> None:
        self.environment.close()


class LmdbMulti(Lmdb):
    """lmdb, its `putmulti` and `getmulti`."""

    def put(self, keys: Batch, values: Batch) -> None:
        with self.environment.begin(write=True) as transaction:
            transaction.cursor().putmulti(zip(keys, values, strict=True))

    def get(self, keys: Batch) -> Batch:
        with self.environment.begin() as transaction:
            return [value for _key, value in transaction.cursor().getmulti(keys)]

    def increment(self, keys: Batch) -> None:
        counts = Counter(keys)
        with self.environment.begin(write=True) as transaction:
            cursor = transaction.cursor()
            old = cursor.getmulti(list(counts))
            cursor.putmulti([(key, plus(value, counts[key])) for key, value in old])


class Sqlite:
    """sqlite of the standard library.

    Write-ahead log, one table without rowids, `executemany` for puts.
    """

    arrow = False
    GET = "SELECT value FROM kv WHERE key = ?"
    PUT = "INSERT INTO kv VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"

    def __init__(self, folder: Path, *, sync: bool) -> None:
        self.connection = sqlite3.connect(folder / "db", isolation_level=None)
        for pragma in (
            "journal_mode = WAL",
            f"synchronous = {'FULL' if sync else 'OFF'}",
            f"cache_size = -{CACHE >> 10}",
        ):
            self.connection.execute(f"PRAGMA {pragma}")
        self.connection.execute("CREATE TABLE kv (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")

    def put(self, keys: Batch, values: Batch) -> None:
        self.connection.execute("BEGIN")
        self.connection.executemany(self.PUT, zip(keys, values, strict=True))
        self.connection.execute("COMMIT")

    def get(self, keys: Batch) -> Batch:
        execute = self.connection.execute
        return [execute(self.GET, (key,)).fetchone()[0] for key in keys]

    def increment(self, keys: Batch) -> None:
        execute = self.connection.execute
        execute("BEGIN")
        for key in keys:
            execute(self.PUT, (key, plus(execute(self.GET, (key,)).fetchone()[0])))
        execute("COMMIT")

    def scan(self) -> int:
        rows = 0
        for _key, _value in self.connection.execute("SELECT key, value FROM kv ORDER BY key"):
            rows += 1
        return rows

    def close(self) -> None:
        self.connection.close()
