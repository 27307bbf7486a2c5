"""The rows that an operator takes: of one frame or of two, in the form of the state host."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql import types as sql

from holdfast.spark.epoch import is_connect
from holdfast.spark.heartbeat import HEARTBEAT
from holdfast.spark.plan import schema
from holdfast.spark.plan.schema import Side
from holdfast.spark.state import State

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OBSERVED: Final = "holdfast:"
"""What the names of the operators' observations begin with."""


@dataclass(frozen=True)
class Input:
    """One frame's columns, by what they are for."""

    side: Side
    keys: list[sql.StructField]
    time: sql.StructField | None
    payload: list[sql.StructField]
    order: list[int] = field(default_factory=list)
    """Payload columns that order rows of one time, by position."""

    def rows(
        self,
        *,
        is_left: bool,
        deleted: "Column",
        others: Sequence[sql.StructField],
        time_type: sql.DataType,
    ) -> "DataFrame":
        """The frame's rows, with nulls for the payload of the other frame."""
        take = self.side.column
        time = F.lit(None).cast(time_type) if self.time is None else take(self.time)
        side: Column = F.lit(col=is_left)
        if self.side.has_heartbeats:
            beat = F.col(HEARTBEAT)
            side = F.when(beat.isNull(), side)
            time = F.when(beat.isNull(), time).otherwise(schema.instant(beat, time_type))
        own = [take(column) for column in self.payload]
        nulls = [F.lit(None).cast(column.dataType) for column in others]
        left, right = (own, nulls) if is_left else (nulls, own)
        return self.side.frame.select(
            side.alias("side"),
            deleted.alias("deleted"),
            time.alias("t"),
            *(
                schema.as_key(take(column), column).alias(f"k{index}")
                for index, column in enumerate(self.keys)
            ),
            *(column.alias(f"l{index}") for index, column in enumerate(left)),
            *(column.alias(f"r{index}") for index, column in enumerate(right)),
        )


@dataclass(frozen=True)
class Rows:
    """An operator's input. Without a right side all rows are left ones."""

    left: Input
    right: Input | None = None
    made: Sequence[sql.StructField] = ()
    """Where there is no right side: right columns that the operator makes, null in what comes in.
    """

    @property
    def time_type(self) -> sql.DataType:
        """The type of the rows' times; that of Spark's timestamps where they have none."""
        return sql.TimestampType() if self.left.time is None else self.left.time.dataType

    @property
    def layout(self) -> pa.Schema:
        """The rows as they reach the host."""
        time_name = "t" if self.left.time is None else self.left.time.name
        columns = [
            pa.field("pid", pa.int32()),
            pa.field("side", pa.bool_()),
            pa.field("deleted", pa.bool_()),
            pa.field("t", schema.arrow_type(self.time_type, time_name)),
        ]
        for prefix, fields in (
            ("k", self.left.keys),
            ("l", self.left.payload),
            ("r", self._right_payload),
        ):
            columns.extend(
                pa.field(
                    f"{prefix}{index}",
                    schema.arrow_type(schema.nullable(column.dataType), column.name),
                )
                for index, column in enumerate(fields)
            )
        return pa.schema(columns)

    @property
    def request(self) -> dict[str, Any]:
        """What the host must know of the columns."""
        times = [
            side.time.name
            for side in (self.left, self.right)
            if side is not None and side.time is not None
        ]
        return {
            "times": list(dict.fromkeys(times)),
            "keys": [column.name for column in self.left.keys],
            "left": [column.name for column in self.left.payload],
            "right": [column.name for column in self._right_payload],
            "order_left": self.left.order,
            "order_right": [] if self.right is None else self.right.order,
        }

    @property
    def default_name(self) -> str:
        """The key columns, as far as they can name a folder."""
        text = "_".join(column.name for column in self.left.keys)
        return "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in text)[
            :80
        ]

    def frame(self, state: State, deleted: "Column | None" = None) -> "DataFrame":
        """All rows in the layout, without `pid`; heartbeats have no `side`. `deleted` marks right
        rows that end a value.
        """
        nothing = F.lit(None).cast("boolean")
        left = self.left.rows(
            is_left=True, deleted=nothing, others=self._right_payload, time_type=self.time_type
        )
        if self.right is None:
            return left
        ended = F.lit(col=False) if deleted is None else deleted
        right = self.right.rows(
            is_left=False, deleted=ended, others=self.left.payload, time_type=self.time_type
        )
        if not state.is_scratch and _may_hold_an_operator(self.right.side.frame):
            # A union numbers the tasks of its second input on, and an operator's tasks are their
            # partitions.
            right = right.repartition(
                state.partitions, *(f"k{index}" for index in range(len(self.left.keys)))
            )
        return left.union(right)

    @property
    def _right_payload(self) -> list[sql.StructField]:
        return list(self.made) if self.right is None else self.right.payload


def _may_hold_an_operator(frame: "DataFrame") -> bool:
    """Whether an operator's result is in the frame's plan, or a frame of `foreachBatch`, which says
    nothing of its own.
    """
    known: Any = frame
    # Under Connect the server's plan: the client's knows a view by its name only.
    connect = is_connect(frame.sparkSession)
    plan = (
        known._explain_string(extended=True)
        if connect
        else known._jdf.queryExecution().analyzed().toString()
    )
    return OBSERVED in plan or "LogicalRDD" in plan


def keys_of(side: Side, by: str | Sequence[str]) -> list[sql.StructField]:
    """The key columns of a frame: one or more, each once, each of a type that can be a key."""
    names = [by] if isinstance(by, str) else by
    if not isinstance(names, Sequence):
        raise TypeError(
            f"by is a {type(by).__name__}: give the name of a column, or a list of names"
        )
    if not names:
        raise ValueError(f"by is empty: name the key columns of the {side.name} frame")
    keys = [side.find(column, "by") for column in names]
    if len({column.name for column in keys}) < len(keys):
        raise ValueError(f"by names a column twice: {', '.join(names)}")
    for column in keys:
        schema.check_key_type(column)
    return keys


def check_order(order_by: Sequence[str]) -> None:
    """Refuse what is no list of columns' names."""
    if isinstance(order_by, str):
        raise TypeError(f"order_by={order_by!r}: give a list of columns: [{order_by!r}]")
    if not isinstance(order_by, Sequence):
        raise TypeError(f"order_by is a {type(order_by).__name__}: give a list of columns' names")
    for column in order_by:
        if not isinstance(column, str):
            raise TypeError(
                f"order_by has a {type(column).__name__}: give a list of columns' names"
            )
