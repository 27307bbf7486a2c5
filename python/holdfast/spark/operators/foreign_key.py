"""The plan of a join of two tables by a foreign key: two operators, one after the other."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql import types as sql

from holdfast.errors import UnsupportedOperationError
from holdfast.spark.materialized import Materialized, operator_name
from holdfast.spark.plan import schema
from holdfast.spark.plan.input import Input, Rows, keys_of
from holdfast.spark.plan.operator import Operator, check_call
from holdfast.spark.plan.output_columns import METRICS, check_both_stream, taken_names
from holdfast.spark.plan.schema import Side
from holdfast.spark.span import Span
from holdfast.spark.state import State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ACTION: Final = sql.StructField("holdfast_action", sql.ByteType())
_NUMBER: Final = sql.StructField("holdfast_number", sql.LongType())


class ForeignKey:
    """A left frame with a key of its own and a column that names the right frame's key.

    First the left rows go by their own key, and come out as what is to be done with them
    (subscribed, unsubscribed, ...); then by the foreign key, beside the right rows.
    """

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
        self.left: Final = Side("left", left)
        self.right: Final = Side("right", right)
        self.keys: Final = keys_of(self.left, by)
        self.foreign: Final = self.left.find(foreign_key, "foreign_key")
        if self.foreign in self.keys:
            raise ValueError(
                f"foreign_key: column {self.foreign.name!r} is in by, too: join the tables by it, "
                "without foreign_key"
            )
        schema.check_key_type(self.foreign, "foreign_key")
        self.right_key: Final = self._right_key(
            [by] if isinstance(by, str) else list(by), foreign_key
        )
        schema.check_key_type(self.right_key, "foreign_key")
        if self.foreign.dataType != self.right_key.dataType:
            raise ValueError(
                f"foreign_key: column {self.foreign.name!r} is "
                f"{self.foreign.dataType.simpleString()}, and the right "
                f"frame's key {self.right_key.name!r} is {self.right_key.dataType.simpleString()}; "
                "cast one of them"
            )
        self.left_time: Final = self.left.time(left_on, "left_on")
        self.right_time: Final = self.right.time(right_on, "right_on")
        schema.check_same_time(self.left_time, self.right_time)
        schema.check_time_is_no_key("left_on", self.left_time, [*self.keys, self.foreign])
        schema.check_time_is_no_key("right_on", self.right_time, [self.right_key])
        self.payload: Final = [
            field
            for field in self.left.fields
            if field != self.left_time and field not in self.keys
        ]
        self.right_payload: Final = [
            field for field in self.right.fields if field not in (self.right_time, self.right_key)
        ]

    def _right_key(self, by: list[str], foreign_key: str) -> sql.StructField:
        """The right frame's key: its column `by`, or, if it has none, that of the foreign key's
        name.
        """
        there = {self.right.fold(field.name): field for field in self.right.fields}
        for column in (by[0] if len(by) == 1 else foreign_key, foreign_key):
            if self.right.fold(column) in there:
                return there[self.right.fold(column)]
        raise ValueError(
            f"foreign_key: the right frame has neither a column {foreign_key!r} nor {by[0]!r} that "
            "would be its key; "
            f"it has {', '.join(field.name for field in self.right.fields)}"
        )

    @property
    def default_name(self) -> str:
        """As far as columns can name it."""
        return Rows(Input(self.left, [*self.keys, self.foreign], self.left_time, [])).default_name

    def first(self, retention: int, how: str, **common: Any) -> Operator:
        """The operator over the left rows by their own key."""
        made = (_ACTION, _NUMBER)
        rows = self.left_rows
        fields = [
            sql.StructField(field.name, field.dataType) for field in (*self.left.fields, *made)
        ]
        sources: list[dict[str, Any]] = [
            {"name": field.name, **self._source(field)} for field in self.left.fields
        ]
        sources += [
            {"name": field.name, "from": "right", "index": index}
            for index, field in enumerate(made)
        ]
        return Operator(
            kind="foreign_left",
            layout=rows.layout,
            output=sql.StructType(fields),
            request={
                **rows.request,
                "how": how,
                "history_retention": retention,
                "values": list(range(len(self.payload))),
                "foreign": [self.payload.index(self.foreign)],
                "output": sources,
            },
            **common,
        )

    def second(
        self, retention: int, how: str, first: "DataFrame", **common: Any
    ) -> tuple[Operator, Rows]:
        """The operator over what the first one gives, and the right rows, by the foreign key; with
        its rows.
        """
        left = Side("left", first)
        payload = [left.find(field.name, "left") for field in (*self.payload, _ACTION, _NUMBER)]
        foreign, keys = (
            left.find(self.foreign.name, "foreign_key"),
            [left.find(key.name, "by") for key in self.keys],
        )
        nulls = [
            sql.StructField(f"holdfast_k{index}", key.dataType)
            for index, key in enumerate(self.keys)
        ]
        others = [F.lit(None).cast(null.dataType).alias(null.name) for null in nulls]
        right = Side("right", self.right.frame.select("*", *others))
        rows = Rows(
            Input(
                left,
                [foreign, *keys],
                left.time(self.left_time.name, "left_on"),
                payload,
                [len(self.payload) + 1],
            ),
            Input(right, [self.right_key, *nulls], self.right_time, self.right_payload),
        )
        output: list[tuple[str, dict[str, Any]]] = []
        for field in self.left.fields:
            source = self._source(field)
            if source["from"] == "key":
                source["index"] += 1
            output.append((field.name, source))
        names = taken_names(
            self.left, [field for field in self.right.fields if field != self.right_key]
        )
        for field in self.right.fields:
            if field == self.right_time:
                output.append((names[field.name], {"from": "right_time"}))
            elif field != self.right_key:
                output.append(
                    (names[field.name], {"from": "right", "index": self.right_payload.index(field)})
                )
        types = [
            *self.left.fields,
            *(field for field in self.right.fields if field != self.right_key),
        ]
        operator = Operator(
            kind="foreign_join",
            layout=rows.layout,
            output=sql.StructType(
                [
                    sql.StructField(name, field.dataType)
                    for (name, _), field in zip(output, types, strict=True)
                ]
            ),
            request={
                **rows.request,
                "how": how,
                "foreign": 1,
                "history_retention": retention,
                "action": len(self.payload),
                "right_values": list(range(len(self.right_payload))),
                "output": [{"name": name, **source} for name, source in output],
            },
            **common,
        )
        return operator, rows

    @property
    def left_rows(self) -> Rows:
        """The rows of the first operator."""
        return Rows(
            Input(self.left, self.keys, self.left_time, self.payload), made=[_ACTION, _NUMBER]
        )

    def _source(self, field: sql.StructField) -> dict[str, Any]:
        if field == self.left_time:
            return {"from": "time"}
        if field in self.keys:
            return {"from": "key", "index": self.keys.index(field)}
        return {"from": "left", "index": self.payload.index(field)}


def by_foreign_key(
    join: ForeignKey,
    *,
    how: str,
    retention: int,
    state: State,
    max_ahead: Span | None,
    materialized: Materialized | None,
    name: str | None,
) -> "DataFrame":
    """The result of a join by a foreign key; the second operator has the join's name, the first
    one's ends in `_left`.
    """
    left, right = join.left.frame, join.right.frame
    if how == "outer":
        raise UnsupportedOperationError(
            "how='outer' with foreign_key: the result's key is the left frame's, and a right row "
            "that no left row names has "
            "none; take 'left', and the right frame by itself"
        )
    check_both_stream(left, right, "change the table again")
    epoch = check_call(state, left, right)
    named = operator_name(name, materialized, f"join_table_{join.default_name}")
    common: dict[str, Any] = {
        "state": state,
        "epoch": epoch,
        "max_ahead": max_ahead,
        "materialized": materialized,
    }
    first = join.first(retention, how, name=f"{named}_left", **common)
    told = first.over(join.left_rows.frame(state), keys=len(join.keys), metrics=METRICS)
    second, rows = join.second(retention, how, told, name=named, **common)
    frame = rows.frame(state)
    state.claim([first.name, second.name], epoch)
    return second.over(frame, keys=1, metrics=METRICS)
