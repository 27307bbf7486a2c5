"""Stores a change stream as a table."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast._time import Duration, duration_micros
from holdfast.spark.materialized import Materialized
from holdfast.spark.plan.call import checked_history
from holdfast.spark.plan.input import OneInput
from holdfast.spark.plan.operator import run_operator
from holdfast.spark.plan.output_columns import frame_columns
from holdfast.spark.state import State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def materialize(
    df: "DataFrame",
    *,
    by: str | Sequence[str],
    state: State,
    name: str,
    on: str | None = None,
    order_by: Sequence[str] = (),
    history_retention: Duration | None = None,
    max_ahead: Duration | None = None,
    materialized: Materialized | None = None,
) -> "DataFrame":
    """Stores a change stream as a table by key, named `name`; returns the rows that it accepted.

    Without `on` the table has the last row of each key: by micro-batch, then by the columns
    `order_by` (nulls first), then by content. With `on` it has the row with the greatest time; at
    equal times, the last row in that order. A row older than the table's row of its key is late.
    With `history_retention` as well, it is a versioned table, which can be read as of any time up
    to `history_retention` behind the newest row of a partition. Older rows then become older
    versions, and only rows more than `history_retention` behind the newest row of their partition
    are late. Late rows are neither stored nor returned; they are counted.

    A row whose columns except `by`, `on` and `order_by` are all null deletes its key (from its time
    on, in a versioned table), and is returned like any other. If there are no such columns, no row
    deletes. Rows whose key or time is null are dropped. A table without history does not store the
    time of a delete, so it accepts an older row of the key that arrives after the delete.

    Rows dated more than `max_ahead` after the time of their micro-batch are written to a file and
    not processed (`docs/spark/README.md`). `materialized` has the options of the operator's stores.

    Returns the frame's columns.

    Raises, before any task of the operator runs, `ValueError` or `TypeError` naming the wrong
    column, type or option, `UnsupportedOperationError` for a frame, a column's type or an option
    that this state or operator does not support, `HoldfastError` if Spark's Python workers cannot
    import Holdfast, and with `State(root)` for a static frame outside of a micro-batch.
    """
    if not isinstance(name, str):
        raise TypeError(f"name={name!r}: give the table a name, a string")
    rows = OneInput.of(df, by, on, order_by)
    history = checked_history(history_retention, materialized)
    if history is not None and on is None:
        raise ValueError(
            "history_retention needs on: name the column whose time orders a key's versions"
        )
    table: dict[str, Any] = {"form": "key_value" if on is None else "timestamped"}
    if history is not None:
        table = {
            "form": "versioned",
            "history_retention": duration_micros(history, "history_retention"),
        }
    output = frame_columns(rows.left)
    return run_operator(
        "materialize",
        rows,
        state=state,
        name=name,
        materialized=materialized,
        max_ahead=max_ahead,
        output=output.schema,
        settings={"table": table, "values": _values(rows), "output": output.request},
    )


def _values(rows: OneInput) -> list[int]:
    """Returns the positions of the payload columns that are neither keys nor in `order_by`."""
    return [
        index
        for index, field in enumerate(rows.left.payload)
        if field not in rows.left.keys and index not in rows.left.order
    ]
