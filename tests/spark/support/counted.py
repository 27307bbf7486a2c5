"""Counts the rows that a reader returns, and records the columns and epochs that it reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import holdfast as hf


class CountedReads:
    """The extension's reader, which counts the rows that it returns."""

    def __init__(self, core: Any) -> None:
        self._core = core
        self.rows = 0
        self.columns: set[str] = set()
        """The columns that the last call requested."""
        self.epochs: list[int] = []

    def get(self, table: Any, read: str, keys: Any, source: Any, every_row: bool) -> Any:
        batches = self._core.get(table, read, keys, source, every_row)
        found = [pa.record_batch(batch) for batch in batches]
        for batch in found:
            # A key that is not found is a row, too.
            self.rows += batch["holdfast.found"].to_pylist().count(True)
        self._note(read, found[0].schema)
        return found

    def scan(
        self, table: Any, read: str, bounds: Any, partition: int | None, source: Any
    ) -> CountedRows:
        rows = CountedRows(self, self._core.scan(table, read, bounds, partition, source))
        self._note(read, rows.schema)
        return rows

    def _note(self, read: str, schema: pa.Schema) -> None:
        self.columns = set(json.loads(read).get("columns") or ())
        self.epochs.append(int(schema.metadata[b"holdfast.epoch"]))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)


class CountedRows:
    """The rows of a scan, counted as they are read."""

    def __init__(self, reads: CountedReads, rows: Any) -> None:
        self._reads = reads
        self._rows = rows
        self.schema = pa.schema(rows)

    def __arrow_c_schema__(self) -> Any:
        return self.schema.__arrow_c_schema__()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in map(pa.record_batch, self._rows):
            self._reads.rows += batch.num_rows
            yield batch


def count_rows(reader: hf.StateReader, monkeypatch: pytest.MonkeyPatch) -> CountedReads:
    """Counts what a reader and its tables return from now on."""
    counted = CountedReads(reader._connection.core)
    monkeypatch.setattr(reader._connection, "core", counted)
    return counted
