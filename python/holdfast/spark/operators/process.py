"""The operator that runs a processor: stateful user code."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from pyspark import cloudpickle

from holdfast._time import Duration
from holdfast.errors import UnsupportedOperationError
from holdfast.serde import TypedSerde
from holdfast.spark.materialized import Materialized
from holdfast.spark.plan.call import refuse_history
from holdfast.spark.plan.input import OneInput
from holdfast.spark.plan.operator import run_operator
from holdfast.spark.plan.output_columns import frame_columns
from holdfast.spark.plan.schema import parsed_ddl
from holdfast.spark.state import State
from holdfast.stores import StoreBuilder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from holdfast.spark.worker.processor.context import ProcessorContext


class Processor(Protocol):
    """The interface of a class with stateful code over the rows of a partition.

    A processor that sets timers also has a method `on_timer(key, at, ctx)`. An exception in a
    method fails the task. A result that is no batch fails it with a `TypeError`. A batch with other
    columns than `schema`, or with values that cannot be cast to its types, fails it with a
    `ValueError`.
    """

    stores: Sequence[StoreBuilder]
    """The builders of its stores, from `holdfast.stores`."""

    def process(self, batch: pa.RecordBatch, ctx: "ProcessorContext") -> Iterable[pa.RecordBatch]:
        """Takes rows ordered by time, yields batches with the columns of `schema`.

        `batch` has at most 10,000 rows and 16 MiB; a larger row is a batch of its own.
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
    max_ahead: Duration | None = None,
    materialized: Materialized | None = None,
    name: str | None = None,
) -> "DataFrame":
    """Runs stateful user code over the rows, with exactly-once stores.

    All rows with the same `by` go to the same partition. A partition's rows are ordered by event
    time (`on`), then by content, in batches of at most 10,000 rows and 16 MiB.
    `processor.process(batch, ctx)` yields batches with the columns of `schema` (written as in SQL:
    "key string, hits bigint"). `ctx["hits"]` is the store of that name, with the same methods as a
    store of a database. `ctx.set_timer(key, at)` requests a call of `processor.on_timer(key, at,
    ctx)` after the batch in which the greatest event time of the partition reaches `at`.

    This call pickles the processor, and each task gets a copy. Attributes that a copy sets are lost
    when its task ends. Spark may run a task twice, so the processor must do the same for the same
    rows. If it cannot, because it calls a service or reads the clock, give `deterministic=False`.
    Its output is then stored with the state, and a second run of a task returns the output of the
    first.

    Rows dated more than `max_ahead` after the time of their micro-batch are written to a file and
    not processed (`docs/spark/README.md`). `materialized` has the options of the operator's stores.

    Returns a frame with the columns of `schema`. A null in a column that is NOT NULL fails the
    task.

    Raises, before any task of the operator runs, `ValueError` or `TypeError` naming the wrong
    column, store or option, `UnsupportedOperationError` for a frame, a column's type or an option
    that this state or operator does not support, `HoldfastError` if Spark's Python workers cannot
    import Holdfast, and with `State(root)` for a static frame outside of a micro-batch.
    """
    # Imported here: modules of operators do not import the classes of tasks.
    from holdfast.spark.worker.processor.task import ProcessTask

    if not isinstance(deterministic, bool):
        raise TypeError(f"deterministic={deterministic!r}: give True or False")
    rows = OneInput.of(df, by, on)
    builders = _builders(processor, timed=on is not None, deterministic=deterministic)
    output = parsed_ddl(schema, "schema", rows.left.fold)
    refuse_history(materialized, "each of a processor's stores has its own history_retention")
    layout = rows.layout
    keys = pa.schema(
        [
            pa.field(key.name, layout.field(f"k{index}").type)
            for index, key in enumerate(rows.left.keys)
        ]
    )
    return run_operator(
        "process",
        rows,
        state=state,
        name=name,
        materialized=materialized,
        max_ahead=max_ahead,
        output=output,
        settings={
            "output": frame_columns(rows.left).request,
            "stores": [_store_request(builder) for builder in builders],
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


def _builders(processor: Any, *, timed: bool, deterministic: bool) -> list[StoreBuilder]:
    """Checks the processor's stores, and returns them with those that the operator adds."""
    from holdfast.spark.worker.processor.output import OUTPUT_STORE
    from holdfast.spark.worker.processor.timers import TIMER_STORE

    if isinstance(processor, type):
        raise TypeError(f"processor is the class {processor.__name__}: give an object of it")
    kind = type(processor).__name__
    if not callable(getattr(processor, "process", None)):
        raise TypeError(f"processor is a {kind} without a method process(batch, ctx)")
    stores = getattr(processor, "stores", ())
    if not isinstance(stores, Iterable):
        raise TypeError(
            f"{kind}.stores is a {type(stores).__name__}; wanted: a sequence of store builders "
            "from holdfast.stores"
        )
    builders: list[Any] = list(stores)
    for builder in builders:
        if not isinstance(builder, StoreBuilder):
            raise TypeError(
                f"{kind}.stores has a {type(builder).__name__}; wanted: a store builder from "
                "holdfast.stores"
            )
        if builder.name.startswith("holdfast."):
            raise ValueError(
                f"{kind}.stores: {builder.name!r}: names that begin with 'holdfast.' are "
                "reserved for the operator"
            )
        if not builder.transactional or not builder.persistent:
            raise UnsupportedOperationError(
                f"{kind}.stores: {builder.name!r} is not transactional or not persistent: a retry "
                "must find it unchanged, so a processor's stores are both; "
                "materialized=hfs.Materialized(persistent=False) has all of them in memory"
            )
    names = [builder.name for builder in builders]
    if len(set(names)) < len(names):
        raise ValueError(
            f"{kind}.stores has two of one name: "
            f"{sorted({name for name in names if names.count(name) > 1})}"
        )
    if timed:
        builders.append(StoreBuilder(name=TIMER_STORE, kind="key_value"))
    if not deterministic:
        builders.append(StoreBuilder(name=OUTPUT_STORE, kind="key_value"))
    return builders


def _store_request(builder: StoreBuilder) -> dict[str, Any]:
    """Returns the description of a store that the state host reads."""
    settings: dict[str, Any] = {
        "history_retention": builder.history_retention,
        "segment_interval": builder.segment_interval,
        "retention": builder.retention,
        "window_size": builder.window_size,
    }
    found = {name: value for name, value in settings.items() if value is not None}
    # Without a serde, or with a user's serde, the store's entries are bytes, which the host cannot
    # check.
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
            f"the processor {type(processor).__name__} cannot be pickled ({error}): open "
            "connections and the like in its method process"
        ) from error
    return pickled
