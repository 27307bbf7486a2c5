"""A process operator in Spark's Python worker: rows go to the state host, come back in order, meet
the processor.
"""

import pickle
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

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
        """`processor` is pickled: every session has one of its own; `required` columns of the
        result have no nulls.
        """
        super().__init__(**common)
        self.processor: Final = processor
        self.keys: Final = keys
        self.timed: Final = timed
        self.required: Final = required
        self.deterministic: Final[bool] = common["request"]["operator"]["deterministic"]

    def _results(
        self, client: "_core.HostClient", request: dict[str, Any]
    ) -> Iterator[pa.RecordBatch]:
        from holdfast.spark.worker.processor.output import Output

        calls = client.end_input()
        try:
            output = None if self.deterministic else Output(calls)
            given = partial(self._given, calls, request)
            for batch in given() if output is None else output.kept(given, self._again):
                calls.digest(batch)
                yield batch
            calls.done()
        finally:
            calls.close()

    def _given(self, calls: "_core.HostCalls", request: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        """What the processor gives."""
        from holdfast.spark.worker.processor.context import ProcessorContext

        processor = pickle.loads(self.processor)  # noqa: S301 - our own driver pickled it
        on_timer = getattr(processor, "on_timer", None)
        context = ProcessorContext(
            calls,
            list(getattr(processor, "stores", ())),
            epoch=request["epoch"] or 0,
            partition=request["partition"],
            keys=self.keys,
            timed=self.timed,
            fires=on_timer is not None,
        )
        is_last = False
        while not is_last:
            rows, time = calls.rows()
            is_last = not len(rows)
            # At the end there are no rows, but a heartbeat may have come.
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
                        "on_timer(key, at, ctx), and a "
                        f"timer of {key!r} fires that was set before: give it one"
                    )
                yield from self._batches(on_timer(key, at, context))
        context.flush()

    def _batches(self, given: Iterable[Any] | None) -> Iterator[pa.RecordBatch]:
        if given is None:
            return
        # One that is returned is meant as one that is yielded; iterated, it would be its columns.
        for batches in given if isinstance(given, Iterable) and not _is_arrow(given) else [given]:
            yield from map(self._named, _batches(batches))

    def _again(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch that an earlier session gave, maybe under another schema."""
        try:
            return self._named(batch)
        except ValueError as error:
            raise ValueError(
                f"{error}. This output was kept for the same micro-batch under an earlier schema: "
                "go back to that until the "
                "micro-batch is committed, or have it made anew with `holdfast epoch drop`"
            ) from error

    def _named(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with exactly the columns of the result, in their order."""
        name = self.request["operator"]["name"]
        if sorted(batch.schema.names) != sorted(self.output.names):
            raise ValueError(
                f"processor {name!r} gave the columns {batch.schema.names}; its schema has "
                f"{self.output.names}"
            )
        columns: list[pa.Array] = []
        for field in self.output:
            column = batch.column(field.name)
            if field.name in self.required and column.null_count:
                raise ValueError(
                    f"processor {name!r} gave a null in column {field.name!r}; its schema says NOT "
                    "NULL"
                )
            try:
                columns.append(cast(column, field.type, field.name))
            except ValueError as error:
                raise ValueError(
                    f"processor {name!r} gave {column.type} in column {field.name!r}; its schema "
                    f"has {field.type}: {error}"
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
    except pa.ArrowException as error:  # a column has Arrow's interfaces, too
        cause = error
    raise TypeError(
        f"the processor gave a {type(given).__name__}; wanted: record batches (yield them)"
    ) from cause
