"""The join of two tables that arrive as change streams."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

from holdfast._time import Duration, duration_micros
from holdfast.spark.materialized import Materialized
from holdfast.spark.operators.foreign_key import join_by_foreign_key
from holdfast.spark.plan.call import checked_history
from holdfast.spark.plan.column_checks import check_both_stream
from holdfast.spark.plan.input import TwoInputs
from holdfast.spark.plan.operator import run_operator
from holdfast.spark.plan.output_columns import joined_columns
from holdfast.spark.state import State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DEFAULT_RETENTION: Final = "1 day"


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
    history_retention: Duration | None = None,
    max_ahead: Duration | None = None,
    materialized: Materialized | None = None,
    name: str | None = None,
) -> "DataFrame":
    """Joins two tables by key; returns a change stream of the result.

    Both frames are change streams: a row is its key's value from its time (`left_on`, `right_on`)
    until the time of the key's next row. A row whose columns except key and time are all null
    deletes its key. Both tables are stored as versioned tables in `state`, for `history_retention`
    (default: a day).

    A row that is the newest of its key changes the result: it is returned joined with the other
    side as of its own time, and again for each later change of the other side. A row older than the
    newest of its key becomes an older version, and is counted. It returns no rows itself; rows of
    the other side that arrive later are joined with it. A row more than `history_retention` behind
    the newest row of its side in the partition is dropped, and counted.

    The time of a result row is the greater of its two times. Of result rows with the same key and
    time, the last one is valid. A result row whose value columns are all null means that the key
    has no row in the result from then on. So each frame whose rows are returned without a match
    (`how`) needs a column other than its key and its time.

    `foreign_key` is a column of the left frame that holds the right frame's key: many left rows may
    refer to one right row. With it, `by` is the key of the left frame and of the result. If `by` is
    one column and the right frame has it, that is the right frame's key. Otherwise its key is its
    column with the name of `foreign_key`. A left row whose foreign key is null matches nothing;
    `how` is inner or left. A left row older than the newest of its key is never joined, not even
    with later right rows. Of the result rows of a key, the one with the greatest left time is
    valid; at equal times, the last one.

    Rows dated more than `max_ahead` after the time of their micro-batch are written to a file and
    not processed (`docs/spark/README.md`). `materialized` has the options of the operator's stores.

    Returns the left frame's columns, then the right frame's without its key; where a name is taken,
    `_right` is added. Rows whose key or time is null are dropped. Both frames are streams, or both
    are static. `name` is the operator's name in the state.

    Raises, before any task of the operator runs, `ValueError` or `TypeError` naming the wrong
    column, type or option, `UnsupportedOperationError` for a frame, a column's type or an option
    that this state or operator does not support, `HoldfastError` if Spark's Python workers cannot
    import Holdfast, and with `State(root)` for a static frame outside of a micro-batch.
    """
    if how not in ("inner", "left", "outer"):
        raise ValueError(f"how={how!r}: there are 'inner', 'left' and 'outer'")
    history = checked_history(history_retention, materialized)
    retention = duration_micros(
        _DEFAULT_RETENTION if history is None else history, "history_retention"
    )
    if foreign_key is not None:
        return join_by_foreign_key(
            left,
            right,
            by=by,
            left_on=left_on,
            right_on=right_on,
            foreign_key=foreign_key,
            how=how,
            retention=retention,
            state=state,
            max_ahead=max_ahead,
            materialized=materialized,
            name=name,
        )
    rows = TwoInputs.of(
        left, right, by=by, left_on=left_on, right_on=right_on, returns_left_keys=False
    )
    output = joined_columns(rows.left, rows.right)
    check_both_stream(left, right, "change the table again")
    for frame, is_alone in ((rows.left, how != "inner"), (rows.right, how == "outer")):
        if is_alone and not frame.payload:
            raise ValueError(
                f"how={how!r}: the {frame.name} frame has no column other than its key and its "
                "time, so a row of the result without a match would look like a delete: add a "
                "column that is never null, such as F.lit(True)"
            )
    return run_operator(
        "join_table",
        rows,
        state=state,
        name=name,
        materialized=materialized,
        max_ahead=max_ahead,
        output=output.schema,
        settings={
            "how": how,
            "history_retention": retention,
            "left_values": list(range(len(rows.left.payload))),
            "right_values": list(range(len(rows.right.payload))),
            "output": output.request,
        },
    )
