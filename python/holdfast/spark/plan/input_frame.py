"""A frame of the user, with the use of each column."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql import types as sql

from holdfast.spark.heartbeat import HEARTBEAT
from holdfast.spark.plan import schema
from holdfast.spark.plan.column_checks import check_key_type
from holdfast.spark.spark_session import is_true

if TYPE_CHECKING:
    from pyspark.sql import Column


class InputFrame:
    """One input of an operator: its DataFrame, and which columns are keys, time and payload."""

    def __init__(self, name: str, df: DataFrame) -> None:
        """`name` is the frame's name in errors: `left`, `right`, or `given` if there is only one.

        Raises `TypeError` if `df` is no DataFrame, `ValueError` if two columns have one name.
        """
        if not isinstance(df, DataFrame):
            kind = type(df)
            given = (
                kind.__qualname__
                if kind.__module__ == "builtins"
                else f"{kind.__module__}.{kind.__qualname__}"
            )
            raise TypeError(
                f"{'df' if name == 'given' else name} is a {given}: give a DataFrame of Spark"
            )
        self.name: Final = name
        self.df = df
        self.fields: Final = [field for field in df.schema.fields if field.name != HEARTBEAT]
        self.has_heartbeats: Final = len(self.fields) < len(df.schema.fields)
        self._folds_case: Final = not is_true(
            df.sparkSession, "spark.sql.caseSensitive", default="false"
        )
        seen: set[str] = set()
        for field in self.fields:
            if self.fold(field.name) in seen:
                raise ValueError(
                    f"the {name} frame has two columns named {field.name!r}: rename one"
                )
            seen.add(self.fold(field.name))
        self.keys: list[sql.StructField] = []
        self.time: sql.StructField | None = None
        self.payload: list[sql.StructField] = []
        self.order: list[int] = []
        """Payload columns, by position, that order rows of one key and time."""

    def using(
        self,
        *,
        keys: Sequence[sql.StructField],
        time: sql.StructField | None,
        payload: Sequence[sql.StructField],
        order: Sequence[int] = (),
    ) -> "InputFrame":
        """Returns the same frame with its columns assigned to their uses."""
        used = copy(self)
        used.keys, used.time, used.payload = list(keys), time, list(payload)
        used.order = list(order)
        return used

    def adding(self, columns: "Mapping[str, Column]") -> "InputFrame":
        """Returns the frame with more columns; `fields` are still those of the user's frame."""
        if not columns:
            return self
        added = copy(self)
        new = [column.alias(name) for name, column in columns.items()]
        added.df = self.df.select("*", *new)
        return added

    def fold(self, column: str) -> str:
        """Returns the name in the form in which Spark compares names."""
        return column.lower() if self._folds_case else column

    def find(self, column: str, argument: str) -> sql.StructField:
        """Returns the field of that name; `argument` names the caller's argument in errors.

        Raises `TypeError` if `column` is no string, `ValueError` if the frame has no such column.
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

    def find_time(self, column: str, argument: str) -> sql.StructField:
        """Returns the field of that name; raises `ValueError` if it is no timestamp."""
        field = self.find(column, argument)
        if type(field.dataType) not in (sql.TimestampType, sql.TimestampNTZType):
            raise ValueError(
                f"{argument}: column {field.name!r} of the {self.name} frame is "
                f"{field.dataType.simpleString()}, not a timestamp; cast it: "
                f".withColumn({field.name!r}, F.col({field.name!r}).cast('timestamp'))"
            )
        return field

    def find_keys(self, by: str | Sequence[str]) -> list[sql.StructField]:
        """Returns the key columns: one or more, all different, each of a type that can be a key."""
        names = [by] if isinstance(by, str) else by
        if not isinstance(names, Sequence):
            raise TypeError(
                f"by is a {type(by).__name__}: give the name of a column, or a list of names"
            )
        if not names:
            raise ValueError(f"by is empty: name the key columns of the {self.name} frame")
        keys = [self.find(column, "by") for column in names]
        if len({column.name for column in keys}) < len(keys):
            raise ValueError(f"by names a column twice: {', '.join(names)}")
        for column in keys:
            check_key_type(column)
        return keys

    def source(self, field: sql.StructField) -> dict[str, Any]:
        """Returns where the state host finds this column of a left frame."""
        if field == self.time:
            return {"from": "time"}
        if field in self.payload:
            return {"from": "left", "index": self.payload.index(field)}
        return {"from": "key", "index": self.keys.index(field)}

    def column(self, field: sql.StructField) -> "Column":
        """Returns the column of a field; its name may have any characters."""
        quoted = field.name.replace("`", "``")
        return F.col(f"`{quoted}`")

    def rows(
        self,
        *,
        is_left: bool,
        deleted: "Column",
        others: Sequence[sql.StructField],
        time_type: sql.DataType,
    ) -> DataFrame:
        """Returns the frame's rows in the layout of `OperatorInput`, without `pid`.

        `others` are the payload columns of the other side; they are null in these rows.
        """
        time = F.lit(None).cast(time_type) if self.time is None else self.column(self.time)
        side: Column = F.lit(col=is_left)
        if self.has_heartbeats:
            beat = F.col(HEARTBEAT)
            side = F.when(beat.isNull(), side)
            time = F.when(beat.isNull(), time).otherwise(schema.instant(beat, time_type))
        payload = [self.column(field) for field in self.payload]
        nulls = [F.lit(None).cast(field.dataType) for field in others]
        left, right = (payload, nulls) if is_left else (nulls, payload)
        return self.df.select(
            side.alias("side"),
            deleted.alias("deleted"),
            time.alias("t"),
            *(
                schema.as_key(self.column(field), field).alias(f"k{index}")
                for index, field in enumerate(self.keys)
            ),
            *(column.alias(f"l{index}") for index, column in enumerate(left)),
            *(column.alias(f"r{index}") for index, column in enumerate(right)),
        )
