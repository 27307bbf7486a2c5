"""A process operator's task: the host orders the rows, and the processor gets them in batches."""

import pickle
from collections.abc import Generator, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from holdfast.serde._unsliced import unsliced_batch
from holdfast.spark.worker.cast import cast
from holdfast.spark.worker.task import OperatorTask

if TYPE_CHECKING:
    from holdfast import _core


class ProcessTask(OperatorTask):
    """The function under `mapInArrow` of a process operator."""

    def __init__(
        self,
        *,
        processor: bytes,
        keys: pa.Schema,
        timed: bool,
        required: frozenset[str],
        **common: Any,
    ) -> None:
        """`processor` is pickled, so that every session has its own copy.

        `required` are the columns of the result that have no nulls.
        """
        super().__init__(**common)
        self.processor: Final = processor
        self.keys: Final = keys
        self.timed: Final = timed
        self.required: Final = required
        self.deterministic: Final[bool] = common["request"]["operator"]["deterministic"]

    def _results(
        self, client: "_core.HostClient", request: dict[str, Any]
    ) -> Generator[pa.RecordBatch, None, str]:
        from holdfast.spark.worker.processor.output import StoredOutput

        calls = client.end_input()
        try:
            stored = None if self.deterministic else StoredOutput(calls)
            compute = partial(self._compute, calls, request)
            for batch in compute() if stored is None else stored.batches(compute, self._check):
                calls.digest(unsliced_batch(batch))
                yield batch
            return calls.done()
        finally:
            calls.close()

    def _compute(
        self, calls: "_core.HostCalls", request: dict[str, Any]
    ) -> Iterator[pa.RecordBatch]:
        """Runs the processor, and yields its batches."""
        from holdfast.spark.worker.processor.context import ProcessorContext

        processor = pickle.loads(self.processor)  # noqa: S301 - the query's driver pickled it
        on_timer = getattr(processor, "on_timer", None)
        context = ProcessorContext(
            calls,
            list(getattr(processor, "stores", ())),
            epoch=None if request.get("scratch") else request["epoch"],
            partition=request["partition"],
            keys=self.keys,
            timed=self.timed,
            fires=on_timer is not None,
        )
        is_last = False
        while not is_last:
            rows, time = calls.rows()
            is_last = not len(rows)
            # The last batch is empty; it has a time if there was a heartbeat.
            if is_last and time is None:
                break
            batch = pa.record_batch(rows)
            context.begin_batch(batch, time)
            if not is_last:
                yield from self._batches(processor.process(batch, context))
            for key, at in context.due():
                if on_timer is None:
                    raise TypeError(
                        f"processor {self.request['operator']['name']!r} has no method "
                        "on_timer(key, at, ctx), but a timer that was set earlier fires (key: "
                        f"{key!r}): add the method"
                    )
                yield from self._batches(on_timer(key, at, context))
        context.flush()

    def _batches(self, given: Iterable[Any] | None) -> Iterator[pa.RecordBatch]:
        if given is None:
            return
        # A returned batch is treated as a yielded one: iterating over it would yield its columns.
        for batches in given if isinstance(given, Iterable) and not _is_arrow(given) else [given]:
            yield from map(self._named, _batches(batches))

    def _check(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Checks a batch that an earlier session stored, possibly under another schema."""
        try:
            return self._named(batch)
        except ValueError as error:
            raise ValueError(
                f"{error}. This output was stored for the same micro-batch under an earlier "
                "schema: use that schema until the micro-batch is committed, or drop the output "
                "with `holdfast epoch drop`"
            ) from error

    def _named(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the batch with exactly the columns of the result, in their order."""
        name = self.request["operator"]["name"]
        if sorted(batch.schema.names) != sorted(self.output.names):
            raise ValueError(
                f"processor {name!r} yielded the columns {batch.schema.names}; its schema has "
                f"{self.output.names}"
            )
        columns: list[pa.Array] = []
        for field in self.output:
            column = batch.column(field.name)
            if field.name in self.required and column.null_count:
                raise ValueError(
                    f"processor {name!r} yielded a null in column {field.name!r}; its schema "
                    "says NOT NULL"
                )
            try:
                columns.append(cast(column, field.type, field.name))
            except ValueError as error:
                raise ValueError(
                    f"processor {name!r} yielded {column.type} in column {field.name!r}; its "
                    f"schema has {field.type}: {error}"
                ) from error
        return pa.RecordBatch.from_arrays(columns, schema=self.output)


def _is_arrow(given: Any) -> bool:
    return hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__")


def _batches(given: Any) -> Iterable[pa.RecordBatch]:
    if isinstance(given, pa.RecordBatch):
        return [given]
    cause: pa.ArrowException | None = None
    try:
        if hasattr(given, "__arrow_c_stream__"):
            reader: Iterable[pa.RecordBatch] = pa.RecordBatchReader.from_stream(given)
            return reader
        if hasattr(given, "__arrow_c_array__"):
            return [pa.record_batch(given)]
    except pa.ArrowException as error:  # a column has Arrow's interfaces but is no batch
        cause = error
    raise TypeError(
        f"the processor gave a {type(given).__name__}; wanted: record batches (yield them)"
    ) from cause
