"""The join of two streams within a window."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from holdfast.spark.materialized import Materialized, history_of, operator_name
from holdfast.spark.plan.operator import Operator, check_call
from holdfast.spark.plan.output_columns import METRICS, TwoSides, check_both_stream
from holdfast.spark.span import Span, micros
from holdfast.spark.state import State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def join_window(
    left: "DataFrame",
    right: "DataFrame",
    *,
    by: str | Sequence[str],
    left_on: str,
    right_on: str,
    before: Span,
    after: Span,
    state: State,
    how: Literal["inner", "left", "right", "outer"] = "inner",
    grace: Span | None = None,
    max_ahead: Span | None = None,
    materialized: Materialized | None = None,
    name: str | None = None,
) -> "DataFrame":
    """Each left row with each right row of the same key whose time is in [left time - `before`,
    left time + `after`].

    Pairs go out with the later of their rows. A row without a match goes out, if `how` keeps its
    side, with nulls for the other one, once its window has closed: when the stream time of its
    partition (of both sides together) is more than `grace` past the last time at which it could be
    matched. Until then it is kept in `state`; of a static frame with `State.scratch()` everything
    closes at the end.

    A row more than `grace` (default: nothing) behind its partition's stream time is late: it is
    dropped and counted, whatever `how` is. For rows that are not, the result is that of the join of
    all rows at once, however they are cut into micro-batches.

    `max_ahead` sets rows aside that are dated further than that past their micro-batch's own time
    (`docs/spark/README.md`); `materialized` says how the state is kept.

    Returns the left frame's columns, then the right frame's without `by`; where a name is taken,
    `_right` is added. The key of a right row without a match is in the left frame's columns. Rows
    whose key or time is null match nothing. Both frames are streams, or both are static. `name` is
    the operator's name in the state. Raises, before any job runs, `ValueError` or `TypeError` that
    names the wrong column, type or option, `UnsupportedOperationError` for a frame, a column's type
    or an option that this state or operator cannot serve, `HoldfastError` for a static frame
    outside of a micro-batch.
    """
    if how not in ("inner", "left", "right", "outer"):
        raise ValueError(f"how={how!r}: there are 'inner', 'left', 'right' and 'outer'")
    join = TwoSides(
        left,
        right,
        by=by,
        left_on=left_on,
        right_on=right_on,
        left_only=how in ("inner", "left"),
        waits=True,
    )
    spans = {"before": micros(before, "before"), "after": micros(after, "after")}
    spans["grace"] = 0 if grace is None else micros(grace, "grace")
    check_both_stream(left, right, "join all its rows again")
    history_of(None, materialized, kept="rows wait as long as they can be matched")
    epoch = check_call(state, left, right)
    operator = Operator(
        kind="join_window",
        name=operator_name(name, materialized, f"join_window_{join.rows.default_name}"),
        state=state,
        epoch=epoch,
        layout=join.rows.layout,
        output=join.output,
        max_ahead=max_ahead,
        materialized=materialized,
        request={"how": how, "last": state.is_scratch, **spans, **join.request},
    )
    rows = join.rows.frame(state)
    operator.claim()
    return operator.over(rows, keys=len(join.keys), metrics=METRICS)
