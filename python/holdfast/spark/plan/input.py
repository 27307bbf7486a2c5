"""The rows that an operator sends to the state host: of one frame, or of two."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql import types as sql

from holdfast.spark.plan import column_checks, schema
from holdfast.spark.plan.input_frame import InputFrame
from holdfast.spark.spark_session import is_connect
from holdfast.spark.state import State

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OBSERVED: Final = "holdfast:"
"""The prefix of the names of operators' observations."""


class OperatorInput(ABC):
    """Rows with the columns `pid`, `side`, `deleted`, `t`, `k0`..., `l0`..., `r0`....

    `side` is true for left rows, false for right rows and null for heartbeats. `deleted` marks
    right rows that end a value. `t` is the time. Keys, left payload and right payload follow.
    """

    metrics: ClassVar[Mapping[str, str]]
    """Names and SQL expressions of the row counts that the query's progress reports."""

    left: InputFrame
    right_payload: Sequence[sql.StructField]

    @property
    @abstractmethod
    def frames(self) -> list[InputFrame]:
        """The frames, the left one first."""

    @abstractmethod
    def rows(self, state: State) -> "DataFrame":
        """Returns the rows of all frames, without `pid`."""

    @property
    def time_type(self) -> sql.DataType:
        """The type of the rows' times; Spark's timestamp if they have none."""
        return sql.TimestampType() if self.left.time is None else self.left.time.dataType

    @property
    def layout(self) -> pa.Schema:
        """The rows' columns as the state host receives them."""
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
            ("r", self.right_payload),
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
        """The columns' names and orders, for the state host."""
        times = [frame.time.name for frame in self.frames if frame.time is not None]
        orders = [frame.order for frame in self.frames]
        return {
            "times": list(dict.fromkeys(times)),
            "keys": [column.name for column in self.left.keys],
            "left": [column.name for column in self.left.payload],
            "right": [column.name for column in self.right_payload],
            "order_left": orders[0],
            "order_right": orders[1] if len(orders) > 1 else [],
        }


class OneInput(OperatorInput):
    """The rows of one frame: left rows, and heartbeats if the frame has them."""

    metrics: ClassVar[Mapping[str, str]] = {"rows": "count(side)"}

    def __init__(self, left: InputFrame, added: Sequence[sql.StructField] = ()) -> None:
        """`added`: right columns that the operator computes, null in the rows that it reads."""
        self.left = left
        self.right_payload = list(added)

    @staticmethod
    def of(
        df: "DataFrame", by: str | Sequence[str], on: str | None, order_by: Sequence[str] = ()
    ) -> "OneInput":
        """Returns the rows of a frame with keys, the time `on` if given, and the rest as payload.

        `order_by` orders rows with equal keys and times.
        """
        frame = InputFrame("given", df)
        keys = frame.find_keys(by)
        time = None if on is None else frame.find_time(on, "on")
        if time is not None:
            column_checks.check_time_is_no_key("on", time, keys)
        # Floating keys are compared by value. They are payload, too, so that the result has their
        # original bits.
        payload = [
            field
            for field in frame.fields
            if field != time and (field not in keys or schema.is_floating(field))
        ]
        column_checks.check_order(order_by)
        ordered = [frame.find(column, "order_by") for column in order_by]
        for field in ordered:
            column_checks.check_ordered(field)
        # order_by orders rows with equal keys and times, so key and time columns have no effect.
        order = [payload.index(field) for field in ordered if field in payload]
        return OneInput(frame.using(keys=keys, time=time, payload=payload, order=order))

    @property
    def frames(self) -> list[InputFrame]:
        """The only frame."""
        return [self.left]

    def rows(self, state: State) -> "DataFrame":  # noqa: ARG002 - two inputs need it
        """Returns the frame's rows, without `pid`."""
        return self.left.rows(
            is_left=True, deleted=_no_flag(), others=self.right_payload, time_type=self.time_type
        )


