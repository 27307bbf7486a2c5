"""The join of two streams within a window."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from holdfast._time import Duration, duration_micros
from holdfast.spark.materialized import Materialized
from holdfast.spark.plan.call import refuse_history
from holdfast.spark.plan.column_checks import check_both_stream
from holdfast.spark.plan.input import TwoInputs
from holdfast.spark.plan.operator import run_operator
from holdfast.spark.plan.output_columns import joined_columns
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
    before: Duration,
    after: Duration,
    state: State,
    how: Literal["inner", "left", "right", "outer"] = "inner",
    grace: Duration | None = None,
    max_ahead: Duration | None = None,
    materialized: Materialized | None = None,
    name: str | None = None,
) -> "DataFrame":
    """Joins left rows with right rows that have the same key and a near time.

    A right row matches if its time is in [left time - `before`, left time + `after`]. A pair is
    returned in the micro-batch in which the second of its rows arrives. If `how` includes its side,
    a row without a match is returned after its window has closed, with nulls for the other side.
    Its window closes when the stream time of its partition (of both sides together) is more than
    `grace` past the last time of a possible match. Until then the row is stored in `state`. For a
    static frame with `State.scratch()` all windows close at the end.

    A row is late if its time is more than `grace` (default: zero) before the stream time that its
    partition had when the micro-batch began. Late rows are dropped and counted, for every `how`.
    Without late rows the result does not depend on how the rows are divided into micro-batches.

    Rows dated more than `max_ahead` after the time of their micro-batch are written to a file and
    not processed (`docs/spark/README.md`). `materialized` has the options of the operator's stores.

    Returns the left frame's columns, then the right frame's without `by`; where a name is taken,
    `_right` is added. The key of a right row without a match is in the left frame's columns. Rows
    whose key or time is null match nothing. Both frames are streams, or both are static. `name` is
    the operator's name in the state.

    Raises, before any task of the operator runs, `ValueError` or `TypeError` naming the wrong
    column, type or option, `UnsupportedOperationError` for a frame, a column's type or an option
    that this state or operator does not support, `HoldfastError` if Spark's Python workers cannot
    import Holdfast, and with `State(root)` for a static frame outside of a micro-batch.
    """
    if how not in ("inner", "left", "right", "outer"):
        raise ValueError(f"how={how!r}: there are 'inner', 'left', 'right' and 'outer'")
    rows = TwoInputs.of(
        left,
        right,
        by=by,
        left_on=left_on,
        right_on=right_on,
        returns_left_keys=how in ("inner", "left"),
    )
    output = joined_columns(rows.left, rows.right)
    durations = {
        "before": duration_micros(before, "before"),
        "after": duration_micros(after, "after"),
    }
    durations["grace"] = 0 if grace is None else duration_micros(grace, "grace")
    check_both_stream(left, right, "join all its rows again")
    refuse_history(materialized, "rows wait as long as they can be matched")
    return run_operator(
        "join_window",
        rows,
        state=state,
        name=name,
        materialized=materialized,
        max_ahead=max_ahead,
        output=output.schema,
        settings={"how": how, **durations, "output": output.request},
        closes_at_end=True,
    )
