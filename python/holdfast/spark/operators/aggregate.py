"""Aggregation by key, and by windows of event time."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import types as sql

from holdfast._time import Duration, duration_micros
from holdfast.spark.materialized import Materialized
from holdfast.spark.operators.aggregate_columns import AggregateColumns
from holdfast.spark.plan.call import refuse_history
from holdfast.spark.plan.input import OneInput
from holdfast.spark.plan.operator import TaskFactory, run_operator
from holdfast.spark.plan.output_columns import frame_columns
from holdfast.spark.state import State
from holdfast.spark.window import AnyWindow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def aggregate(
    df: "DataFrame",
    *,
    by: str | Sequence[str],
    aggs: Mapping[str, Any],
    state: State,
    on: str | None = None,
    window: AnyWindow | None = None,
    grace: Duration | None = None,
    emit: Literal["update", "close"] = "update",
    retention: Duration | None = None,
    max_ahead: Duration | None = None,
    materialized: Materialized | None = None,
    name: str | None = None,
) -> "DataFrame":
    """Returns one row per group with the values of `aggs`, computed across micro-batches.

    `by` are the group's columns; nulls form a group, too. `aggs` maps the name of each
    result column to one of:

    - `"count"`, which counts rows,
    - `(function, column)`: Spark SQL's `count`, `sum`, `min`, `max`, `avg`, `first`, `last`,
      `count_distinct`, `collect_list`, `collect_set`, `count_if`, `bool_and`, `bool_or`,
      `variance`, `stddev`, `var_pop` or `stddev_pop` of a column, with Spark's result type and
      treatment of nulls. A column is a name, or an expression over the frame's columns:
      `("sum", F.col("price") * F.col("amount"))`,
    - `("max_by", value, order)` or `("min_by", value, order)`: the value of the row with the
      greatest or the least order; of equal orders, the greatest or the least value. Rows without
      an order are ignored. `value` and `order` are columns; `value` may be a list of columns,
      which are returned as a struct. With a number `n` after the order, the result is the array
      of the first `n` values, from 1 to 1,000: a top-n,
    - an `Aggregator`, which is user code.

    `on` is the rows' time. It decides `first` and `last` (at equal times, the least and the
    greatest value) and the order of lists. Without `on`, rows are ordered by micro-batch, then by
    content. A task fails with `ValueError` if a sum or an average does not fit its type.

    `window` (from `hfs.window`, `hfs.sliding_window` or `hfs.session_window`) divides each group by
    time: columns `window_start` and `window_end` follow `by`. The stream time is the greatest time
    of a partition so far. A window closes when the stream time is `grace` past the window's end.
    Rows for a closed window are dropped and counted. `emit="update"` returns the groups that a
    micro-batch changed. `emit="close"` returns each window once, when it closes (`grace` is then 0
    by default). With `State.scratch()`, the end of the frame closes all windows. Without `grace`,
    `emit="update"` accepts late rows as long as windows are stored: for `retention`, or forever.
    Without windows, `grace` is how late a row may be. `name` is the operator's name in the state.

    Rows dated more than `max_ahead` after the time of their micro-batch are written to a file and
    not processed (`docs/spark/README.md`). `materialized` has the options of the operator's stores.

    Raises, before any task of the operator runs, `ValueError` or `TypeError` naming the wrong
    column, function or option, `UnsupportedOperationError` for a frame, a column's type or an
    option that this state or operator does not support, `HoldfastError` if Spark's Python workers
    cannot import Holdfast, and with `State(root)` for a static frame outside of a micro-batch.
    """
    given = OneInput.of(df, by, on).left
    columns = AggregateColumns(given, aggs)
    settings = _settings(given.time, window, grace, emit, retention)
    windows = [] if window is None or given.time is None else _window_fields(given.time)
    output = [*given.keys, *windows, *columns.results]
    seen: set[str] = set()
    for field in output:
        if given.fold(field.name) in seen:
            raise ValueError(
                f"the result would have two columns named {field.name!r}: rename the one in aggs"
            )
        seen.add(given.fold(field.name))
    refuse_history(materialized, "each group has one value")
    task = None
    if columns.user_functions:
        # User functions get rows with all columns of the frame.
        settings["output"] = frame_columns(given).request
        task = _aggregator_task(columns)
    return run_operator(
        "aggregate",
        OneInput(columns.frame.using(keys=given.keys, time=given.time, payload=columns.payload)),
        state=state,
        name=name,
        materialized=materialized,
        max_ahead=max_ahead,
        output=sql.StructType(
            [sql.StructField(field.name, field.dataType, nullable=True) for field in output]
        ),
        settings={**settings, "aggregates": columns.request},
        closes_at_end=True,
        without_nulls=columns.arrays,
        task=task,
    )


def _aggregator_task(columns: AggregateColumns) -> TaskFactory:
    from holdfast.spark.worker.aggregator import AggregatorTask

    aggregators = {
        number: declared.for_worker for number, declared in columns.user_functions.items()
    }
    return partial(AggregatorTask, aggregators=aggregators)


def _window_fields(time: sql.StructField) -> list[sql.StructField]:
    return [sql.StructField(name, time.dataType) for name in ("window_start", "window_end")]


def _settings(
    time: sql.StructField | None,
    window: AnyWindow | None,
    grace: Duration | None,
    emit: str,
    retention: Duration | None,
) -> dict[str, Any]:
    if emit not in ("update", "close"):
        raise ValueError(f"emit={emit!r}: there are 'update' and 'close'")
    if window is not None and not isinstance(window, AnyWindow):
        raise ValueError(
            f"window={window!r}: give hfs.window(length), hfs.sliding_window(length) or "
            "hfs.session_window(gap)"
        )
    if window is not None and time is None:
        raise ValueError("window needs a time: name the rows' timestamp column with on=...")
    if window is None and emit == "close":
        raise ValueError("emit='close' needs a window: without one a group never closes")
    if grace is not None and time is None:
        raise ValueError("grace needs a time: name the rows' timestamp column with on=...")
    if retention is not None and window is None:
        raise ValueError("retention is how long windows are stored, and there is no window")
    lateness = None if grace is None else duration_micros(grace, "grace")
    if lateness is None and emit == "close":
        lateness = 0
    stored = None if retention is None else duration_micros(retention, "retention")
    if window is not None and stored is not None and stored < window.length + (lateness or 0):
        raise ValueError(
            f"retention={retention!r} is shorter than a window and its grace: a window must be "
            "stored until it closes"
        )
    return {
        "timed": time is not None,
        "window": None if window is None else window.request,
        "grace": lateness,
        "emit": emit,
        "retention": stored,
    }
