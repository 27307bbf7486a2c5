"""Operators of one frame whose rows go out as they came in, or not at all."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as sql

from holdfast.spark.plan import schema
from holdfast.spark.plan.input import Input, Rows, check_order, keys_of
from holdfast.spark.plan.schema import Side

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

METRICS: Final = {"rows": "count(side)"}


class OneSide:
    """A frame's columns by use; `on` names its time, if it has one, `order_by` what orders rows of
    one time.
    """

    def __init__(
        self,
        frame: "DataFrame",
        by: str | Sequence[str],
        on: str | None,
        order_by: Sequence[str] = (),
    ) -> None:
        self.side: Final = Side("given", frame)
        self.keys: Final = keys_of(self.side, by)
        self.time: Final = None if on is None else self.side.time(on, "on")
        if self.time is not None:
            schema.check_time_is_no_key("on", self.time, self.keys)
        # A floating key is compared by value, but comes out with the bits that it came in with.
        self.payload: Final = [
            field
            for field in self.side.fields
            if field != self.time and (field not in self.keys or schema.is_floating(field))
        ]
        check_order(order_by)
        order = [self.side.find(column, "order_by") for column in order_by]
        # The time is equal among the rows that order_by is asked about, and so are keys.
        self.order: Final = [self.payload.index(field) for field in order if field in self.payload]
        self.rows: Final = Rows(Input(self.side, self.keys, self.time, self.payload, self.order))

    @property
    def values(self) -> list[int]:
        """The payload columns that are neither key nor time, and order nothing, by position."""
        return [
            index
            for index, field in enumerate(self.payload)
            if field not in self.keys and index not in self.order
        ]

    @property
    def output(self) -> sql.StructType:
        """The result's columns: those of the frame."""
        return sql.StructType(
            [
                sql.StructField(field.name, field.dataType, nullable=True)
                for field in self.side.fields
            ]
        )

    @property
    def request(self) -> dict[str, Any]:
        """What the state host must know of the columns."""
        return {
            **self.rows.request,
            "output": [{"name": field.name, **self._source(field)} for field in self.side.fields],
        }

    def _source(self, field: sql.StructField) -> dict[str, Any]:
        if field == self.time:
            return {"from": "time"}
        if field in self.payload:
            return {"from": "left", "index": self.payload.index(field)}
        return {"from": "key", "index": self.keys.index(field)}
