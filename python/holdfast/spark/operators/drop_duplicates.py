"""The operator that drops rows whose key has occurred within a given time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast._time import Duration, duration_micros
from holdfast.spark.materialized import Materialized
from holdfast.spark.plan.call import refuse_history
from holdfast.spark.plan.input import OneInput
from holdfast.spark.plan.operator import run_operator
from holdfast.spark.plan.output_columns import frame_columns
from holdfast.spark.state import State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def drop_duplicates(
    df: "DataFrame",
    *,
    by: str | Sequence[str],
    on: str,
    within: Duration,
    state: State,
    max_ahead: Duration | None = None,
    materialized: Materialized | None = None,
    name: str | None = None,
) -> "DataFrame":
    """Returns each row, unless an earlier row of its key has a time at most `within` away.

    Rows are ordered by micro-batch, then by event time (`on`), then by content. A row is earlier if
    it comes before the row in this order, so its time may be smaller or greater. A dropped
    duplicate counts as an earlier row, too: a key that repeats at least every `within` is returned
    once. If times never decrease, the result does not depend on how rows are divided into
    micro-batches, except for which row of equal key and time is returned. A row up to `within`
    behind the newest time of its partition before the micro-batch is compared like all others. An
    older row is late: it is dropped and counted, and later rows are not compared with it.

    Null keys are equal to each other; rows whose time is null are dropped. `name` is the operator's
    name in the state. The state has one time per key, and stores it for `2 * within`.

    Rows dated more than `max_ahead` after the time of their micro-batch are written to a file and
    not processed (`docs/spark/README.md`). `materialized` has the options of the operator's stores.

    Returns the frame's columns.

    Raises, before any task of the operator runs, `ValueError` or `TypeError` naming the wrong
    column, type or option, `UnsupportedOperationError` for a frame, a column's type or an option
    that this state or operator does not support, `HoldfastError` if Spark's Python workers cannot
    import Holdfast, and with `State(root)` for a static frame outside of a micro-batch.
    """
    if not isinstance(on, str):
        raise TypeError(f"on is a {type(on).__name__}: name the rows' timestamp column")
    rows = OneInput.of(df, by, on)
    distance = duration_micros(within, "within")
    refuse_history(materialized, "it stores one time per key")
    output = frame_columns(rows.left)
    return run_operator(
        "drop_duplicates",
        rows,
        state=state,
        name=name,
        materialized=materialized,
        max_ahead=max_ahead,
        output=output.schema,
        settings={"within": distance, "output": output.request},
    )
