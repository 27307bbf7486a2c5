"""The as-of join of a stream with a versioned table."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pyspark.errors import AnalysisException
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql import types as sql

from holdfast._time import Duration, duration_micros
from holdfast.spark.materialized import Materialized
from holdfast.spark.plan.call import checked_history
from holdfast.spark.plan.column_checks import check_both_stream
from holdfast.spark.plan.input import TwoInputs
from holdfast.spark.plan.input_frame import InputFrame
from holdfast.spark.plan.operator import run_operator
from holdfast.spark.plan.output_columns import OutputColumns, joined_columns
from holdfast.spark.state import State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def join_asof(
    left: "DataFrame",
    right: "DataFrame",
    *,
    by: str | Sequence[str],
    left_on: str,
    right_on: str,
    state: State,
    history_retention: Duration,
    how: Literal["inner", "left"] = "left",
    grace: Duration | None = None,
    tolerance: Duration | None = None,
    delete_when: str | Column | None = None,
    order_by: Sequence[str] = (),
    suffix: str = "_right",
    max_ahead: Duration | None = None,
    materialized: Materialized | None = None,
    name: str | None = None,
) -> "DataFrame":
    """Joins each left row with the right row of its key that was in force at the left row's time.

    The right side is stored as a versioned table in `state`: a right row is in force from its time
    until the time of the next right row of its key. Late rows on either side are joined at their
    own times; within a micro-batch, right rows come before left rows of the same time. Of right
    rows with the same key and time, the last one is valid: by micro-batch, then by the columns
    `order_by`, then by content.

    A left row up to `history_retention` older than the newest right row of its partition still
    finds the row in force. Right rows that are further behind are dropped. With `grace`, a left row
    waits in `state` until the newest left row of its partition is `grace` younger. A right row that
    is late by less than `grace` is then still joined. `grace` is at most `history_retention`. Right
    rows may be ahead of the newest left row by up to `history_retention` less `grace`. The last
    left rows of a stream wait until newer left rows or a heartbeat arrive. `tolerance` is the
    greatest age that a match may have. `delete_when` (SQL or a Column, over the right frame) marks
    right rows that end the value of their key: from the time of such a row until the next right row
    of the key, no row is in force. `name` is the operator's name in the state.

    Rows dated more than `max_ahead` after the time of their micro-batch are written to a file and
    not processed (`docs/spark/README.md`). `materialized` has the options of the operator's stores.

    Returns the left frame's columns, then the right frame's without `by`; where a name is taken,
    `suffix` is added. Left rows whose key or time is null match nothing; right rows whose key or
    time is null are dropped. Both frames are streams, or both are static, as in `foreachBatch`. A
    static table that every micro-batch reads again is also stored and logged again in each of them.

    Raises, before any task of the operator runs, `ValueError` or `TypeError` naming the wrong
    column, type or option, `UnsupportedOperationError` for a frame, a column's type or an option
    that this state or operator does not support, `HoldfastError` if Spark's Python workers cannot
    import Holdfast, and with `State(root)` for a static frame outside of a micro-batch.
    """
    if how not in ("inner", "left"):
        raise ValueError(f"how={how!r}: there are 'inner' and 'left'")
    if not isinstance(suffix, str):
        raise TypeError(f"suffix={suffix!r}: give a string")
    wait = 0 if grace is None else duration_micros(grace, "grace")
    rows = TwoInputs.of(left, right, by=by, left_on=left_on, right_on=right_on, order_by=order_by)
    output = joined_columns(rows.left, rows.right, suffix=suffix, as_given=wait == 0)
    history = checked_history(history_retention, materialized)
    retention = duration_micros(
        history_retention if history is None else history, "history_retention"
    )
    if wait > retention:
        raise ValueError(
            f"grace={grace!s} is longer than history_retention={history_retention!s}: the row in "
            "force would be dropped before a left row stops waiting; raise history_retention"
        )
    oldest = None if tolerance is None else duration_micros(tolerance, "tolerance")
    consequence = "put the whole table again" if left.isStreaming else "emit all left rows again"
    otherwise = (
        ", or call join_asof inside foreachBatch(hfs.foreach_batch(fn)), where every micro-batch "
        "puts the whole table again"
    )
    check_both_stream(left, right, consequence, otherwise if left.isStreaming else "")
    joined = run_operator(
        "join_asof",
        TwoInputs(rows.left, rows.right, _deleted(rows.right, delete_when)),
        state=state,
        name=name,
        materialized=materialized,
        max_ahead=max_ahead,
        output=output.schema,
        settings={
            "how": how,
            "history_retention": retention,
            "grace": wait,
            "output": output.request,
        },
        closes_at_end=True,
    )
    return joined if oldest is None else _not_older(joined, oldest, how, rows, output)


def _deleted(right: InputFrame, delete_when: str | Column | None) -> Column:
    """Returns a boolean column: true for right rows that end the value of their key."""
    if delete_when is None:
        return F.lit(col=False)
    if not isinstance(delete_when, str | Column):
        raise TypeError(
            f"delete_when={delete_when!r}: give a condition over the right frame, as SQL or as a "
            "Column"
        )
    try:
        condition = F.expr(delete_when) if isinstance(delete_when, str) else delete_when
        # An aggregate is no condition over a row. Selected beside a column of the frame, it fails.
        beside = right.df.select(right.column(right.fields[0]), condition.alias("deleted"))
        kind = beside.schema.fields[1].dataType
    except AnalysisException as error:
        raise ValueError(
            f"delete_when={delete_when!s} is no condition over the right frame: {error}"
        ) from error
    if not isinstance(kind, sql.BooleanType):
        raise ValueError(  # noqa: TRY004
            f"delete_when={delete_when!s} is {kind.simpleString()}: give a condition"
        )
    return F.coalesce(condition, F.lit(col=False))


def _not_older(
    joined: "DataFrame", oldest: int, how: str, rows: TwoInputs, output: OutputColumns
) -> "DataFrame":
    """Returns the joined rows, without matches that are older than `oldest` microseconds."""
    quoted = [f"`{name.replace('`', '``')}`" for name in output.names]
    left_time, right_time = (
        quoted[[column["from"] for column in output.request].index(source)]
        for source in ("time", "right_time")
    )
    # Times without a zone are subtracted as local times. Times with one are subtracted as instants:
    # Spark's subtraction would use the session's zone with its summer time.
    if isinstance(rows.time_type, sql.TimestampNTZType):
        age = f"({left_time} - {right_time})"
        limit = f"make_dt_interval(0, 0, 0, {oldest} / 1000000BD)"
    else:
        age = f"unix_micros({left_time}) - unix_micros({right_time})"
        limit = f"{oldest}L"
    is_fresh = F.expr(f"{age} <= {limit}")
    if how == "inner":
        return joined.where(is_fresh)
    first = len(rows.left.fields)
    return joined.select(
        *(F.col(column) for column in quoted[:first]),
        *(
            F.when(is_fresh, F.col(column)).alias(name)
            for column, name in zip(quoted[first:], output.names[first:], strict=True)
        ),
    )
