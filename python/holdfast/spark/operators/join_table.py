"""The join of two tables that come as change streams."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

from holdfast.spark.materialized import Materialized, history_of, operator_name
from holdfast.spark.operators.foreign_key import ForeignKey, by_foreign_key
from holdfast.spark.plan.operator import Operator, check_call
from holdfast.spark.plan.output_columns import METRICS, TwoSides, check_both_stream
from holdfast.spark.span import Span, micros
from holdfast.spark.state import State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_HISTORY: Final = "1 day"


def join_table(
    left: "DataFrame",
    right: "DataFrame",
    *,
    by: str | Sequence[str],
    left_on: str,
    right_on: str,
    state: State,
    foreign_key: str | None = None,
    how: Literal["inner", "left", "outer"] = "inner",
    history_retention: Span | None = None,
    max_ahead: Span | None = None,
    materialized: Materialized | None = None,
    name: str | None = None,
) -> "DataFrame":
    """Two tables joined by their key, as a change stream of the result.

    Both frames are change streams: a row is its key's value from its time (`left_on`, `right_on`)
    on, until the next one of the key; one whose columns but key and time are all null deletes. Both
    are kept as versioned tables in `state`, for `history_retention` (a day, if it is not given).

    A row that is the newest of its key changes the result: it goes out joined with the other side
    as of its own time, and once more for each later change of the other side, if there is one. A
    row older than the newest of its key is kept in its place, changes nothing of the result and is
    counted; one older than `history_retention` is not kept.

    The time of a row of the result is the greater of its two times; the last one to come for a key
    and a time holds. A row whose value columns are all null says that the key has no row in the
    result from then on.

    With `foreign_key`, a column of the left frame that names the right frame's key, `by` is the
    left frame's own key and the result's: many left rows may have one right row. The right frame's
    key is its column `by`, or, if it has none, the one that is called as `foreign_key`. A left row
    whose foreign key is null matches nothing; `how` is inner or left. Of the result's rows for a
    key the one with the greatest left time holds, of those the last one to come.

    `max_ahead` sets rows aside that are dated further than that past their micro-batch's own time
    (`docs/spark/README.md`); `materialized` says how the state is kept.

    Returns the left frame's columns, then the right frame's without its key; where a name is taken,
    `_right` is added. Rows whose key or time is null are dropped. Both frames are streams, or both
    are static. `name` is the operator's name. Raises, before any job runs, `ValueError` or
    `TypeError` that names the wrong column, type or option, `UnsupportedOperationError` for a
    frame, a column's type or an option that this state or operator cannot serve, `HoldfastError`
    for a static frame outside of a micro-batch.
    """
    if how not in ("inner", "left", "outer"):
        raise ValueError(f"how={how!r}: there are 'inner', 'left' and 'outer'")
    kept = history_of(history_retention, materialized)
    retention = micros(_HISTORY if kept is None else kept, "history_retention")
    if foreign_key is not None:
        return by_foreign_key(
            ForeignKey(
                left, right, by=by, left_on=left_on, right_on=right_on, foreign_key=foreign_key
            ),
            how=how,
            retention=retention,
            state=state,
            max_ahead=max_ahead,
            materialized=materialized,
            name=name,
        )
    join = TwoSides(left, right, by=by, left_on=left_on, right_on=right_on, left_only=False)
    check_both_stream(left, right, "change the table again")
    epoch = check_call(state, left, right)
    operator = Operator(
        kind="join_table",
        name=operator_name(name, materialized, f"join_table_{join.rows.default_name}"),
        state=state,
        epoch=epoch,
        layout=join.rows.layout,
        output=join.output,
        max_ahead=max_ahead,
        materialized=materialized,
        request={
            "how": how,
            "history_retention": retention,
            "left_values": list(range(len(join.left_payload))),
            "right_values": list(range(len(join.right_payload))),
            **join.request,
        },
    )
    rows = join.rows.frame(state)
    operator.claim()
    return operator.over(rows, keys=len(join.keys), metrics=METRICS)
