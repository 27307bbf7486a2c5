"""The columns of a result: their names, their types, and where the state host finds them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import types as sql

from holdfast.spark.plan.input_frame import InputFrame


@dataclass
class OutputColumns:
    """Columns of a result."""

    fields: list[sql.StructField] = field(default_factory=list)
    request: list[dict[str, Any]] = field(default_factory=list)
    """The name and the source of each column, for the state host."""

    def add(self, column: sql.StructField, source: dict[str, Any]) -> None:
        """Adds a column."""
        self.fields.append(column)
        self.request.append({"name": column.name, **source})

    @property
    def names(self) -> list[str]:
        """The columns' names."""
        return [column.name for column in self.fields]

    @property
    def schema(self) -> sql.StructType:
        """The columns as Spark's type."""
        return sql.StructType(self.fields)


def frame_columns(frame: InputFrame) -> OutputColumns:
    """The columns of an operator's only frame, with the same names and types."""
    output = OutputColumns()
    for column in frame.fields:
        output.add(
            sql.StructField(column.name, column.dataType, nullable=True), frame.source(column)
        )
    return output


def joined_columns(
    left: InputFrame,
    right: InputFrame,
    *,
    suffix: str = "_right",
    left_fields: Sequence[sql.StructField] | None = None,
    as_given: bool = False,
) -> OutputColumns:
    """The left frame's columns, then the right frame's without its keys.

    A right column whose name is taken gets the `suffix`. `left_fields`: the left frame's columns,
    if not all of them. `as_given`: whether each result row has a left row of the same micro-batch.
    Then the left columns keep their nullability and their metadata, which holds the watermark.
    """
    output = OutputColumns()
    left_fields = left.fields if left_fields is None else left_fields
    for column in left_fields:
        output.add(
            column if as_given else sql.StructField(column.name, column.dataType, nullable=True),
            left.source(column),
        )
    taken = {left.fold(column.name) for column in left_fields}
    for column in right.fields:
        if column in right.keys:
            continue
        name = column.name if left.fold(column.name) not in taken else column.name + suffix
        if left.fold(name) in taken:
            raise ValueError(
                f"the result would have two columns named {name!r}, since {suffix!r} is added "
                "where a name is taken: rename a column"
            )
        taken.add(left.fold(name))
        output.add(
            sql.StructField(name, column.dataType, nullable=True),
            {"from": "right_time"}
            if column == right.time
            else {"from": "right", "index": right.payload.index(column)},
        )
    return output