class TwoInputs(OperatorInput):
    """The rows of a left and a right frame, in one frame."""

    metrics: ClassVar[Mapping[str, str]] = {
        "left_rows": "count_if(side)",
        "right_rows": "count_if(not side)",
    }

    def __init__(
        self, left: InputFrame, right: InputFrame, deleted: "Column | None" = None
    ) -> None:
        """`deleted` marks right rows that end a value."""
        self.left = left
        self.right = right
        self.right_payload = right.payload
        self._deleted: Final = deleted

    @staticmethod
    def of(
        left: "DataFrame",
        right: "DataFrame",
        *,
        by: str | Sequence[str],
        left_on: str,
        right_on: str,
        order_by: Sequence[str] = (),
        returns_left_keys: bool = True,
    ) -> "TwoInputs":
        """Returns the rows of two frames with keys and times of the same types.

        `returns_left_keys`: each result row has a left row, so its keys can have the left row's
        original bits.
        """
        left_frame, right_frame = InputFrame("left", left), InputFrame("right", right)
        keys = left_frame.find_keys(by)
        right_keys = [
            right_frame.find(column, "by") for column in ([by] if isinstance(by, str) else by)
        ]
        for key, right_key in zip(keys, right_keys, strict=True):
            column_checks.check_same_key(key, right_key)
            column_checks.check_key_type(right_key)
        time, right_time = find_times(
            (left_frame, left_on, keys), (right_frame, right_on, right_keys)
        )
        # Floating keys are payload, too, as in OneInput.of.
        payload = [
            field
            for field in left_frame.fields
            if field != time
            and (field not in keys or (returns_left_keys and schema.is_floating(field)))
        ]
        right_payload = [
            field for field in right_frame.fields if field != right_time and field not in right_keys
        ]
        left_frame = left_frame.using(keys=keys, time=time, payload=payload)
        right_frame = right_frame.using(keys=right_keys, time=right_time, payload=right_payload)
        _set_order(left_frame, right_frame, order_by)
        return TwoInputs(left_frame, right_frame)

    @property
    def frames(self) -> list[InputFrame]:
        """The left frame and the right one."""
        return [self.left, self.right]

    def rows(self, state: State) -> "DataFrame":
        """Returns the rows of both frames, without `pid`."""
        left = self.left.rows(
            is_left=True, deleted=_no_flag(), others=self.right.payload, time_type=self.time_type
        )
        right = self.right.rows(
            is_left=False,
            deleted=F.lit(col=False) if self._deleted is None else self._deleted,
            others=self.left.payload,
            time_type=self.time_type,
        )
        if not state.is_scratch and _may_contain_operator(self.right.df):
            # A union renumbers the tasks of its second input, but the task numbers of an operator
            # must be its partitions. With a shuffle between them, the operator's tasks are not
            # renumbered.
            right = right.repartition(
                state.partitions, *(f"k{index}" for index in range(len(self.left.keys)))
            )
        return left.union(right)


def find_times(
    left: tuple[InputFrame, str, Sequence[sql.StructField]],
    right: tuple[InputFrame, str, Sequence[sql.StructField]],
) -> tuple[sql.StructField, sql.StructField]:
    """Returns the time columns of a join: of one type, and neither of them a key.

    Each side is a frame, the name of its time, and its keys.
    """
    left_frame, left_on, left_keys = left
    right_frame, right_on, right_keys = right
    left_time = left_frame.find_time(left_on, "left_on")
    right_time = right_frame.find_time(right_on, "right_on")
    column_checks.check_same_time(left_time, right_time)
    column_checks.check_time_is_no_key("left_on", left_time, left_keys)
    column_checks.check_time_is_no_key("right_on", right_time, right_keys)
    return left_time, right_time


def _set_order(left: InputFrame, right: InputFrame, order_by: Sequence[str]) -> None:
    """Sets the order of both frames; `order_by` may name columns of either frame, or of both."""
    column_checks.check_order(order_by)
    for column in order_by:
        found = False
        for frame in (left, right):
            there = [
                field for field in frame.fields if frame.fold(field.name) == frame.fold(column)
            ]
            found = found or bool(there)
            for field in there:
                column_checks.check_ordered(field)
            # Key and time columns are left out, as in OneInput.of.
            frame.order.extend(
                frame.payload.index(field) for field in there if field in frame.payload
            )
        if not found:
            names = ", ".join(field.name for field in left.fields)
            others = ", ".join(field.name for field in right.fields)
            raise ValueError(
                f"order_by: no frame has a column {column!r}; the left one has {names}; the right "
                f"one has {others}"
            )


def _no_flag() -> "Column":
    return F.lit(None).cast("boolean")


def _may_contain_operator(df: "DataFrame") -> bool:
    """Returns whether the frame's plan has an operator's result or is of a `foreachBatch` frame.

    The plan of a frame inside `foreachBatch` does not show how it was computed.
    """
    unchecked: Any = df
    # Under Connect the server's plan is read: the client's plan names views without their content.
    plan = (
        unchecked._explain_string(extended=True)
        if is_connect(df.sparkSession)
        else unchecked._jdf.queryExecution().analyzed().toString()
    )
    return OBSERVED in plan or "LogicalRDD" in plan
