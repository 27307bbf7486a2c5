"""The plan of an operator: its rows, a shuffle into exactly N tasks, and a task function."""

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql import types as sql

from holdfast._progress import COUNTED
from holdfast._time import Duration
from holdfast.spark.materialized import Materialized
from holdfast.spark.plan.call import OperatorCall, checked_call
from holdfast.spark.plan.input import OBSERVED, OperatorInput
from holdfast.spark.plan.murmur3 import numbers_by_partition
from holdfast.spark.plan.schema import arrow_type, instant, nullable
from holdfast.spark.state import State

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from holdfast.spark.worker.task import OperatorTask

_COUNTS: Final = sql.ArrayType(sql.LongType())

TaskFactory = Callable[..., "OperatorTask"]
"""Makes an operator's task from the arguments of `OperatorTask`."""


def run_operator(
    kind: str,
    rows: OperatorInput,
    *,
    state: State,
    name: str | None,
    materialized: Materialized | None,
    max_ahead: Duration | None,
    output: sql.StructType,
    settings: Mapping[str, Any],
    closes_at_end: bool = False,
    without_nulls: Collection[str] = (),
    task: TaskFactory | None = None,
) -> "DataFrame":
    """Checks an operator's call, plans it and takes its name; returns its result.

    `closes_at_end`: with `State.scratch()`, no row or window waits for newer rows after the end of
    the frame. The other options are those of `checked_call` and of `Operator`.
    """
    call = checked_call(
        [frame.df for frame in rows.frames],
        state=state,
        name=name,
        default_name=f"{kind}_{name_of(rows.left.keys)}",
        materialized=materialized,
        max_ahead=max_ahead,
        is_timed=rows.left.time is not None,
    )
    operator = Operator(
        kind,
        rows,
        call,
        output=output,
        settings={**settings, "last": state.is_scratch} if closes_at_end else settings,
        without_nulls=without_nulls,
        task=task,
    )
    result = operator.plan()
    call.take_names(call.name)
    return result


def name_of(keys: Sequence[sql.StructField]) -> str:
    """Returns the key columns' names, in characters that a file name may have."""
    text = "_".join(column.name for column in keys)
    return "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in text)[:80]


