"""Operators of one frame whose rows go out as they came in, or not at all."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as sql

from holdfast.spark import schema
from holdfast.spark.rows import Input, Rows, keys_of
from holdfast.spark.schema import Side

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

METRICS: Final = {"rows": "count(side)"}


class OneSide:
    """A frame's columns by what they are for; `on` names its time, if it has one."""

    def __init__(self, frame: "DataFrame", by: str | Sequence[str], on: str | None) -> None:
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
        self.rows: Final = Rows(Input(self.side, self.keys, self.time, self.payload))

    @property
    def values(self) -> list[int]:
        """The payload columns that are neither key nor time, by position."""
        return [index for index, field in enumerate(self.payload) if field not in self.keys]

    @property
    def output(self) -> sql.StructType:
        """The result's columns: those of the frame."""
        return sql.StructType([sql.StructField(field.name, field.dataType, nullable=True) for field in self.side.fields])

    @property
    def request(self) -> dict[str, Any]:
        """What the state host must know of the columns."""
        return {**self.rows.request, "output": [{"name": field.name, **self._source(field)} for field in self.side.fields]}

    def _source(self, field: sql.StructField) -> dict[str, Any]:
        if field == self.time:
            return {"from": "time"}
        if field in self.payload:
            return {"from": "left", "index": self.payload.index(field)}
        return {"from": "key", "index": self.keys.index(field)}
