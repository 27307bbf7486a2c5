"""Checks of key, time and order columns; the errors name the argument."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pyspark.sql.types as sql

from holdfast.spark.plan import schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEY_TYPES: Final = (
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


def check_same_key(left: sql.StructField, right: sql.StructField) -> None:
    """Raises `ValueError` for two key columns of different types."""
    if left.dataType != right.dataType:
        raise ValueError(
            f"by: key column {left.name!r} is {left.dataType.simpleString()} in the left frame and "
            f"{right.dataType.simpleString()} in the right one; cast one of them"
        )


def check_same_time(left: sql.StructField, right: sql.StructField) -> None:
    """Raises `ValueError` for two time columns of different types."""
    if left.dataType != right.dataType:
        raise ValueError(
            f"left_on {left.name!r} is {left.dataType.simpleString()} and right_on "
            f"{right.name!r} is {right.dataType.simpleString()}: cast one to the other's type"
        )


def check_time_is_no_key(
    argument: str, time: sql.StructField, keys: Sequence[sql.StructField]
) -> None:
    """Raises `ValueError` for a time, named by `argument`, that is also a key."""
    if time in keys:
        raise ValueError(f"{argument}: column {time.name!r} is a key, too; give another column")


def check_key_type(column: sql.StructField, argument: str = "by") -> None:
    """Raises `ValueError` for a type that cannot be a key, such as a map or a collated string."""
    if type(column.dataType) not in _KEY_TYPES or schema.is_collated(column.dataType):
        raise ValueError(
            f"{argument}: column {column.name!r} is {column.dataType.simpleString()}, which cannot "
            "be a key: take a number, a string (UTF8_BINARY), a binary, a boolean, a date or a "
            "timestamp"
        )


def check_order(order_by: Sequence[str]) -> None:
    """Raises `TypeError` if `order_by` is no list of column names."""
    if isinstance(order_by, str):
        raise TypeError(f"order_by={order_by!r}: give a list of columns: [{order_by!r}]")
    if not isinstance(order_by, Sequence):
        raise TypeError(f"order_by is a {type(order_by).__name__}: give a list of columns' names")
    for column in order_by:
        if not isinstance(column, str):
            raise TypeError(
                f"order_by has a {type(column).__name__}: give a list of columns' names"
            )


def check_ordered(column: sql.StructField) -> None:
    """Raises `ValueError` for a column of `order_by` whose order Holdfast does not know."""
    if schema.contains(column.dataType, schema.is_collated):
        raise ValueError(
            f"order_by: column {column.name!r} is {column.dataType.simpleString()}, and strings "
            "are ordered by their bytes: cast the column to string collate UTF8_BINARY"
        )


def check_both_stream(
    left: "DataFrame", right: "DataFrame", consequence: str, otherwise: str = ""
) -> None:
    """Raises `ValueError` for a static frame beside a stream.

    Without this check, Spark would raise an error only when the query starts. For the message,
    `consequence` says what every micro-batch would do, and `otherwise` names an alternative to
    reading the frame as a stream.
    """
    if left.isStreaming != right.isStreaming:
        static, stream = ("right", "left") if left.isStreaming else ("left", "right")
        raise ValueError(
            f"{static} is a static frame and {stream} a stream, so every micro-batch would "
            f"{consequence}: read the {static} frame with spark.readStream, too{otherwise}"
        )
