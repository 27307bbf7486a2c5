"""From an operator to a plan: rows, a shuffle into exactly N tasks, one task function."""

import uuid
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql import types as sql

from holdfast.errors import HoldfastError, UnsupportedOperationError
from holdfast.spark.epoch import Epoch, current_epoch
from holdfast.spark.materialized import Materialized
from holdfast.spark.plan.input import OBSERVED
from holdfast.spark.plan.murmur3 import members
from holdfast.spark.plan.schema import arrow_type, instant, is_on, nullable
from holdfast.spark.span import Span, micros
from holdfast.spark.state import State
from holdfast.spark.worker.task import OperatorTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ADAPTIVE: Final = "spark.sql.adaptive.enabled"


def check_call(state: State, left: "DataFrame", right: "DataFrame | None" = None) -> Epoch | None:
    """Check that these frames can use this state here; returns the epoch where `foreachBatch` fixes
    it.

    Raises `TypeError` for what is no state, `UnsupportedOperationError` for a stream with
    `State.scratch()`, `ValueError` while adaptive execution is on, `HoldfastError` for a static
    frame outside of a micro-batch.
    """
    if not isinstance(state, State):
        raise TypeError(
            f"state is a {type(state).__name__}: give hfs.State(root) or hfs.State.scratch()"
        )
    streaming = left.isStreaming or (right is not None and right.isStreaming)
    if state.is_scratch:
        if streaming:
            raise UnsupportedOperationError(
                "State.scratch() keeps nothing from one micro-batch to the next: give State(root) "
                "for streaming frames"
            )
        return None
    if is_on(left, _ADAPTIVE, default="true"):
        raise ValueError(
            f"{_ADAPTIVE} is on, and could split or drop an operator's tasks: "
            f'set spark.conf.set("{_ADAPTIVE}", "false") before the operator is called'
        )
    if streaming:
        return None
    epoch = current_epoch(left.sparkSession, state)
    if epoch is None:
        raise HoldfastError(
            f"{state!r} needs an epoch, and a static frame outside a micro-batch has none: read "
            "with spark.readStream, "
            "call the operator inside foreachBatch(hfs.foreach_batch(fn)), or give State.scratch()"
        )
    return epoch


class Operator:
    """One call of an operator: its place in the state, the form of its rows and of its result."""

    def __init__(
        self,
        *,
        kind: str,
        name: str,
        state: State,
        epoch: Epoch | None,
        layout: pa.Schema,
        output: sql.StructType,
        request: Mapping[str, Any],
        timed: bool = True,
        max_ahead: Span | None = None,
        materialized: Materialized | None = None,
        without_nulls: Collection[str] = (),
        task: Callable[..., OperatorTask] = OperatorTask,
    ) -> None:
        """`timed`: the rows have times, without which there is no `max_ahead`.

        `without_nulls`: results that are arrays which the operator makes, with no null in them, as
        Spark's own are.
        """
        if max_ahead is not None and not timed:
            raise ValueError("max_ahead needs a time: name the rows' timestamp column with on=...")
        self.max_ahead: Final = None if max_ahead is None else micros(max_ahead, "max_ahead")
        self.name: Final = name
        self.state: Final = state
        self.epoch: Final = epoch
        self.layout: Final = layout
        fields = [
            sql.StructField(field.name, nullable(field.dataType), field.nullable, field.metadata)
            for field in output
        ]
        for field in fields:
            if field.name in without_nulls and isinstance(field.dataType, sql.ArrayType):
                field.dataType = sql.ArrayType(field.dataType.elementType, containsNull=False)
        self.output: Final = sql.StructType(fields)
        results = [
            pa.field(field.name, arrow_type(field.dataType, field.name)) for field in self.output
        ]
        self._results: Final = pa.schema(results)
        self._instance: Final = str(uuid.uuid4())
        self.request: Final = {
            "name": name,
            "kind": kind,
            "max_ahead": self.max_ahead,
            "persistent": materialized is None or materialized.persistent,
            **request,
        }
        self.task: Final = task

    def claim(self) -> None:
        """Take the operator's name; the last check, so that a refused call leaves none taken."""
        self.state.claim([self.name], self.epoch)

    def over(self, rows: "DataFrame", *, keys: int, metrics: Mapping[str, str]) -> "DataFrame":
        """The operator's result over rows in its layout (all columns but `pid`; keys are `k0`,
        `k1`, ...).
        """
        partitions = self.state.partitions
        pid = F.pmod(F.xxhash64(*(f"k{index}" for index in range(keys))), F.lit(partitions)).cast(
            "int"
        )
        # Rows without a side are heartbeats, which go to all partitions.
        if rows.schema["side"].nullable:
            everywhere = F.sequence(F.lit(0), F.lit(partitions - 1))
            pid = F.explode(F.when(F.isnull("side"), everywhere).otherwise(F.array(pid)))
        # Each step has a reason, told in docs/design/spark-plan.md: observe() is a node that no
        # optimiser rule sees through, so a batch without rows still has its N tasks;
        # repartitionById gives task p the rows of partition p.
        observed = [F.expr(expression).alias(metric) for metric, expression in metrics.items()]
        application = rows.sparkSession.conf.get("spark.app.id", None)
        if self.max_ahead is not None and rows.isStreaming:
            # In a streaming plan the current time is the micro-batch's, which the host goes by,
            # too.
            latest = F.expr(
                f"current_timestamp() + make_dt_interval(0, 0, 0, {self.max_ahead} / 1000000BD)"
            )
            ahead = F.col("side").isNotNull() & (
                F.col("t") > instant(latest, rows.schema["t"].dataType)
            )
            observed.append(F.count_if(ahead).alias("ahead"))
        # A query has one operator of a name; operators whose state is thrown away need none.
        observation = f"{OBSERVED}{self._instance if self.state.is_scratch else self.name}"
        numbered = rows.select(pid.alias("pid"), *rows.columns).observe(observation, *observed)
        return _to_tasks(numbered, partitions).mapInArrow(self._task(application), self.output)

    def _task(self, application: str | None) -> OperatorTask:
        state = self.state
        return self.task(
            request={
                "root": state.root,
                "storage_options": state.storage_options,
                "local_dir": None if state.local_dir is None else str(state.local_dir),
                "application": application,
                "scratch": state.is_scratch,
                "partitions": state.partitions,
                "instance": self._instance,
                "settings": state.settings,
                "operator": self.request,
            },
            epoch=self.epoch,
            layout=self.layout,
            output=self._results,
        )


def _to_tasks(rows: "DataFrame", partitions: int) -> "DataFrame":
    """The rows, shuffled so that task p has those whose `pid` is p."""
    if hasattr(type(rows), "repartitionById"):
        return rows.repartitionById(partitions, F.col("pid"))
    # PySpark 4.0 has only `repartition`, which hashes: so by a number that it sends to p.
    numbers = F.array(*(F.lit(number) for number in members(partitions)))
    return rows.repartition(partitions, F.element_at(numbers, F.col("pid") + 1))
