"""Rows of which no like came before."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.spark.materialized import Materialized, history_of, operator_name
from holdfast.spark.plan.one_side import METRICS, OneSide
from holdfast.spark.plan.operator import Operator, check_call
from holdfast.spark.span import Span, micros
from holdfast.spark.state import State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def drop_duplicates(
    df: "DataFrame",
    *,
    by: str | Sequence[str],
    on: str,
    within: Span,
    state: State,
    max_ahead: Span | None = None,
    materialized: Materialized | None = None,
    name: str | None = None,
) -> "DataFrame":
    """Each row of which no row with the same key came before within `within` of its own time, to
    either side.

    Rows come in the order of their micro-batches and within one in that of event time (`on`), then
    of content. A row that is dropped counts as one that came before, too: a key that repeats at
    least every `within` goes out once. Rows whose times never go backwards give the same however
    they are cut into micro-batches. Late rows: up to `within` behind the newest time of their
    partition they are compared like all others; older ones are dropped and counted.

    Null equals null among keys; rows whose time is null are dropped. `name` is the operator's name
    in the state, which keeps one time a key, for `2 * within`.

    `max_ahead` sets rows aside that are dated further than that past their micro-batch's own time
    (`docs/spark/README.md`); `materialized` says how the state is kept.

    Returns the frame's columns.

    Raises, before any job runs, `ValueError` or `TypeError` that names the wrong column, type or
    option, `UnsupportedOperationError` for a frame, a column's type or an option that this state or
    operator cannot serve, `HoldfastError` for a static frame outside of a micro-batch.
    """
    if not isinstance(on, str):
        raise TypeError(f"on is a {type(on).__name__}: name the rows' timestamp column")
    rows = OneSide(df, by, on)
    near = micros(within, "within")
    history_of(None, materialized, kept="one time a key is kept")
    epoch = check_call(state, df, df)
    operator = Operator(
        kind="drop_duplicates",
        name=operator_name(name, materialized, f"drop_duplicates_{rows.rows.default_name}"),
        state=state,
        epoch=epoch,
        layout=rows.rows.layout,
        output=rows.output,
        max_ahead=max_ahead,
        materialized=materialized,
        request={"within": near, **rows.request},
    )
    frame = rows.rows.frame(state)
    operator.claim()
    return operator.over(frame, keys=len(rows.keys), metrics=METRICS)
