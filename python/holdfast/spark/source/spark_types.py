"""Spark's types for the columns of a table, and a table's rows in these types."""

import inspect
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as sql
from pyspark.sql.pandas import types as conversions

from holdfast._reader.arrow import arrow

if TYPE_CHECKING:
    import pyarrow


def spark_schema(schema: "pyarrow.Schema") -> sql.StructType:
    """Returns the columns with Spark's types.

    Raises `ValueError` for a column that Spark cannot read from a Python data source.
    """
    return sql.StructType([sql.StructField(field.name, _spark_type(field)) for field in schema])


def arrow_schema(schema: sql.StructType) -> "pyarrow.Schema":
    """Returns the Arrow columns that Spark expects of a Python data source."""
    convert: Any = conversions.to_arrow_schema
    # PySpark 4.0 and 4.1 have no parameter `timezone`: their columns of times are in UTC.
    by_zone = "timezone" in inspect.signature(convert).parameters
    return convert(schema, timezone="UTC") if by_zone else convert(schema)


def as_sparks(batch: "pyarrow.RecordBatch", schema: "pyarrow.Schema") -> "pyarrow.RecordBatch":
    """Returns the batch with exactly these columns and types."""
    columns = [
        column if column.type.equals(field.type, check_metadata=False) else column.cast(field.type)
        for field, column in zip(schema, map(batch.column, schema.names), strict=True)
    ]
    return type(batch).from_arrays(columns, schema=schema)


def _spark_type(field: "pyarrow.Field") -> sql.DataType:
    try:
        spark_type = conversions.from_arrow_type(_signed(field.type), prefer_timestamp_ntz=True)
        arrow_schema(sql.StructType([sql.StructField(field.name, spark_type)]))
    except Exception as error:
        raise ValueError(
            f"column {field.name!r} is {field.type}, which Spark does not read from a Python data "
            "source: leave it out with the option `columns`"
        ) from error
    return spark_type


def _signed(kind: "pyarrow.DataType") -> "pyarrow.DataType":
    """Returns the type with the next larger signed type in place of each unsigned one.

    It replaces unsigned types in structs and lists, too, but not in maps.
    """
    pa = arrow()
    wider = {
        pa.uint8(): pa.int16(),
        pa.uint16(): pa.int32(),
        pa.uint32(): pa.int64(),
        pa.uint64(): pa.decimal128(20, 0),
    }
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_signed(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_signed(kind.value_type)))
    return wider.get(kind, kind)
