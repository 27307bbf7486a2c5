"""Spark's columns and types: found, checked, and as Arrow has them."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyspark.sql.types as sql
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from holdfast.errors import UnsupportedOperationError
from holdfast.spark.heartbeat import HEARTBEAT

if TYPE_CHECKING:
    from pyspark.sql import Column

# Times cross as UTC whatever the session's zone is, so that a query restarted in another zone finds
# its state.
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
_KEYS: Final = (
    sql.BooleanType,
    sql.ByteType,
    sql.ShortType,
    sql.IntegerType,
    sql.LongType,
    sql.FloatType,
    sql.DoubleType,
    sql.DecimalType,
    sql.StringType,
    sql.BinaryType,
    sql.DateType,
    sql.TimestampType,
    sql.TimestampNTZType,
)


class Side:
    """One input of an operator, with the name that the user knows it by."""

    def __init__(self, name: str, frame: DataFrame) -> None:
        """`name` is `left`, `right`, or `given` where there is one."""
        if not isinstance(frame, DataFrame):
            kind = type(frame)
            given = (
                kind.__qualname__
                if kind.__module__ == "builtins"
                else f"{kind.__module__}.{kind.__qualname__}"
            )
            raise TypeError(
                f"{'df' if name == 'given' else name} is a {given}: give a DataFrame of Spark"
            )
        self.name: Final = name
        self.frame: Final = frame
        self.fields: Final = [field for field in frame.schema.fields if field.name != HEARTBEAT]
        self.has_heartbeats: Final = len(self.fields) < len(frame.schema.fields)
        self._any_case: Final = not is_on(frame, "spark.sql.caseSensitive", default="false")
        seen: set[str] = set()
        for field in self.fields:
            if self.fold(field.name) in seen:
                raise ValueError(
                    f"the {name} frame has two columns named {field.name!r}: rename one"
                )
            seen.add(self.fold(field.name))

    def fold(self, column: str) -> str:
        """The name as Spark compares it."""
        return column.lower() if self._any_case else column

    def find(self, column: str, argument: str) -> sql.StructField:
        """The field of that name; `argument` says who asks for it.

        Raises `TypeError` for what is no name, `ValueError` for one that the frame does not have.
        """
        if not isinstance(column, str):
            raise TypeError(f"{argument} takes the name of a column, not a {type(column).__name__}")
        for field in self.fields:
            if self.fold(field.name) == self.fold(column):
                return field
        there = ", ".join(field.name for field in self.fields)
        raise ValueError(
            f"{argument}: the {self.name} frame has no column {column!r}; it has {there}"
        )

    def time(self, column: str, argument: str) -> sql.StructField:
        """The field of that name, which must be a timestamp, else `ValueError`."""
        field = self.find(column, argument)
        if type(field.dataType) not in (sql.TimestampType, sql.TimestampNTZType):
            raise ValueError(
                f"{argument}: column {field.name!r} of the {self.name} frame is "
                f"{field.dataType.simpleString()}, "
                f"not a timestamp; cast it: .withColumn({field.name!r}, "
                f"F.col({field.name!r}).cast('timestamp'))"
            )
        return field

    def column(self, field: sql.StructField) -> "Column":
        """The column of a field, whatever characters its name has."""
        quoted = field.name.replace("`", "``")
        return F.col(f"`{quoted}`")


def is_on(frame: DataFrame, setting: str, *, default: str) -> bool:
    """Whether a setting of the frame's session is true, in Spark's ways of writing that."""
    return str(frame.sparkSession.conf.get(setting, default)).strip().lower() == "true"


def check_same_key(left: sql.StructField, right: sql.StructField) -> None:
    """Refuse two key columns that cannot be compared with each other."""
    if left.dataType != right.dataType:
        raise ValueError(
            f"by: key column {left.name!r} is {left.dataType.simpleString()} in the left frame and "
            f"{right.dataType.simpleString()} in the right one; cast one of them"
        )


def check_same_time(left: sql.StructField, right: sql.StructField) -> None:
    """Refuse times of two kinds."""
    if left.dataType != right.dataType:
        raise ValueError(
            f"left_on {left.name!r} is {left.dataType.simpleString()} and right_on "
            f"{right.name!r} is {right.dataType.simpleString()}: cast one to the other's type"
        )


def check_time_is_no_key(
    argument: str, time: sql.StructField, keys: Sequence[sql.StructField]
) -> None:
    """Refuse a time, named by `argument`, that is one of the keys, too."""
    if time in keys:
        raise ValueError(
            f"{argument}: column {time.name!r} is a key, too; a key and a time are two columns"
        )


def check_key_type(column: sql.StructField, argument: str = "by") -> None:
    """Refuse keys whose equal values may look different, or that have no order."""
    if type(column.dataType) not in _KEYS or is_collated(column.dataType):
        raise ValueError(
            f"{argument}: column {column.name!r} is {column.dataType.simpleString()}, which cannot "
            "be a key: take a "
            "number, a string (UTF8_BINARY), a binary, a boolean, a date or a timestamp"
        )


def contains(data_type: sql.DataType, is_wanted: Callable[[sql.DataType], bool]) -> bool:
    """Whether a type is one that is wanted, or has one in it."""
    match data_type:
        case sql.ArrayType():
            inner = [data_type.elementType]
        case sql.MapType():
            inner = [data_type.keyType, data_type.valueType]
        case sql.StructType():
            inner = [field.dataType for field in data_type]
        case _:
            inner = []
    return is_wanted(data_type) or any(contains(found, is_wanted) for found in inner)


def is_collated(data_type: sql.DataType) -> bool:
    """Whether equal strings of the type may have different bytes."""
    return _collation(data_type) is not None


def is_floating(field: sql.StructField) -> bool:
    """Whether equal values of the column may have different bits."""
    return isinstance(field.dataType, (sql.FloatType, sql.DoubleType))


def as_key(column: "Column", field: sql.StructField) -> "Column":
    """The column with one spelling a value: 0.0 for -0.0 too, one NaN."""
    if not is_floating(field):
        return column
    zero, nan = (F.lit(value).cast(field.dataType) for value in (0.0, float("nan")))
    return F.when(column == zero, zero).when(F.isnan(column), nan).otherwise(column)


def parsed_ddl(text: str, argument: str, fold: Callable[[str], str] = str) -> sql.StructType:
    """Columns as SQL writes them; `argument` names the text in errors, `fold` gives names that are
    one the same form.

    Raises `TypeError` for what is no text, `ValueError` for one that is none of columns, or has two
    of one name.
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
    """A moment as a time of that type; without a zone, it is UTC's."""
    if not isinstance(time_type, sql.TimestampNTZType):
        return column
    # Not convert_timezone: that goes by the session zone's clock, which shows an hour twice where
    # summer time ends.
    seconds = F.unix_micros(column) / F.expr("1000000BD")
    return F.expr("timestamp_ntz'1970-01-01 00:00:00'") + F.make_dt_interval(
        F.lit(0), F.lit(0), F.lit(0), seconds
    )


def arrow_type(data_type: sql.DataType, column: str) -> pa.DataType:
    """The Arrow type that a Spark type crosses as; for one that cannot an
    `UnsupportedOperationError` names the `column`.
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
            f"column {column!r} is {data_type.simpleString()}, which the state cannot keep: cast "
            "it or drop it"
        )
    return known


def nullable(data_type: sql.DataType) -> sql.DataType:
    """The type with inner values that may be null, all but a map's keys: what a plan has stored is
    read by later ones.
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
