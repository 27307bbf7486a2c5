"""Reads the changes of a table in a batch query."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from holdfast._reader.pinned_epoch import PinnedEpoch, checked
from holdfast._reader.state_reader import StateReader
from holdfast._reader.state_table import StateTable
from holdfast.spark.source.changes_rows import read_changes
from holdfast.spark.source.changes_span import ChangesSpan
from holdfast.spark.source.source_options import SourceOptions
from holdfast.spark.source.spark_types import arrow_schema, as_sparks

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow


@dataclass
class ChangesPartition(InputPartition):
    """The rows of one task."""

    partition: int
    span: ChangesSpan
    last: PinnedEpoch


class TableChanges:
    """The changes of a table as tasks read them."""

    def __init__(
        self, options: SourceOptions, reader: StateReader, table: StateTable, schema: StructType
    ) -> None:
        self.options: Final = options
        self.reader: Final = reader
        self.table: Final = table
        self._schema: Final = schema

    def partitions(self, span: ChangesSpan, last: PinnedEpoch) -> list[InputPartition]:
        """Returns a task for each partition of the state; no task if the span is empty.

        `last` is the last epoch of the span.

        Raises `ChangesLostError` if the log no longer has the first epoch.
        """
        if span.is_empty:
            return []
        if span.has_changes:
            # Raises the error here: Spark passes on only the text of an error in a task.
            self.table.changes(from_epoch=span.first, to_epoch=span.last, partition=0).close()
        return [ChangesPartition(number, span, last) for number in range(self.reader.partitions)]

    def read(self, partition: InputPartition) -> "Iterator[pyarrow.RecordBatch]":
        """Reads the rows of a task."""
        if not isinstance(partition, ChangesPartition):
            # Spark makes such a partition if `partitions` returned an empty list.
            return
        schema, span = arrow_schema(self._schema), partition.span
        source = self.options.source(span.table_epoch or 0)
        batches = read_changes(self.table, partition.partition, span, source)
        for batch in checked(batches, lambda: partition.last.check(self.reader)):
            if batch.num_rows > 0:
                yield as_sparks(batch.select(schema.names), schema)


class ChangesBatchReader(DataSourceReader):
    """Reads the changes of a range of epochs."""

    def __init__(self, changes: TableChanges) -> None:
        self._changes: Final = changes

    def partitions(self) -> list[InputPartition]:
        """Chooses the epochs, and returns a task for each partition of the state.

        Raises `ChangesLostError` if the log no longer has the first epoch.
        """
        options = self._changes.options
        last = options.ending_epoch
        if last is None:
            last = self._changes.reader.final_epoch()
        first = options.first_epoch
        if first is None:
            first = self._changes.table.oldest_changes()
            if first is not None and first > last:
                # Raises `ChangesLostError` if the log no longer has `last`. If the operator began
                # after `last`, there are no changes.
                self._changes.table.changes(to_epoch=last, partition=0).close()
        pinned = PinnedEpoch.of(self._changes.reader, last)
        return self._changes.partitions(ChangesSpan(first=first or 0, last=last), pinned)

    def read(self, partition: InputPartition) -> "Iterator[pyarrow.RecordBatch]":
        """Reads the rows of a task."""
        return self._changes.read(partition)
