"""Reads a table of one epoch: planned on the driver's machine, read in tasks."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from holdfast._reader.arrow import fields
from holdfast._reader.state_reader import StateReader
from holdfast._reader.state_table import StateTable
from holdfast.spark.source.key_option import parse_keys
from holdfast.spark.source.source_options import SourceOptions
from holdfast.spark.source.spark_types import arrow_schema, as_sparks

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.datasource import Filter

    from holdfast.spark.source.key_filters import KeyFilters


@dataclass
class StatePartition(InputPartition):
    """The rows of one task: of a partition of the state, or of some keys."""

    epoch: int
    partition: int | None
    keys: "pyarrow.RecordBatch | None" = None


class StateBatchReader(DataSourceReader):
    """Reads the rows of a table.

    The plan chooses the epoch: all tasks read exactly that one.
    """

    def __init__(
        self, options: SourceOptions, reader: StateReader, table: StateTable, schema: StructType
    ) -> None:
        self._options: Final = options
        self._reader: Final = reader
        self._table: Final = table
        self._schema: Final = schema
        self._columns: Final = schema.fieldNames()
        self._key_schema: Final = fields(table.schema, list(table.key))
        self._filters: KeyFilters | None = None

    def partitions(self) -> list[InputPartition]:
        """Chooses the epoch; a task for each partition that has rows to read."""
        epoch = self._options.epoch
        if epoch is None:
            epoch = self._reader.final_epoch()
        keys = self._keys()
        if keys is None:
            return [StatePartition(epoch, number) for number in range(self._reader.partitions)]
        places = self._table.partitions_of(keys)
        if places is None:
            return [StatePartition(epoch, None, keys)]
        rows: dict[int, list[int]] = {}
        for row, place in enumerate(places):
            rows.setdefault(place, []).append(row)
        return [StatePartition(epoch, place, keys.take(of)) for place, of in rows.items()]

    def read(self, partition: InputPartition) -> "Iterator[pyarrow.RecordBatch]":
        """Reads the rows of a task."""
        if not isinstance(partition, StatePartition):
            # Spark's, where `partitions` returned none.
            return
        schema = arrow_schema(self._schema)
        for batch in self._batches(partition):
            yield as_sparks(batch, schema)

    def _keys(self) -> "pyarrow.RecordBatch | None":
        """Returns the only keys that are read; None: all."""
        if self._options.key is not None:
            keys = parse_keys(self._options.key, self._key_schema)
            return keys if keys.num_rows < 2 else _distinct(keys)
        return None if self._filters is None else self._filters.keys

    def _batches(self, partition: StatePartition) -> "Iterator[pyarrow.RecordBatch]":
        options, columns = self._options, self._columns
        source = options.source(partition.epoch)
        place = partition.partition
        if partition.keys is None and options.versions:
            yield from self._table.versions(partition=place, columns=columns, **source)
        elif partition.keys is None:
            found = self._filters
            bounds: dict[str, Any] = {}
            if found is not None:
                bounds = {"prefix": found.prefix, "start": found.start, "end": found.end}
            yield from self._table.scan(
                partition=place, as_of=options.as_of, columns=columns, **bounds, **source
            )
        elif options.versions:
            for key in _values(partition.keys):
                yield from self._table.versions(key, partition=place, columns=columns, **source)
        elif self._table.is_windowed:
            for key in _values(partition.keys):
                # A prefix would also find longer keys.
                yield from self._table.scan(
                    start=key, end=key, partition=place, columns=columns, **source
                )
        else:
            rows = self._table.find(partition.keys, as_of=options.as_of, columns=columns, **source)
            yield from rows.to_batches()


class FilteringBatchReader(StateBatchReader):
    """Reads only rows that a query's filters can select.

    Spark applies the filters again: a range of keys has more rows than they select.
    """

    def pushFilters(self, filters: "list[Filter]") -> "Iterable[Filter]":  # noqa: N802 - Spark's
        """Finds the keys that the filters select; Spark still applies all filters."""
        from holdfast.spark.source.key_filters import KeyFilters

        # Versions of a range of keys cannot be read without reading all.
        found = KeyFilters.of(filters, self._key_schema)
        self._filters = found if found.keys is not None or not self._options.versions else None
        return filters


def _distinct(keys: "pyarrow.RecordBatch") -> "pyarrow.RecordBatch":
    rows = {repr(row): number for number, row in enumerate(keys.to_pylist())}
    return keys.take(list(rows.values()))


def _values(keys: "pyarrow.RecordBatch") -> Iterator[Any]:
    """Returns the keys as Python values: a key of several columns is a tuple."""
    for row in keys.to_pylist():
        values = list(row.values())
        yield tuple(values) if len(values) > 1 else values[0]
