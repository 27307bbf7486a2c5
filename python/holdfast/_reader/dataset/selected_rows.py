"""Reads the rows of a table that a filter selects."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast._reader.arrow import arrow, fields
from holdfast._reader.dataset.domain import Domain, Points
from holdfast._reader.dataset.key_reads import (
    MOST_SCANS,
    KeyReads,
    Scan,
    key_reads,
    scans_of_keys,
)
from holdfast._reader.dataset.time_bounds import Bounds, overlap_bounds, start_bounds
from holdfast._reader.keys import no_keys
from holdfast._reader.read_source import ReadSource
from holdfast._reader.table_calls import TableCalls

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class RowReads:
    """Reads of rows by their keys, and by the times of their windows or versions."""

    by_key: KeyReads
    times: Bounds = (None, None)


@dataclass(frozen=True)
class SelectedRows:
    """The rows of a table, or with `versions` the versions of its rows."""

    calls: TableCalls
    schema: "pyarrow.Schema"
    key: tuple[str, ...]
    kind: str
    has_null_keys: bool
    call: dict[str, Any]
    versions: bool
    source: ReadSource

    def read(
        self, selected: Mapping[str, Domain], columns: list[str]
    ) -> "pyarrow.RecordBatchReader":
        """Returns these columns of all rows with values in the domains, and maybe of other rows."""
        return self.run(self.reads(selected), columns)

    def reads(self, selected: Mapping[str, Domain]) -> RowReads:
        """Returns reads of all rows whose values are in the domains, and of few other rows."""
        by_key = key_reads(
            {name: self._stored(domain) for name, domain in selected.items()},
            fields(self.schema, list(self.key)),
            points=self._has_points(),
            ranges=not self.versions,
        )
        return RowReads(by_key, self._time_bounds(selected))

    def run(
        self, reads: RowReads, columns: list[str], partition: int | None = None
    ) -> "pyarrow.RecordBatchReader":
        """Returns these columns of the rows, of all partitions or of one.

        With more than `MOST_SCANS` scans, the source must name an epoch: the further scans begin
        later, each when the one before it has ended.
        """
        keys, (first, last) = reads.by_key.keys, reads.times
        call = {**self.call, "from": first, "to": last, "columns": columns}
        schema = fields(self.schema, columns)
        if keys is not None and self._has_points():
            found = self.calls.find({**call, "rows": "get"}, keys, self.source)
            return arrow().RecordBatchReader.from_batches(schema, found.to_batches())
        of_keys = (
            reads.by_key.scans if keys is None else scans_of_keys(keys, ranges=not self.versions)
        )
        calls = [self._scan(call, scan) for scan in of_keys]
        scans = self.calls.scans(calls[:MOST_SCANS], self.source, partition)
        if len(calls) == 1:
            return scans[0]

        def batches() -> "Iterator[pyarrow.RecordBatch]":
            for scan in scans:
                yield from scan
            for later in calls[MOST_SCANS:]:
                yield from self.calls.scan(*later, self.source, partition)[0]

        return arrow().RecordBatchReader.from_batches(schema, batches())

    def _has_points(self) -> bool:
        """Whether a key has one row in a partition, which is read without a scan."""
        return not self.versions and not self._has_windows()

    def _has_windows(self) -> bool:
        return self.kind in ("window", "timestamped_window", "session")

    def _stored(self, domain: Domain) -> Domain:
        """Returns the domain without null if no key is null: a key's encoding may lack null."""
        if isinstance(domain, Points) and not self.has_null_keys:
            return Points(domain.values.drop_null())
        return domain

    def _time_bounds(self, selected: Mapping[str, Domain]) -> Bounds:
        start = len(self.key)
        if self.kind == "session":
            return overlap_bounds(selected, self.schema.field(start), self.schema.field(start + 1))
        if self.versions:
            # No last time: if it is before the history, the store leaves out versions that began by
            # then, even if they ended within the history.
            return start_bounds(selected, self.schema.field(start))[0], None
        if self._has_windows():
            return start_bounds(selected, self.schema.field(start))
        return None, None

    def _scan(
        self, call: dict[str, Any], scan: Scan
    ) -> "tuple[dict[str, Any], pyarrow.RecordBatch]":
        if not self.versions:
            return {**call, "rows": scan.rows}, scan.bounds
        if scan.rows == "prefix":
            return {**call, "rows": "versions_of_key"}, scan.bounds
        return {**call, "rows": "versions"}, no_keys()
