"""The join of two tables by a foreign key: two operators, one after the other.

The first operator partitions left rows by their own key and turns them into actions (join,
withdraw, ...) for the second one, which partitions them and the right rows by the foreign key.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql import types as sql

from holdfast._time import Duration
from holdfast.errors import UnsupportedOperationError
from holdfast.spark.materialized import Materialized
from holdfast.spark.plan.call import OperatorCall, checked_call
from holdfast.spark.plan.column_checks import check_both_stream, check_key_type
from holdfast.spark.plan.input import OneInput, TwoInputs, find_times
from holdfast.spark.plan.input_frame import InputFrame
from holdfast.spark.plan.operator import Operator, name_of
from holdfast.spark.plan.output_columns import frame_columns, joined_columns
from holdfast.spark.state import State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ACTION: Final = sql.StructField("holdfast_action", sql.ByteType())
_NUMBER: Final = sql.StructField("holdfast_number", sql.LongType())


def join_by_foreign_key(
    left: "DataFrame",
    right: "DataFrame",
    *,
    by: str | Sequence[str],
    left_on: str,
    right_on: str,
    foreign_key: str,
    how: str,
    retention: int,
    state: State,
    max_ahead: Duration | None,
    materialized: Materialized | None,
    name: str | None,
) -> "DataFrame":
    """Returns the result of `join_table` with a foreign key.

    The second operator has the join's name; the first one's ends in `_left`.
    """
    join = _ForeignKeyJoin(
        left, right, by=by, left_on=left_on, right_on=right_on, foreign_key=foreign_key
    )
    if how == "outer":
        raise UnsupportedOperationError(
            "how='outer' with foreign_key: the result's key is the left frame's, so a right row "
            "that no left row refers to has no key in the result; use how='left', and add "
            "these right rows from the right frame"
        )
    check_both_stream(left, right, "change the table again")
    call = checked_call(
        [left, right],
        state=state,
        name=name,
        default_name=f"join_table_{name_of([*join.left.keys, join.foreign])}",
        materialized=materialized,
        max_ahead=max_ahead,
    )
    first = replace(call, name=f"{call.name}_left")
    actions = join.first(first, how, retention).plan()
    result = join.second(call, how, retention, actions).plan()
    call.take_names(first.name, call.name)
    return result


class _ForeignKeyJoin:
    """A left frame with keys and a foreign key, and a right frame with one key."""

    def __init__(
        self,
        left: "DataFrame",
        right: "DataFrame",
        *,
        by: str | Sequence[str],
        left_on: str,
        right_on: str,
        foreign_key: str,
    ) -> None:
        left_frame, right_frame = InputFrame("left", left), InputFrame("right", right)
        keys = left_frame.find_keys(by)
        self.foreign: Final = left_frame.find(foreign_key, "foreign_key")
        if self.foreign in keys:
            raise ValueError(
                f"foreign_key: column {self.foreign.name!r} is also one of the columns `by`: join "
                "the tables by that column, without foreign_key"
            )
        check_key_type(self.foreign, "foreign_key")
        right_key = _right_key(right_frame, [by] if isinstance(by, str) else list(by), foreign_key)
        check_key_type(right_key, "foreign_key")
        if self.foreign.dataType != right_key.dataType:
            raise ValueError(
                f"foreign_key: column {self.foreign.name!r} is "
                f"{self.foreign.dataType.simpleString()}, and the right frame's key "
                f"{right_key.name!r} is {right_key.dataType.simpleString()}; cast one of them"
            )
        left_time, right_time = find_times(
            (left_frame, left_on, [*keys, self.foreign]), (right_frame, right_on, [right_key])
        )
        self._left_on: Final = left_time.name
        self.left: Final = left_frame.using(
            keys=keys,
            time=left_time,
            payload=[
                field for field in left_frame.fields if field != left_time and field not in keys
            ],
        )
        self.right: Final = right_frame.using(
            keys=[right_key],
            time=right_time,
            payload=[field for field in right_frame.fields if field not in (right_time, right_key)],
        )

    def first(self, call: OperatorCall, how: str, retention: int) -> Operator:
        """Returns the operator over the left rows by their own key."""
        added = (_ACTION, _NUMBER)
        output = frame_columns(self.left)
        for index, field in enumerate(added):
            output.add(
                sql.StructField(field.name, field.dataType), {"from": "right", "index": index}
            )
        return Operator(
            "foreign_left",
            OneInput(self.left, added),
            call,
            output=output.schema,
            settings={
                "how": how,
                "history_retention": retention,
                "values": list(range(len(self.left.payload))),
                "foreign": [self.left.payload.index(self.foreign)],
                "output": output.request,
            },
            metrics=TwoInputs.metrics,
        )

    def second(
        self, call: OperatorCall, how: str, retention: int, actions: "DataFrame"
    ) -> Operator:
        """Returns the operator over the first one's result and the right rows, by foreign key."""
        left, right = self._by_foreign_key(actions), self._with_null_keys()
        left_fields = left.fields[: len(self.left.fields)]
        output = joined_columns(left, right, left_fields=left_fields)
        return Operator(
            "foreign_join",
            TwoInputs(left, right),
            call,
            output=output.schema,
            settings={
                "how": how,
                "foreign": 1,
                "history_retention": retention,
                "action": len(self.left.payload),
                "right_values": list(range(len(right.payload))),
                "output": output.request,
            },
            partition_keys=1,
        )

    def _by_foreign_key(self, actions: "DataFrame") -> InputFrame:
        """Returns the first operator's result with the foreign key and the left keys as keys."""
        frame = InputFrame("left", actions)
        payload = [*self.left.payload, _ACTION, _NUMBER]
        return frame.using(
            keys=[frame.find(field.name, "by") for field in (self.foreign, *self.left.keys)],
            time=frame.find_time(self._left_on, "left_on"),
            payload=[frame.find(field.name, "left") for field in payload],
            order=[len(self.left.payload) + 1],
        )

    def _with_null_keys(self) -> InputFrame:
        """Returns the right rows with the right key, and with nulls in place of the left keys."""
        nulls = [
            sql.StructField(f"holdfast_k{index}", key.dataType)
            for index, key in enumerate(self.left.keys)
        ]
        columns = [F.lit(None).cast(null.dataType).alias(null.name) for null in nulls]
        frame = InputFrame("right", self.right.df.select("*", *columns))
        return frame.using(
            keys=[*self.right.keys, *nulls], time=self.right.time, payload=self.right.payload
        )


def _right_key(right: InputFrame, by: list[str], foreign_key: str) -> sql.StructField:
    """Returns the right frame's key.

    If `by` is one column and the frame has it, that is the key; otherwise it is the column with the
    name of the foreign key.
    """
    there = {right.fold(field.name): field for field in right.fields}
    tried = [by[0], foreign_key] if len(by) == 1 else [foreign_key]
    for column in tried:
        if right.fold(column) in there:
            return there[right.fold(column)]
    raise ValueError(
        "foreign_key: the right frame has no key column: it needs a column "
        f"{' or '.join(repr(column) for column in tried)}, and has "
        f"{', '.join(field.name for field in right.fields)}; rename its key column"
    )