class Operator:
    """One call of an operator: its rows, its result, and its settings for the state host."""

    def __init__(
        self,
        kind: str,
        rows: OperatorInput,
        call: OperatorCall,
        *,
        output: sql.StructType,
        settings: Mapping[str, Any],
        without_nulls: Collection[str] = (),
        task: TaskFactory | None = None,
        partition_keys: int | None = None,
        metrics: Mapping[str, str] | None = None,
    ) -> None:
        """`settings` are those of the operator's kind.

        `without_nulls`: result columns that are arrays made by the operator; like those of Spark's
        own aggregates, they contain no nulls. `partition_keys`: the number of leading keys that
        choose the partition, if not all. `metrics`: the row counts to report, by default those of
        `rows`.
        """
        self._rows: Final = rows
        self._call: Final = call
        self._layout: Final = rows.layout
        fields = [
            sql.StructField(field.name, nullable(field.dataType), field.nullable, field.metadata)
            for field in output
        ]
        for field in fields:
            if field.name in without_nulls and isinstance(field.dataType, sql.ArrayType):
                field.dataType = sql.ArrayType(field.dataType.elementType, containsNull=False)
        self._output: Final = sql.StructType(fields)
        self._arrow_output: Final = pa.schema(
            [pa.field(field.name, arrow_type(field.dataType, field.name)) for field in fields]
        )
        self._instance: Final = str(uuid.uuid4())
        self._request: Final = {
            "name": call.name,
            "kind": kind,
            "max_ahead": call.max_ahead,
            "persistent": call.is_persistent,
            **rows.request,
            **settings,
        }
        self._task: Final = task
        self._partition_keys: Final = partition_keys or len(rows.left.keys)
        self._metrics: Final = rows.metrics if metrics is None else metrics

    def plan(self) -> "DataFrame":
        """Returns the operator's result over its rows."""
        rows = self._rows.rows(self._call.state)
        partitions = self._call.state.partitions
        key = F.xxhash64(*(f"k{index}" for index in range(self._partition_keys)))
        pid = F.pmod(key, F.lit(partitions)).cast("int")
        # Rows without a side are heartbeats, which go to all partitions.
        if rows.schema["side"].nullable:
            everywhere = F.sequence(F.lit(0), F.lit(partitions - 1))
            pid = F.explode(F.when(F.isnull("side"), everywhere).otherwise(F.array(pid)))
        # docs/design/spark-plan.md has the reason of each step. No optimiser rule crosses the node
        # of observe(), so a batch without rows still has its N tasks. repartitionById gives task p
        # the rows of partition p.
        application = rows.sparkSession.conf.get("spark.app.id", None)
        # Operator names are unique in a query, except those with a scratch state.
        unique = self._instance if self._call.state.is_scratch else self._call.name
        numbered = rows.select(pid.alias("pid"), *rows.columns)
        observed = numbered.observe(f"{OBSERVED}{unique}", *self._observed(rows))
        shuffled = _to_tasks(observed, partitions)
        if rows.isStreaming:
            # In a streaming plan Spark replaces the current time by the micro-batch's timestamp in
            # the driver's memory.
            shuffled = shuffled.withColumn("planned_at", F.unix_millis(F.current_timestamp()))
        if not rows.isStreaming:
            return shuffled.mapInArrow(self._make_task(application), self._output)
        # Each task returns one more row, with the host's counts. A query's progress shows the
        # metrics of its own plan only, so the tasks of a static frame return no such row.
        counts = self._unused_name("holdfast_counts")
        task = self._make_task(application, has_timestamps=True, counts=counts)
        output = sql.StructType([*self._output, sql.StructField(counts, _COUNTS)])
        sums = [
            F.coalesce(F.sum(F.col(counts)[index]), F.lit(0)).alias(name)
            for index, name in enumerate(COUNTED)
        ]
        result = shuffled.mapInArrow(task, output).observe(f"{OBSERVED}{unique}:result", *sums)
        return result.where(F.isnull(counts)).drop(counts)

    def _unused_name(self, name: str) -> str:
        taken = {field.name.lower() for field in self._output}
        while name in taken:
            name += "_"
        return name

    def _observed(self, rows: "DataFrame") -> "list[Column]":
        metrics = [F.expr(expression).alias(name) for name, expression in self._metrics.items()]
        if self._call.max_ahead is not None and rows.isStreaming:
            # In a streaming plan the current time is the micro-batch's, which the host uses, too.
            latest = F.expr(
                "current_timestamp() + "
                f"make_dt_interval(0, 0, 0, {self._call.max_ahead} / 1000000BD)"
            )
            ahead = F.col("side").isNotNull() & (
                F.col("t") > instant(latest, rows.schema["t"].dataType)
            )
            metrics.append(F.count_if(ahead).alias("ahead"))
        return metrics

    def _make_task(
        self, application: str | None, *, has_timestamps: bool = False, counts: str | None = None
    ) -> "OperatorTask":
        # Imported here: modules of the plan do not import the classes of tasks.
        from holdfast.spark.worker.task import OperatorTask

        state = self._call.state
        return (self._task or OperatorTask)(
            request={
                "root": state.root,
                "storage_options": state.storage_options,
                "local_dir": None if state.local_dir is None else str(state.local_dir),
                "application": application,
                "scratch": state.is_scratch,
                "partitions": state.partitions,
                "writer_secret": state.writer_secret,
                "in_streaming_plan": self._call.epoch is None and not state.is_scratch,
                "instance": self._instance,
                "settings": state.settings,
                "operator": self._request,
            },
            epoch=self._call.epoch,
            layout=self._layout,
            output=self._arrow_output,
            has_timestamps=has_timestamps,
            counts=counts,
        )


def _to_tasks(rows: "DataFrame", partitions: int) -> "DataFrame":
    """Returns the rows, shuffled so that task p has those whose `pid` is p."""
    if hasattr(type(rows), "repartitionById"):
        return rows.repartitionById(partitions, F.col("pid"))
    # PySpark 4.0 has only `repartition`, which hashes: hash a number whose hash gives p.
    numbers = F.array(*(F.lit(number) for number in numbers_by_partition(partitions)))
    return rows.repartition(partitions, F.element_at(numbers, F.col("pid") + 1))
