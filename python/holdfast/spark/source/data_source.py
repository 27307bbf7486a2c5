"""Spark's data source `holdfast`."""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from holdfast._reader.arrow import fields
from holdfast._reader.state_table import StateTable
from holdfast.spark.source.batch_reader import StateBatchReader
from holdfast.spark.source.changes_reader import ChangesBatchReader, TableChanges
from holdfast.spark.source.source_options import SourceOptions
from holdfast.spark.source.spark_types import spark_schema
from holdfast.spark.source.stream_reader import ChangesStreamReader

if TYPE_CHECKING:
    import pyarrow


class HoldfastDataSource(DataSource):
    """A table of a query's state; `docs/spark/reading.md` has its options.

    `pyspark_holdfast` registers it.
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "holdfast"

    def schema(self) -> StructType:
        """The columns of the table or of its changes, or those that the option `columns` names."""
        options = self._options()
        table = options.find_table(options.connect())
        return _columns(_schema(table, options), options.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads these columns of the table, or of its changes."""
        options = self._options()
        if options.changes:
            if options.starting_epoch in ("snapshot", "latest"):
                raise ValueError(
                    f"option startingEpoch is {options.starting_epoch!r}, which is for streams: "
                    "give earliest or a number"
                )
            if options.follower is not None:
                raise ValueError("option follower is for streams")
            return ChangesBatchReader(self._changes(options, schema))
        reader = options.connect()
        table = options.find_table(reader)
        _check(schema, table.schema)
        return StateBatchReader(options, reader, table, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """Follows the changes of the table."""
        options = self._options()
        if not options.changes:
            raise ValueError(
                "a stream reads the changes of a table: set the option changes to true"
            )
        if options.ending_epoch is not None:
            raise ValueError("option endingEpoch is for batch queries")
        return ChangesStreamReader(self._changes(options, schema))

    def _changes(self, options: SourceOptions, schema: StructType) -> TableChanges:
        reader = options.connect()
        table = options.find_table(reader)
        _check(schema, table.changes_schema)
        return TableChanges(options, reader, table, schema)

    def _options(self) -> SourceOptions:
        return SourceOptions.parse({name.lower(): self.options[name] for name in self.options})


def _schema(table: StateTable, options: SourceOptions) -> "pyarrow.Schema":
    return table.changes_schema if options.changes else table.schema


def _columns(schema: "pyarrow.Schema", names: list[str] | None) -> StructType:
    if names is None:
        return spark_schema(schema)
    unknown = [name for name in names if name not in schema.names]
    if unknown:
        raise ValueError(f"the table has no column {unknown[0]!r}; it has {schema.names}")
    return spark_schema(fields(schema, names))


def _check(asked: StructType, schema: "pyarrow.Schema") -> None:
    """Checks the types of a schema, which the user may have given."""
    there = _columns(schema, asked.fieldNames())
    for wanted, found in zip(asked, there, strict=True):
        if wanted.dataType != found.dataType:
            raise ValueError(
                f"column {wanted.name!r} is {found.dataType.simpleString()}, and the schema says "
                f"{wanted.dataType.simpleString()}"
            )
