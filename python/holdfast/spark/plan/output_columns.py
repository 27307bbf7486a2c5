"""The columns of a join: which ones go in, under which names they come out."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as sql

from holdfast.spark.plan import schema
from holdfast.spark.plan.input import Input, Rows, check_order, keys_of
from holdfast.spark.plan.schema import Side

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

METRICS: Final = {"left_rows": "count_if(side)", "right_rows": "count_if(not side)"}


class TwoSides:
    """A left and a right frame with a key and a time each.

    The result has the left frame's columns, then the right frame's without the key; where a name is
    taken, `suffix` is added. `left_only`: every row of it has a left row in it. `waits`: that may
    be a row of an earlier micro-batch, so it may be older than the left frame's watermark, and than
    a column of it that was never null.
    """

    def __init__(
        self,
        left: "DataFrame",
        right: "DataFrame",
        *,
        by: str | Sequence[str],
        left_on: str,
        right_on: str,
        order_by: Sequence[str] = (),
        suffix: str = "_right",
        left_only: bool = True,
        waits: bool = False,
    ) -> None:
        self.left: Final = Side("left", left)
        self.right: Final = Side("right", right)
        self.keys: Final = keys_of(self.left, by)
        self.right_keys: Final = [
            self.right.find(column, "by") for column in ([by] if isinstance(by, str) else by)
        ]
        for ours, theirs in zip(self.keys, self.right_keys, strict=True):
            schema.check_same_key(ours, theirs)
            schema.check_key_type(theirs)
        self.left_time: Final = self.left.time(left_on, "left_on")
        self.right_time: Final = self.right.time(right_on, "right_on")
        schema.check_same_time(self.left_time, self.right_time)
        schema.check_time_is_no_key("left_on", self.left_time, self.keys)
        schema.check_time_is_no_key("right_on", self.right_time, self.right_keys)
        # A floating key is compared by value, but comes out with the bits that it came in with, if
        # it always can.
        self.left_payload: Final = [
            field
            for field in self.left.fields
            if field != self.left_time
            and (field not in self.keys or (left_only and schema.is_floating(field)))
        ]
        self.right_payload: Final = [
            field
            for field in self.right.fields
            if field != self.right_time and field not in self.right_keys
        ]
        order_left, order_right = self._order(order_by)
        self.rows: Final = Rows(
            Input(self.left, self.keys, self.left_time, self.left_payload, order_left),
            Input(self.right, self.right_keys, self.right_time, self.right_payload, order_right),
        )
        self.output, self.sources, self.right_time_name = self._output(
            suffix, as_given=left_only and not waits
        )

    def _order(self, order_by: Sequence[str]) -> tuple[list[int], list[int]]:
        check_order(order_by)
        ordered: tuple[list[int], list[int]] = ([], [])
        for column in order_by:
            found = False
            for side, payload, indices in (
                (self.left, self.left_payload, ordered[0]),
                (self.right, self.right_payload, ordered[1]),
            ):
                there = [
                    field for field in side.fields if side.fold(field.name) == side.fold(column)
                ]
                found = found or bool(there)
                # Keys and times are equal among the rows that order_by is asked about.
                indices.extend(payload.index(field) for field in there if field in payload)
            if not found:
                names = ", ".join(field.name for field in self.left.fields)
                others = ", ".join(field.name for field in self.right.fields)
                raise ValueError(
                    f"order_by: no frame has a column {column!r}; the left one has {names}; the "
                    f"right one has {others}"
                )
        return ordered

    def _output(
        self, suffix: str, *, as_given: bool
    ) -> tuple[sql.StructType, list[dict[str, Any]], str]:
        fields: list[sql.StructField] = []
        sources: list[dict[str, Any]] = []
        right_time_name = ""
        names = taken_names(
            self.left,
            [field for field in self.right.fields if field not in self.right_keys],
            suffix,
        )
        for field in self.left.fields:
            # Nullability and metadata, in which the watermark is, hold for the rows that come.
            fields.append(
                field if as_given else sql.StructField(field.name, field.dataType, nullable=True)
            )
            sources.append({"name": field.name, **self._left_source(field)})
        for field in self.right.fields:
            if field in self.right_keys:
                continue
            name = names[field.name]
            fields.append(sql.StructField(name, field.dataType, nullable=True))
            if field == self.right_time:
                right_time_name = name
                sources.append({"name": name, "from": "right_time", "index": 0})
            else:
                sources.append(
                    {"name": name, "from": "right", "index": self.right_payload.index(field)}
                )
        return sql.StructType(fields), sources, right_time_name

    def _left_source(self, field: sql.StructField) -> dict[str, Any]:
        if field == self.left_time:
            return {"from": "time", "index": 0}
        if field in self.left_payload:
            return {"from": "left", "index": self.left_payload.index(field)}
        return {"from": "key", "index": self.keys.index(field)}

    @property
    def request(self) -> dict[str, Any]:
        """What the state host must know of the columns."""
        return {**self.rows.request, "output": self.sources}


def taken_names(
    left: Side, right: Sequence[sql.StructField], suffix: str = "_right"
) -> dict[str, str]:
    """What right columns are called beside the left ones, by their own names."""
    taken = {left.fold(field.name) for field in left.fields}
    names: dict[str, str] = {}
    for field in right:
        name = field.name if left.fold(field.name) not in taken else field.name + suffix
        if left.fold(name) in taken:
            raise ValueError(
                f"the result would have two columns named {name!r}, since {suffix!r} is added "
                "where a name is taken: "
                "rename a column"
            )
        taken.add(left.fold(name))
        names[field.name] = name
    return names


def check_both_stream(
    left: "DataFrame", right: "DataFrame", consequence: str, otherwise: str = ""
) -> None:
    """Refuse a static frame beside a stream, which Spark would refuse at the start of the query.

    `consequence` says what every micro-batch would do, `otherwise` what can be done but to make it
    a stream.
    """
    if left.isStreaming != right.isStreaming:
        static, stream = ("right", "left") if left.isStreaming else ("left", "right")
        raise ValueError(
            f"{static} is a static frame and {stream} a stream, so every micro-batch would "
            f"{consequence}: "
            f"read the {static} frame with spark.readStream, too{otherwise}"
        )
