"""The user's own stateful code: a processor."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from pyspark import cloudpickle

from holdfast.errors import UnsupportedOperationError
from holdfast.serde import TypedSerde
from holdfast.spark.materialized import Materialized, history_of, operator_name
from holdfast.spark.plan.one_side import METRICS, OneSide
from holdfast.spark.plan.operator import Operator, check_call
from holdfast.spark.plan.schema import parsed_ddl
from holdfast.spark.span import Span
from holdfast.spark.state import State
from holdfast.spark.worker.processor.output import NAME as OUTPUT
from holdfast.spark.worker.processor.task import ProcessTask
from holdfast.spark.worker.processor.timers import NAME as TIMERS
from holdfast.stores import StoreBuilder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from holdfast.spark.worker.processor.context import ProcessorContext


class Processor(Protocol):
    """Stateful code over the rows of a partition; a class of this form, with `on_timer` if it sets
    timers.

    What a method raises ends the task; so do a `TypeError` for what is no batch, and a `ValueError`
    for other columns or types than those of `schema`.
    """

    stores: Sequence[StoreBuilder]
    """What it keeps: builders of `holdfast.stores`."""

    def process(self, batch: pa.RecordBatch, ctx: "ProcessorContext") -> Iterable[pa.RecordBatch]:
        """Takes up to 10,000 rows in the order of their times, and yields batches with the columns
        of `schema`.
        """
        ...


def process(
    df: "DataFrame",
    processor: Processor,
    *,
    by: str | Sequence[str],
    state: State,
    schema: str,
    on: str | None = None,
    deterministic: bool = True,
    max_ahead: Span | None = None,
    materialized: Materialized | None = None,
    name: str | None = None,
) -> "DataFrame":
    """Rows through code of your own, which keeps its state in stores that are as exactly-once as
    any operator's.

    All rows with the same `by` reach the same partition. A partition's rows come in the order of
    event time (`on`), then of content, in batches of at most 10,000 rows and 16 MiB;
    `processor.process(batch, ctx)` yields batches with the columns of `schema` (SQL's way of
    writing it: "key string, hits bigint"). `ctx["hits"]` is a store, with the methods that it has
    in `holdfast`; `ctx.set_timer(key, at)` has `processor.on_timer(key, at, ctx)` called after the
    batch with which the greatest event time of the partition reached `at`.

    The processor is pickled when this is called, and each task has a copy of its own: what it keeps
    outside of its stores is gone after its micro-batch's partition. Given the same rows it must do
    the same, since Spark may run a task twice; of one that cannot (it asks a service, or the clock)
    say `deterministic=False`: then its output is kept with the state, and a second run of a task
    gives what the first one gave.

    `max_ahead` sets rows aside that are dated further than that past their micro-batch's own time
    (`docs/spark/README.md`); `materialized` says how the state is kept.

    Returns a frame with the columns of `schema`; a processor that gives a null in one that is NOT
    NULL ends its task. Raises, before any job runs, `ValueError` or `TypeError` that names the
    wrong column, store or option, `UnsupportedOperationError` for a frame, a column's type or an
    option that this state or operator cannot serve, `HoldfastError` for a static frame outside of a
    micro-batch.
    """
    if not isinstance(deterministic, bool):
        raise TypeError(f"deterministic={deterministic!r}: give True or False")
    rows = OneSide(df, by, on)
    builders = _stores(processor, timed=on is not None, deterministic=deterministic)
    output = parsed_ddl(schema, "schema", rows.side.fold)
    history_of(
        None, materialized, kept="a processor's stores say themselves how far back they reach"
    )
    epoch = check_call(state, df, df)
    layout = rows.rows.layout
    keys = pa.schema(
        [pa.field(key.name, layout.field(f"k{index}").type) for index, key in enumerate(rows.keys)]
    )
    operator = Operator(
        kind="process",
        name=operator_name(name, materialized, f"process_{rows.rows.default_name}"),
        state=state,
        epoch=epoch,
        layout=layout,
        output=output,
        timed=on is not None,
        max_ahead=max_ahead,
        materialized=materialized,
        request={
            **rows.request,
            "stores": [_described(builder) for builder in builders],
            "deterministic": deterministic,
        },
        task=partial(
            ProcessTask,
            processor=_pickled(processor),
            keys=keys,
            timed=on is not None,
            required=frozenset(field.name for field in output if not field.nullable),
        ),
    )
    frame = rows.rows.frame(state)
    operator.claim()
    return operator.over(frame, keys=len(rows.keys), metrics=METRICS)


def _stores(processor: Any, *, timed: bool, deterministic: bool) -> list[StoreBuilder]:
    if isinstance(processor, type):
        raise TypeError(f"processor is the class {processor.__name__}: give an object of it")
    kind = type(processor).__name__
    if not callable(getattr(processor, "process", None)):
        raise TypeError(f"processor is a {kind} without a method process(batch, ctx)")
    stores = getattr(processor, "stores", ())
    if not isinstance(stores, Iterable):
        raise TypeError(
            f"{kind}.stores is a {type(stores).__name__}; wanted: a sequence of what "
            "holdfast.stores builds"
        )
    builders: list[Any] = list(stores)
    for builder in builders:
        if not isinstance(builder, StoreBuilder):
            raise TypeError(
                f"{kind}.stores has a {type(builder).__name__}; wanted: what holdfast.stores builds"
            )
        if builder.name.startswith("holdfast."):
            raise ValueError(
                f"{kind}.stores: {builder.name!r}: names that begin with 'holdfast.' are the "
                "operator's own"
            )
        if not builder.transactional or not builder.persistent:
            raise UnsupportedOperationError(
                f"{kind}.stores: {builder.name!r} is not transactional or not persistent: a retry "
                "must find it unchanged, "
                "so a processor's stores are both; materialized=hfs.Materialized(persistent=False) "
                "has all of them in memory"
            )
    names = [builder.name for builder in builders]
    if len(set(names)) < len(names):
        raise ValueError(
            f"{kind}.stores has two of one name: "
            f"{sorted({name for name in names if names.count(name) > 1})}"
        )
    if timed:
        builders.append(StoreBuilder(name=TIMERS, kind="key_value"))
    if not deterministic:
        builders.append(StoreBuilder(name=OUTPUT, kind="key_value"))
    return builders


def _described(builder: StoreBuilder) -> dict[str, Any]:
    """A store as the state host reads it."""
    settings: dict[str, Any] = {
        "history_retention": builder.history_retention,
        "segment_interval": builder.segment_interval,
        "retention": builder.retention,
        "window_size": builder.window_size,
    }
    found = {name: value for name, value in settings.items() if value is not None}
    # Without one, or with one of the user's own, the store is bytes: the host has nothing to
    # compare.
    sides = {"key_serde": builder.key, "value_serde": builder.value}
    serdes = {
        side: serde.core.descriptor().hex()
        for side, serde in sides.items()
        if isinstance(serde, TypedSerde)
    }
    return {
        "name": builder.name,
        "kind": builder.kind,
        "retain_duplicates": builder.retain_duplicates,
        **found,
        **serdes,
    }


def _pickled(processor: Any) -> bytes:
    try:
        pickled: bytes = cloudpickle.dumps(processor)  # type: ignore[no-untyped-call]
    except Exception as error:
        raise TypeError(
            f"the processor {type(processor).__name__} cannot be pickled ({error}): make "
            "connections and the like in process"
        ) from error
    return pickled
