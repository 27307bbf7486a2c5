"""A change stream kept as a table."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast.spark.materialized import Materialized, history_of, operator_name
from holdfast.spark.plan.one_side import METRICS, OneSide
from holdfast.spark.plan.operator import Operator, check_call
from holdfast.spark.span import Span, micros
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
    history_retention: Span | None = None,
    max_ahead: Span | None = None,
    materialized: Materialized | None = None,
) -> "DataFrame":
    """Keep a change stream as a table by key, under `name` in the state; returns the rows that the
    table took.

    Without `on` the table has the row of each key that came last: by micro-batch, then by the
    columns `order_by` (nulls first), then by content. With `on` it has the one with the greatest
    time, of equal times the one that came last in that order; a row older than the one that the
    table has is late. With `history_retention`, too, it is a versioned table, which can be asked as
    of any time that far back: late rows take their places in it, and what is older than
    `history_retention` behind the newest row is late. Late rows are neither kept nor handed on;
    they are counted.

    A row whose columns but `by`, `on` and `order_by` are all null deletes its key (from its time
    on, in a versioned table), and is handed on like any other; where there are no such columns, no
    row does. Rows whose key or time is null are dropped. A table without history forgets the time
    of what was deleted, so an older row of the key that comes then is taken.

    `max_ahead` sets rows aside that are dated further than that past their micro-batch's own time
    (`docs/spark/README.md`); `materialized` says how the state is kept.

    Returns the frame's columns.

    Raises, before any job runs, `ValueError` or `TypeError` that names the wrong column, type or
    option, `UnsupportedOperationError` for a frame, a column's type or an option that this state or
    operator cannot serve, `HoldfastError` for a static frame outside of a micro-batch.
    """
    if not isinstance(name, str):
        raise TypeError(f"name={name!r}: give the table a name, a string")
    rows = OneSide(df, by, on, order_by)
    history_retention = history_of(history_retention, materialized)
    if history_retention is not None and on is None:
        raise ValueError(
            "history_retention needs on: name the column whose time orders a key's versions"
        )
    table: dict[str, Any] = {"form": "key_value" if on is None else "timestamped"}
    if history_retention is not None:
        table = {
            "form": "versioned",
            "history_retention": micros(history_retention, "history_retention"),
        }
    epoch = check_call(state, df, df)
    operator = Operator(
        kind="materialize",
        name=operator_name(name, materialized, name),
        state=state,
        epoch=epoch,
        layout=rows.rows.layout,
        output=rows.output,
        timed=on is not None,
        max_ahead=max_ahead,
        materialized=materialized,
        request={"table": table, "values": rows.values, **rows.request},
    )
    frame = rows.rows.frame(state)
    operator.claim()
    return operator.over(frame, keys=len(rows.keys), metrics=METRICS)
