"""The join of two tables that come as change streams."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from holdfast.errors import UnsupportedOperationError
from holdfast.spark.plan import Operator, check_call
from holdfast.spark.span import Span, micros
from holdfast.spark.state import State
from holdfast.spark.two_sides import METRICS, TwoSides

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
    history_retention: Span = "1 day",
    name: str | None = None,
) -> "DataFrame":
    """Two tables joined by their key, as a change stream of the result.

    Both frames are change streams: a row is its key's value from its time (`left_on`, `right_on`) on, until the next one
    of the key; one whose columns but key and time are all null deletes. Both are kept as versioned tables in `state`,
    for `history_retention`.

    A row that is the newest of its key changes the result: it goes out joined with the other side as of its own time, and
    once more for each later change of the other side, if there is one. A row older than the newest of its key is kept in its
    place, changes nothing of the result and is counted; one older than `history_retention` is not kept.

    The time of a row of the result is the greater of its two times; the last one to come for a key and a time holds.
    A row whose value columns are all null says that the key has no row in the result from then on.

    Returns the left frame's columns, then the right frame's without `by`; where a name is taken, `_right` is added. Rows
    whose key or time is null are dropped. Both frames are streams, or both are static. `name` is the operator's name.
    Raises `ValueError` that names the wrong column, type or option, before any job runs.
    """
    if how not in ("inner", "left", "outer"):
        raise ValueError(f"how={how!r}: there are 'inner', 'left' and 'outer'")
    if foreign_key is not None:
        raise UnsupportedOperationError("foreign_key comes later: leave it out to join two tables by the key of both")
    join = TwoSides(left, right, by=by, left_on=left_on, right_on=right_on, left_only=False)
    retention = micros(history_retention, "history_retention")
    join.check_both_stream("change the table again")
    epoch = check_call(state, left, right)
    operator = Operator(
        kind="join_table",
        name=name or f"join_table_{join.rows.default_name}",
        state=state,
        epoch=epoch,
        layout=join.rows.layout,
        output=join.output,
        request={
            "how": how,
            "history_retention": retention,
            "left_values": list(range(len(join.left_payload))),
            "right_values": list(range(len(join.right_payload))),
            **join.request,
        },
    )
    rows = join.rows.frame()
    operator.claim()
    return operator.over(rows, keys=len(join.keys), metrics=METRICS)
