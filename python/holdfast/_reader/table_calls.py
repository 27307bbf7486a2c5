"""The extension's reads of one table."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from holdfast._options import IsolationLevel
from holdfast._reader.arrow import arrow, record_batches
from holdfast._reader.connection import Connection
from holdfast._reader.keys import no_keys
from holdfast._reader.read_source import ReadSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow

_EPOCH: Final = b"holdfast.epoch"
_ROUNDS: Final = 3


@dataclass(frozen=True)
class TableCalls:
    """Reads a table of an operator."""

    connection: Connection
    operator: str
    store: str

    def get(
        self, call: dict[str, Any], keys: "pyarrow.RecordBatch", source: ReadSource
    ) -> "pyarrow.Table":
        """Returns a row for each key. The last column says whether there is one.

        Raises `UnsupportedOperationError` if several partitions have a row of one key.
        """
        return arrow().Table.from_batches(self.get_batches(call, keys, source))

    def get_batches(
        self,
        call: dict[str, Any],
        keys: "pyarrow.RecordBatch",
        source: ReadSource,
        *,
        every_row: bool = False,
    ) -> "list[pyarrow.RecordBatch]":
        """Returns the rows of `get`, or with `every_row` those of `find`, as one or more batches.

        The last column says whether there is a row.
        """
        found = self.connection.core.get(
            (self.operator, self.store),
            json.dumps(call),
            keys,
            self.connection.source(source),
            every_row,
        )
        return [arrow().record_batch(batch) for batch in found]

    def find(
        self, call: dict[str, Any], keys: "pyarrow.RecordBatch", source: ReadSource
    ) -> "pyarrow.Table":
        """Returns the rows of the keys that are found, in the order of the keys.

        If the keys do not choose the partition, several partitions may have a row of one key. The
        result has all of them.
        """
        rows = arrow().Table.from_batches(self.get_batches(call, keys, source, every_row=True))
        return without_found(rows.filter(rows.column(rows.num_columns - 1)))

    def get_row(
        self,
        key: list[tuple[str, Any]],
        as_of: int | None,
        columns: "Sequence[str] | None",
        source: ReadSource,
    ) -> tuple[dict[str, Any] | None] | None:
        """Returns the row of a key, or None, in a tuple.

        If it returns None, call `get_batches`, which reads the row or raises the error.
        """
        table = (self.operator, self.store)
        source_ = self.connection.source(source)
        return self.connection.core.get_row(table, key, as_of, columns, source_)

    def scan(
        self,
        call: dict[str, Any],
        bounds: "pyarrow.RecordBatch",
        source: ReadSource,
        partition: int | None = None,
    ) -> "tuple[pyarrow.RecordBatchReader, int]":
        """Returns the rows of a scan, of all partitions or of one, and their epoch."""
        rows = self.connection.core.scan(
            (self.operator, self.store),
            json.dumps(call),
            bounds,
            partition,
            self.connection.source(source),
        )
        reader = record_batches(rows)
        return reader, int(reader.schema.metadata[_EPOCH])

    def epoch(self, source: ReadSource) -> int:
        """Returns the final epoch that a scan reads now."""
        committed: ReadSource = {**source, "isolation_level": IsolationLevel.READ_COMMITTED}
        return self.scan({"rows": "all", "limit": 0}, no_keys(), committed)[1]

    def scans(
        self,
        calls: "list[tuple[dict[str, Any], pyarrow.RecordBatch]]",
        source: ReadSource,
        partition: int | None = None,
    ) -> "list[pyarrow.RecordBatchReader]":
        """Returns the rows of several scans, all of one epoch.

        All are opened before the first is read: a host keeps an older epoch only for open scans. If
        micro-batches end faster than the scans are opened, the scans read the newest epoch that one
        of them found. Even at `READ_UNCOMMITTED` they then read only final rows: staged rows cannot
        be read at a given epoch.
        """
        newest = None
        for _ in range(_ROUNDS):
            found = [self.scan(call, bounds, source, partition) for call, bounds in calls]
            epochs = {epoch for _, epoch in found}
            if len(epochs) <= 1:
                return [rows for rows, _ in found]
            newest = max(epochs)
        level = IsolationLevel.READ_COMMITTED
        at_one: ReadSource = {
            **source,
            "epoch": newest,
            "at_least": None,
            "isolation_level": level,
        }
        return [self.scan(call, bounds, at_one, partition)[0] for call, bounds in calls]

    def partitions_of(self, keys: "pyarrow.RecordBatch") -> list[int] | None:
        """Returns the partition of each key; None if the table's keys do not choose it."""
        return self.connection.core.places((self.operator, self.store), keys)

    def changes(
        self, epochs: tuple[int | None, int | None], partition: int | None
    ) -> "pyarrow.RecordBatchReader":
        """Returns the changes of a range of epochs, both included."""
        core = self.connection.core
        return record_batches(core.changes((self.operator, self.store), epochs, partition))

    def changes_schema(self) -> "pyarrow.Schema":
        """Returns the columns of `changes`."""
        return arrow().schema(self.connection.core.changes_schema((self.operator, self.store)))

    def oldest_changes(self) -> int | None:
        """Returns the oldest epoch of the log; None if no epoch is final."""
        return self.connection.core.oldest_changes((self.operator, self.store))


def without_found(rows: "pyarrow.Table") -> "pyarrow.Table":
    """Returns the rows of `TableCalls.get` without the last column.

    It is dropped by its number: a column of the user's may have its name.
    """
    return rows.select(list(range(rows.num_columns - 1)))
