"""Reads a table at one epoch: planned on the driver's machine, read in tasks."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from holdfast._reader.arrow import fields
from holdfast._reader.dataset.key_reads import KeyReads
from holdfast._reader.dataset.selected_rows import RowReads, SelectedRows
from holdfast._reader.pinned_epoch import PinnedEpoch, checked
from holdfast._reader.state_reader import StateReader
from holdfast._reader.state_table import StateTable
from holdfast.spark.source.key_option import parse_keys
from holdfast.spark.source.source_options import SourceOptions
from holdfast.spark.source.spark_types import arrow_schema, as_sparks

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow


@dataclass
class StatePartition(InputPartition):
    """The rows of one task: those of a partition of the state, or of some keys."""

    epoch: PinnedEpoch
    partition: int | None
    reads: RowReads


class StateBatchReader(DataSourceReader):
    """Reads the rows of a table.

    The plan chooses the epoch: all tasks read exactly that one. It takes no filters: PySpark 4.1 to
    4.3 use the plan of the last read with filters for all reads of a DataFrame, so other reads
    would lack rows.
    """

    def __init__(
        self, options: SourceOptions, reader: StateReader, table: StateTable, schema: StructType
    ) -> None:
        self._options: Final = options
        self._reader: Final = reader
        self._table: Final = table
        self._schema: Final = schema

    def partitions(self) -> list[InputPartition]:
        """Chooses the epoch, and returns a task for each partition that must be read.

        If the partitions of the keys to read are not known, one task reads all partitions.
        """
        number = self._options.epoch
        if number is None:
            number = self._reader.final_epoch()
        epoch = PinnedEpoch.of(self._reader, number)
        reads = self._reads(number)
        keys = reads.by_key.keys
        if keys is None:
            every = range(self._reader.partitions) if reads.by_key.scans else ()
            return [StatePartition(epoch, each, reads) for each in every]
        places = self._table.partitions_of(keys)
        if places is None:
            return [StatePartition(epoch, None, reads)]
        rows: dict[int, list[int]] = {}
        for row, place in enumerate(places):
            rows.setdefault(place, []).append(row)
        return [
            StatePartition(epoch, place, replace(reads, by_key=KeyReads(keys=keys.take(of))))
            for place, of in rows.items()
        ]

    def read(self, partition: InputPartition) -> "Iterator[pyarrow.RecordBatch]":
        """Reads the rows of a task."""
        if not isinstance(partition, StatePartition):
            # A partition that Spark makes if `partitions` returned none.
            return
        schema = arrow_schema(self._schema)
        rows = self._rows(partition.epoch.number)
        batches = rows.run(partition.reads, self._schema.fieldNames(), partition.partition)
        for batch in checked(batches, lambda: partition.epoch.check(self._reader)):
            yield as_sparks(batch, schema)

    def _rows(self, epoch: int) -> SelectedRows:
        options = self._options
        return self._table._selected_rows(
            as_of=options.as_of, versions=options.versions, source=options.source(epoch)
        )

    def _reads(self, epoch: int) -> RowReads:
        """Returns reads of the keys that the options name, or of all rows."""
        if self._options.key is not None:
            keys = parse_keys(self._options.key, fields(self._table.schema, list(self._table.key)))
            return RowReads(KeyReads(keys=keys))
        return self._rows(epoch).reads({})
