"""The types of Spark's columns, and the Arrow types in which they are sent."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyspark.sql.types as sql
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from holdfast.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from pyspark.sql import Column

# Times are sent in UTC and not in the session's zone, so a query that is restarted in another zone
# finds its state.
_ARROW: Final[dict[type[sql.DataType], pa.DataType]] = {
    sql.BooleanType: pa.bool_(),
    sql.ByteType: pa.int8(),
    sql.ShortType: pa.int16(),
    sql.IntegerType: pa.int32(),
    sql.LongType: pa.int64(),
    sql.FloatType: pa.float32(),
    sql.DoubleType: pa.float64(),
    sql.StringType: pa.string(),
    sql.BinaryType: pa.binary(),
    sql.DateType: pa.date32(),
    sql.TimestampType: pa.timestamp("us", tz="UTC"),
    sql.TimestampNTZType: pa.timestamp("us"),
    sql.DayTimeIntervalType: pa.duration("us"),
}


def contains(data_type: sql.DataType, condition: Callable[[sql.DataType], bool]) -> bool:
    """Returns whether a type, or one nested in it, satisfies a condition."""
    match data_type:
        case sql.ArrayType():
            inner = [data_type.elementType]
        case sql.MapType():
            inner = [data_type.keyType, data_type.valueType]
        case sql.StructType():
            inner = [field.dataType for field in data_type]
        case _:
            inner = []
    return condition(data_type) or any(contains(found, condition) for found in inner)


def is_collated(data_type: sql.DataType) -> bool:
    """Returns whether equal strings of the type may have different bytes."""
    return _collation(data_type) is not None


def is_floating(field: sql.StructField) -> bool:
    """Returns whether equal values of the column may have different bits."""
    return isinstance(field.dataType, (sql.FloatType, sql.DoubleType))


def as_key(column: "Column", field: sql.StructField) -> "Column":
    """Returns the column with one bit pattern for equal values: 0.0 for -0.0, one NaN."""
    if not is_floating(field):
        return column
    zero, nan = (F.lit(value).cast(field.dataType) for value in (0.0, float("nan")))
    return F.when(column == zero, zero).when(F.isnan(column), nan).otherwise(column)


def parsed_ddl(text: str, argument: str, fold: Callable[[str], str] = str) -> sql.StructType:
    """Parses a list of columns as SQL writes it; `argument` names the text in errors.

    `fold` returns the same text for all names that Spark considers equal. Raises `TypeError` if the
    text is no string, `ValueError` if it is no list of columns or has two columns of one name.
    """
    example = 'write it as SQL does, "key string, hits bigint"'
    if not isinstance(text, str):
        raise TypeError(f"{argument} is a {type(text).__name__}: {example}")
    try:
        found = sql.StructType.fromDDL(text)
    except PySparkException as error:
        raise ValueError(f"{argument}={text!r} is no list of columns and types: {error}") from error
    if not isinstance(found, sql.StructType) or not found.fields:
        raise ValueError(f"{argument}={text!r} has no columns: {example}")
    names = [fold(name) for name in found.names]
    if twice := sorted({name for name in found.names if names.count(fold(name)) > 1}):
        raise ValueError(f"{argument}={text!r} has two columns of one name: {', '.join(twice)}")
    return found


def instant(column: "Column", time_type: sql.DataType) -> "Column":
    """Converts a timestamp to `time_type`; without a zone it is the local time in UTC."""
    if not isinstance(time_type, sql.TimestampNTZType):
        return column
    # Not convert_timezone: it uses the local time of the session's zone, in which one hour occurs
    # twice when summer time ends.
    seconds = F.unix_micros(column) / F.expr("1000000BD")
    return F.expr("timestamp_ntz'1970-01-01 00:00:00'") + F.make_dt_interval(
        F.lit(0), F.lit(0), F.lit(0), seconds
    )


def arrow_type(data_type: sql.DataType, column: str) -> pa.DataType:
    """Returns the Arrow type that a Spark type is sent as.

    Raises `UnsupportedOperationError`, which names the `column`, if there is none.
    """
    if isinstance(data_type, sql.DecimalType):
        return pa.decimal128(data_type.precision, data_type.scale)
    if isinstance(data_type, sql.ArrayType):
        element = arrow_type(data_type.elementType, f"{column}[]")
        return pa.list_(pa.field("element", element, data_type.containsNull))
    if isinstance(data_type, sql.MapType):
        key, value = (
            arrow_type(data_type.keyType, f"{column}.key"),
            arrow_type(data_type.valueType, f"{column}.value"),
        )
        return pa.map_(
            pa.field("key", key, nullable=False),
            pa.field("value", value, data_type.valueContainsNull),
        )
    if isinstance(data_type, sql.StructType):
        return pa.struct(
            [
                pa.field(
                    field.name, arrow_type(field.dataType, f"{column}.{field.name}"), field.nullable
                )
                for field in data_type
            ]
        )
    known = _ARROW.get(type(data_type))
    if known is None:
        raise UnsupportedOperationError(
            f"column {column!r} is {data_type.simpleString()}, which the state cannot store: cast "
            "it or drop it"
        )
    return known


def nullable(data_type: sql.DataType) -> sql.DataType:
    """Returns the type with all nested values nullable, except a map's keys.

    Later plans of the query read the rows that this one stores, and may have nullable columns.
    """
    match data_type:
        case sql.ArrayType():
            return sql.ArrayType(nullable(data_type.elementType), containsNull=True)
        case sql.MapType():
            return sql.MapType(
                data_type.keyType, nullable(data_type.valueType), valueContainsNull=True
            )
        case sql.StructType():
            return sql.StructType(
                [sql.StructField(field.name, nullable(field.dataType)) for field in data_type]
            )
        case _:
            return data_type


def _collation(data_type: sql.DataType) -> str | None:
    collation = getattr(data_type, "collation", None)
    return None if collation in (None, "UTF8_BINARY") else str(collation)
