"""A user's aggregation in Spark's Python worker."""

import pickle
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from holdfast.serde._unsliced import unsliced_batch
from holdfast.spark.worker.cast import cast
from holdfast.spark.worker.task import OperatorTask

if TYPE_CHECKING:
    from holdfast import _core


class WorkerAggregator:
    """One aggregator in the worker, with the states that the host's next request updates."""

    def __init__(self, name: str, pickled: bytes, states: pa.Schema, result: pa.DataType) -> None:
        self.name: Final = name
        self.schema: Final = states
        self._aggregator: Final = pickle.loads(pickled)  # noqa: S301 - the driver pickled it
        self._result: Final = result
        self._states = pa.RecordBatch.from_pylist([], schema=states)

    def answer(self, task: str, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Returns the answer to a request of the host; None if the request only sets the states."""
        if task == "states":
            self._states = self._as_declared(batch)
            return None
        if task == "result":
            return self._checked_result(
                self._aggregator.result(self._as_declared(batch)), batch.num_rows
            )
        if task == "merge":
            return self._checked_states(
                "merge", self._aggregator.merge(self._states, self._as_declared(batch))
            )
        rows = pa.RecordBatch.from_struct_array(batch.column("rows"))
        return self._checked_states(
            "update", self._aggregator.update(self._states, batch.column("group"), rows)
        )

    def _as_declared(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(
            [
                column.cast(field.type)
                for column, field in zip(batch.columns, self.schema, strict=True)
            ],
            schema=self.schema,
        )

    def _checked_states(self, method: str, given: Any) -> pa.RecordBatch:
        if not isinstance(given, pa.RecordBatch):
            raise TypeError(
                self._wrong(method, f"a {type(given).__name__}", "a RecordBatch of states")
            )
        if sorted(given.schema.names) != sorted(self.schema.names):
            wanted = f"those of its state, {self.schema.names}"
            raise ValueError(self._wrong(method, f"the columns {given.schema.names}", wanted))
        if given.num_rows != self._states.num_rows:
            wanted = f"{self._states.num_rows}, one for each state that it got"
            raise ValueError(self._wrong(method, f"{given.num_rows} states", wanted))
        columns = [
            self._cast(method, field.name, given.column(field.name), field.type)
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _checked_result(self, given: Any, rows: int) -> pa.RecordBatch:
        column = given.combine_chunks() if isinstance(given, pa.ChunkedArray) else given
        if not isinstance(column, pa.Array):
            raise TypeError(
                self._wrong("result", f"a {type(given).__name__}", f"an Array of {self._result}")
            )
        if len(column) != rows:
            raise ValueError(
                self._wrong("result", f"{len(column)} values", f"{rows}, one for each state")
            )
        return pa.RecordBatch.from_arrays(
            [self._cast("result", "the result", column, self._result)], names=[self.name]
        )

    def _cast(self, method: str, what: str, column: pa.Array, wanted: pa.DataType) -> pa.Array:
        try:
            return cast(column, wanted, what)
        except ValueError as error:
            raise ValueError(
                self._wrong(method, f"{column.type} for {what}", f"{wanted} ({error})")
            ) from error

    def _wrong(self, method: str, given: str, wanted: str) -> str:
        kind = type(self._aggregator).__name__
        return f"aggregator {kind} of column {self.name!r}: {method} gave {given}; wanted: {wanted}"


class AggregatorTask(OperatorTask):
    """The function under `mapInArrow` of an aggregation; calls user functions for the host."""

    def __init__(
        self,
        *,
        aggregators: dict[int, tuple[str, bytes, pa.Schema, pa.DataType]],
        **common: Any,
    ) -> None:
        """`aggregators`: the arguments of `WorkerAggregator`, by position in `aggs`."""
        super().__init__(**common)
        self.aggregators: Final = aggregators

    def _results(
        self,
        client: "_core.HostClient",
        request: dict[str, Any],  # noqa: ARG002
    ) -> Generator[pa.RecordBatch, None, str]:
        aggregators = {
            number: WorkerAggregator(*arguments) for number, arguments in self.aggregators.items()
        }
        states = pa.schema(
            [
                pa.field(aggregator.name, pa.struct(list(aggregator.schema)))
                for aggregator in aggregators.values()
            ]
        )
        calls = client.end_input()
        try:
            task, number, batch = calls.next_task(pa.RecordBatch.from_pylist([], schema=states))
            while task != "end":
                answer = None
                if number is not None:
                    answer = aggregators[number].answer(task, pa.record_batch(batch))
                    if answer is not None:
                        answer = unsliced_batch(answer)
                else:
                    rows = self._conform(pa.record_batch(batch))
                    calls.digest(rows)
                    yield rows
                task, number, batch = calls.next_task(answer)
            return calls.done()
        finally:
            calls.close()
