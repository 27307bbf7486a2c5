"""Aggregation by key, and by windows of event time."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from pyspark.errors import AnalysisException
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql import types as sql

from holdfast.spark.materialized import Materialized, history_of, operator_name
from holdfast.spark.plan import schema
from holdfast.spark.plan.input import Input, Rows
from holdfast.spark.plan.one_side import METRICS, OneSide
from holdfast.spark.plan.operator import Operator, check_call
from holdfast.spark.span import Span, micros
from holdfast.spark.state import State
from holdfast.spark.window import AnyWindow
from holdfast.spark.worker.aggregator import AggregatorTask, Declared
from holdfast.spark.worker.task import OperatorTask

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_FUNCTIONS: Final = (
    "count",
    "sum",
    "min",
    "max",
    "avg",
    "first",
    "last",
    "count_distinct",
    "collect_list",
    "collect_set",
)
_COLLECTING: Final = ("collect_list", "collect_set")
_COMPARING: Final = ("min", "max", "count_distinct", "collect_set")


def aggregate(
    df: "DataFrame",
    *,
    by: str | Sequence[str],
    aggs: Mapping[str, Any],
    state: State,
    on: str | None = None,
    window: AnyWindow | None = None,
    grace: Span | None = None,
    emit: Literal["update", "close"] = "update",
    retention: Span | None = None,
    max_ahead: Span | None = None,
    materialized: Materialized | None = None,
    name: str | None = None,
) -> "DataFrame":
    """One row a group with the values of `aggs`, kept from micro-batch to micro-batch.

    `by` are the group's columns; a null is a group like others. `aggs` names the result's columns:
    `"count"` counts rows, `(function, column)` computes Spark SQL's `count`, `sum`, `min`, `max`,
    `avg`, `first`, `last`, `count_distinct`, `collect_list` or `collect_set` of a column, with its
    result type and its way with nulls. `on` is the rows' time: `first` and `last` go by it (of
    equal times the least and the greatest value), and lists are ordered by it; without it they go
    by micro-batch, and within one by the rows' content. A sum that its type cannot hold is a
    `ValueError` in its task. An `Aggregator` is a function of your own.

    `window` (from `hfs.window`, `hfs.sliding_window` or `hfs.session_window`) cuts each group by
    time: columns `window_start` and `window_end` come after `by`. A window is closed when the
    stream time, the greatest time seen in a partition, is `grace` past its end; rows that come then
    are dropped and counted. `emit="update"` gives the groups that a micro-batch changed,
    `emit="close"` each window once, when it closes (with `grace` 0 if it is not given); a static
    frame has an end, which closes all. Without `grace`, `emit="update"` takes late rows as long as
    windows are kept: for `retention`, or always. Without windows `grace` bounds how late a row may
    be. `name` is the operator's name in the state.

    `max_ahead` sets rows aside that are dated further than that past their micro-batch's own time
    (`docs/spark/README.md`); `materialized` says how the state is kept.

    Raises, before any job runs, `ValueError` or `TypeError` that names the wrong column, function
    or option, `UnsupportedOperationError` for a frame, a column's type or an option that this state
    or operator cannot serve, `HoldfastError` for a static frame outside of a micro-batch.
    """
    given = OneSide(df, by, on)
    side, keys, time = given.side, given.keys, given.time
    columns = _Columns(given, aggs)
    settings = _settings(time, window, grace, emit, retention)
    output = [
        *keys,
        *([] if window is None or time is None else _window_fields(time)),
        *columns.results,
    ]
    seen: set[str] = set()
    for field in output:
        if side.fold(field.name) in seen:
            raise ValueError(
                f"the result would have two columns named {field.name!r}: rename the one in aggs"
            )
        seen.add(side.fold(field.name))
    history_of(None, materialized, kept="each group has one value")
    epoch = check_call(state, df)
    rows = Rows(Input(side, keys, time, columns.payload))
    # The rows as the user's own functions get them: with all columns of the frame.
    output_of_rows = {"output": given.request["output"]} if columns.own else {}
    operator = Operator(
        kind="aggregate",
        name=operator_name(name, materialized, f"aggregate_{rows.default_name}"),
        state=state,
        epoch=epoch,
        layout=rows.layout,
        timed=time is not None,
        max_ahead=max_ahead,
        materialized=materialized,
        output=sql.StructType(
            [sql.StructField(field.name, field.dataType, nullable=True) for field in output]
        ),
        without_nulls=[
            made["name"] for made in columns.aggregates if made["function"] in _COLLECTING
        ],
        request={
            **rows.request,
            **output_of_rows,
            **settings,
            "aggregates": columns.aggregates,
            "last": state.is_scratch,
        },
        task=partial(AggregatorTask, owns=columns.own) if columns.own else OperatorTask,
    )
    frame = rows.frame(state)
    operator.claim()
    return operator.over(frame, keys=len(keys), metrics=METRICS)


class _Columns:
    """What `aggs` asks for: the columns that it needs, and those that it gives."""

    def __init__(self, given: OneSide, aggs: Mapping[str, Any]) -> None:
        if not isinstance(aggs, Mapping) or not aggs:
            raise ValueError(
                f"aggs={aggs!r}: give a dict of the result's columns, such as {{'orders': 'count'}}"
            )
        self._side: Final = given.side
        self.payload: Final[list[sql.StructField]] = []
        self.aggregates: Final[list[dict[str, Any]]] = []
        self.results: Final[list[sql.StructField]] = []
        self.own: Final[dict[int, tuple[str, bytes, pa.Schema, pa.DataType]]] = {}
        """The user's own functions, by the number of the result's column."""
        if any(_is_own(what) for what in aggs.values()):
            # They get the whole rows; the built-in ones find their columns there, keys and the time
            # among them.
            self.payload.extend(given.payload)
        for result, what in aggs.items():
            if not isinstance(result, str):
                raise TypeError(
                    f"aggs has the key {result!r}, a {type(result).__name__}: the result's columns "
                    "have strings as names"
                )
            if _is_own(what):
                self._add_own(result, what)
            else:
                self._add(result, *self._parse(result, what))

    def _add(self, result: str, function: str, column: str | None) -> None:
        index = None
        if column is not None:
            field = self._side.find(column, f"aggs[{result!r}]")
            if field not in self.payload:
                self.payload.append(field)
            index = self.payload.index(field)
        self.aggregates.append({"name": result, "function": function, "column": index})
        self.results.append(sql.StructField(result, self._type(result, function, index)))

    def _add_own(self, result: str, what: Any) -> None:
        declared = Declared(result, what)
        self.own[len(self.aggregates)] = (
            result,
            declared.pickled,
            declared.states,
            declared.result,
        )
        self.aggregates.append({"name": result, "function": "own", "declared": declared.words})
        self.results.append(sql.StructField(result, declared.result_type))

    def _parse(self, result: str, what: Any) -> tuple[str, str | None]:
        if isinstance(what, str) and what == "count":
            return "count", None
        # Strings first: a Column compared with one is a Column, which has no truth.
        if (
            isinstance(what, tuple)
            and len(what) == 2
            and all(isinstance(part, str) for part in what)
            and what[0] in _FUNCTIONS
        ):
            return what
        functions = ", ".join(_FUNCTIONS)
        raise ValueError(
            f"aggs[{result!r}]={what!r}: give 'count' or a pair of a function and a column, or an "
            "Aggregator; "
            f"functions: {functions}"
        )

    def _type(self, result: str, function: str, index: int | None) -> sql.DataType:
        """The type that Spark SQL gives the result."""
        if index is None:
            return sql.LongType()
        field = self.payload[index]
        if function in ("sum", "avg") and not isinstance(
            field.dataType, (sql.NumericType, sql.DayTimeIntervalType)
        ):
            raise ValueError(
                f"aggs[{result!r}]: {function} needs numbers, and column {field.name!r} is "
                f"{field.dataType.simpleString()}"
            )
        if function in _COMPARING and schema.contains(field.dataType, schema.is_collated):
            raise ValueError(
                f"aggs[{result!r}]: {function} compares strings by their bytes, and column "
                f"{field.name!r} is "
                f"{field.dataType.simpleString()}: take collate({field.name}, 'UTF8_BINARY') of "
                f"it, or lower({field.name})"
            )
        if function in ("count_distinct", "collect_set") and schema.contains(
            field.dataType, _is_map
        ):
            raise ValueError(
                f"aggs[{result!r}]: {function} cannot take column {field.name!r}: equal maps may "
                "list their entries in "
                "another order; take map_entries of it, sorted"
            )
        call = getattr(F, function)(self._side.column(field))
        try:
            return self._side.frame.select(call.alias("result")).schema["result"].dataType
        except AnalysisException as error:
            raise ValueError(
                f"aggs[{result!r}]: {function} cannot take column {field.name!r}: {error}"
            ) from error


def _is_map(data_type: sql.DataType) -> bool:
    return isinstance(data_type, sql.MapType)


def _is_own(what: Any) -> bool:
    # A Column has any attribute that it is asked for.
    attributes = ("state_schema", "result_type", "merge", "result")
    return not isinstance(what, Column) and any(
        hasattr(what, attribute) for attribute in attributes
    )


def _window_fields(time: sql.StructField) -> list[sql.StructField]:
    return [sql.StructField(name, time.dataType) for name in ("window_start", "window_end")]


def _settings(
    time: sql.StructField | None,
    window: AnyWindow | None,
    grace: Span | None,
    emit: str,
    retention: Span | None,
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
        raise ValueError("retention is how long windows are kept, and there is no window")
    late = None if grace is None else micros(grace, "grace")
    if late is None and emit == "close":
        late = 0
    kept = None if retention is None else micros(retention, "retention")
    if window is not None and kept is not None and kept < window.length + (late or 0):
        raise ValueError(
            f"retention={retention!r} is shorter than a window and its grace: it must be kept "
            "until it closes"
        )
    return {
        "timed": time is not None,
        "window": None if window is None else window.request,
        "grace": late,
        "emit": emit,
        "retention": kept,
    }
