"""The as-of join of a stream with a versioned table."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pyspark.errors import AnalysisException
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql import types as sql

from holdfast.spark.materialized import Materialized, history_of, operator_name
from holdfast.spark.plan.operator import Operator, check_call
from holdfast.spark.plan.output_columns import METRICS, TwoSides, check_both_stream
from holdfast.spark.span import Span, micros
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
    history_retention: Span,
    how: Literal["inner", "left"] = "left",
    grace: Span | None = None,
    tolerance: Span | None = None,
    delete_when: str | Column | None = None,
    order_by: Sequence[str] = (),
    suffix: str = "_right",
    max_ahead: Span | None = None,
    materialized: Materialized | None = None,
    name: str | None = None,
) -> "DataFrame":
    """Each left row with the right row of the same key that was in force at the left row's time.

    The right side is kept as a versioned table in `state`: a right row is in force from its time
    until the next one of its key. Late rows on either side are joined as of their own times; within
    a micro-batch, right rows come before left rows of the same time. Of right rows with one key and
    one time, the last in force wins: by micro-batch, then by the columns `order_by`, then by
    content.

    `history_retention` is how far back from the newest right time a left row finds what was in
    force; right rows older than that are dropped. With `grace` a left row waits in `state` until
    the newest left row of its partition is `grace` younger: right rows that come late, but by less
    than that, then count for it. It is at most `history_retention`, and what that has beyond it is
    how far right rows may be ahead of the newest left one; the last rows of a stream wait for newer
    ones. `tolerance` is the greatest age a match may have. `delete_when` (SQL or a Column, over the
    right frame) marks right rows that end the value. `name` is the operator's name in the state.

    `max_ahead` sets rows aside that are dated further than that past their micro-batch's own time
    (`docs/spark/README.md`); `materialized` says how the state is kept.

    Returns the left frame's columns, then the right frame's without `by`; where a name is taken,
    `suffix` is added. Left rows whose key or time is null match nothing; right rows whose key or
    time is null are dropped. Both frames are streams, or both are static, as in `foreachBatch`:
    there a table that is read anew in every micro-batch is put and logged anew in each. Raises,
    before any job runs, `ValueError` or `TypeError` that names the wrong column, type or option,
    `UnsupportedOperationError` for a frame, a column's type or an option that this state or
    operator cannot serve, `HoldfastError` for a static frame outside of a micro-batch.
    """
    if how not in ("inner", "left"):
        raise ValueError(f"how={how!r}: there are 'inner' and 'left'")
    if not isinstance(suffix, str):
        raise TypeError(f"suffix={suffix!r}: give a string")
    held = 0 if grace is None else micros(grace, "grace")
    join = _JoinAsof(
        left,
        right,
        by=by,
        left_on=left_on,
        right_on=right_on,
        order_by=order_by,
        suffix=suffix,
        waits=held > 0,
    )
    kept = history_of(history_retention, materialized)
    retention = micros(history_retention if kept is None else kept, "history_retention")
    if held > retention:
        raise ValueError(
            f"grace={grace!s} is longer than history_retention={history_retention!s}: what was in "
            "force when a left row is "
            "let go would be forgotten by then; raise history_retention"
        )
    oldest = None if tolerance is None else micros(tolerance, "tolerance")
    consequence = "put the whole table again" if left.isStreaming else "emit all left rows again"
    there = (
        ", or call join_asof inside foreachBatch(hfs.foreach_batch(fn)), where it does just that"
    )
    check_both_stream(left, right, consequence, there if left.isStreaming else "")
    epoch = check_call(state, left, right)
    operator = Operator(
        kind="join_asof",
        name=operator_name(name, materialized, f"join_asof_{join.rows.default_name}"),
        state=state,
        epoch=epoch,
        layout=join.rows.layout,
        output=join.output,
        max_ahead=max_ahead,
        materialized=materialized,
        request={
            "how": how,
            "history_retention": retention,
            "grace": held,
            "last": state.is_scratch,
            **join.request,
        },
    )
    rows = join.rows.frame(state, join.deleted(delete_when))
    operator.claim()
    joined = operator.over(rows, keys=len(join.keys), metrics=METRICS)
    return joined if oldest is None else join.within(joined, oldest, how)


class _JoinAsof(TwoSides):
    """What an as-of join does beyond the state host."""

    def deleted(self, delete_when: str | Column | None) -> Column:
        """Which right rows end the value."""
        if delete_when is None:
            return F.lit(col=False)
        if not isinstance(delete_when, str | Column):
            raise TypeError(
                f"delete_when={delete_when!r}: give a condition over the right frame, as SQL or as "
                "a Column"
            )
        try:
            condition = F.expr(delete_when) if isinstance(delete_when, str) else delete_when
            # Beside a column, so that an aggregate, which is no condition over a row, is refused.
            kind = (
                self.right.frame.select(
                    self.right.column(self.right_time), condition.alias("deleted")
                )
                .schema.fields[1]
                .dataType
            )
        except AnalysisException as error:
            raise ValueError(
                f"delete_when={delete_when!s} is no condition over the right frame: {error}"
            ) from error
        if not isinstance(kind, sql.BooleanType):
            raise ValueError(  # noqa: TRY004
                f"delete_when={delete_when!s} is {kind.simpleString()}: give a condition"
            )
        return F.coalesce(condition, F.lit(col=False))

    def within(self, joined: "DataFrame", oldest: int, how: str) -> "DataFrame":
        """The joined rows without matches that are older than `oldest` microseconds."""
        quoted = [f"`{field.name.replace('`', '``')}`" for field in self.output]
        names = [field.name for field in self.output]
        ours, theirs = (
            quoted[names.index(name)] for name in (self.left_time.name, self.right_time_name)
        )
        # Times without a zone are subtracted as such; times with one by their instants, since
        # Spark's subtraction would count the hours of the session's zone, summer time included.
        if isinstance(self.left_time.dataType, sql.TimestampNTZType):
            age = f"({ours} - {theirs})"
            limit = f"make_dt_interval(0, 0, 0, {oldest} / 1000000BD)"
        else:
            age = f"unix_micros({ours}) - unix_micros({theirs})"
            limit = f"{oldest}L"
        fresh = F.expr(f"{age} <= {limit}")
        if how == "inner":
            return joined.where(fresh)
        first = len(self.left.fields)
        return joined.select(
            *(F.col(column) for column in quoted[:first]),
            *(
                F.when(fresh, F.col(column)).alias(name)
                for column, name in zip(quoted[first:], names[first:], strict=True)
            ),
        )
