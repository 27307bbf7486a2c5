"""The user's own aggregation: what it must have, and how it runs in Spark's Python worker."""

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa
from pyspark import cloudpickle

from holdfast.spark.plan.schema import arrow_type, parsed_ddl
from holdfast.spark.worker.cast import cast
from holdfast.spark.worker.task import OperatorTask

if TYPE_CHECKING:
    from holdfast import _core


class Aggregator(Protocol):
    """An aggregation of your own, in Arrow batches; a class of this form, which can be pickled.

    Given the same it must give the same, since Spark may run a task twice. What a method raises
    ends the task; so do a `TypeError` for what is no batch or array, and a `ValueError` for other
    columns, types or numbers of rows than declared.
    """

    state_schema: str
    """What is kept of a group: columns in SQL's way of writing them, `"total double, rows bigint"`.
    """
    result_type: str
    """The type of the result, likewise: `"double"`."""

    def update(
        self, states: pa.RecordBatch, groups: pa.Array, batch: pa.RecordBatch
    ) -> pa.RecordBatch:
        """The states with some rows added.

        `states` has a row a group, all of it null for a new one; `batch` has up to 10,000 rows with
        all columns of the frame, in the order of time; `groups` (int64) has for each of them the
        row of its group in `states`. Returns as many states, in their order.
        """
        ...

    def merge(self, states: pa.RecordBatch, others: pa.RecordBatch) -> pa.RecordBatch:
        """The states, each joined with the one in the same row of `others`, whose rows of the frame
        are the later ones.
        """
        ...

    def result(self, states: pa.RecordBatch) -> pa.Array:
        """The results, one a state."""
        ...


class Declared:
    """An aggregator with what it says of itself, checked."""

    def __init__(self, name: str, aggregator: Any) -> None:
        """`name` is the result's column. Raises `TypeError` or `ValueError` for what is missing or
        cannot be.
        """
        if isinstance(aggregator, type):
            raise TypeError(
                f"aggs[{name!r}] is the class {aggregator.__name__}: give an object of it"
            )
        self.aggregator: Final = aggregator
        kind = type(aggregator).__name__
        where = f"aggs[{name!r}]: {kind}"
        for method in ("update", "merge", "result"):
            if not callable(getattr(aggregator, method, None)):
                raise TypeError(
                    f"{where} has no method {method}; an Aggregator has update, merge and result"
                )
        ddl = getattr(aggregator, "state_schema", None)
        state = parsed_ddl(ddl, f"{where}.state_schema")  # type: ignore[arg-type]
        result = getattr(aggregator, "result_type", None)
        if not isinstance(result, str):
            raise TypeError(
                f'{where}.result_type is a {type(result).__name__}: write it as SQL does, "double"'
            )
        self.result_type: Final = (
            parsed_ddl(f"result {result}", f"{where}.result_type").fields[0].dataType
        )
        self.states: Final = pa.schema(
            [
                pa.field(
                    field.name, arrow_type(field.dataType, f"{where}.state_schema: {field.name}")
                )
                for field in state
            ]
        )
        self.result: Final = arrow_type(self.result_type, f"{where}.result_type")
        self.words: Final = f"{state.simpleString()} -> {self.result_type.simpleString()}"
        try:
            pickled = cloudpickle.dumps(aggregator)  # type: ignore[no-untyped-call]
            self.pickled: Final[bytes] = pickled
        except Exception as error:
            raise TypeError(f"{where} cannot be pickled ({error})") from error


class Own:
    """One aggregator in the worker, and the states that its next task is about."""

    def __init__(self, name: str, pickled: bytes, states: pa.Schema, result: pa.DataType) -> None:
        self.name: Final = name
        self.schema: Final = states
        self._aggregator: Final = pickle.loads(pickled)  # noqa: S301 - our own driver pickled it
        self._result: Final = result
        self._states = pa.RecordBatch.from_pylist([], schema=states)

    def do(self, task: str, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """What a task comes to."""
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
            wanted = f"{self._states.num_rows}, one for each that it got"
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
            raise ValueError(self._wrong("result", f"{len(column)} values", f"{rows}, one a state"))
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
    """The function under `mapInArrow` of an aggregation with functions of the user's own: it does
    what the host asks.
    """

    def __init__(
        self, *, owns: dict[int, tuple[str, bytes, pa.Schema, pa.DataType]], **common: Any
    ) -> None:
        """`owns`: by the number of the result's column, the arguments of `Own`."""
        super().__init__(**common)
        self.owns: Final = owns

    def _results(
        self,
        client: "_core.HostClient",
        request: dict[str, Any],  # noqa: ARG002
    ) -> Iterator[pa.RecordBatch]:
        owns = {number: Own(*arguments) for number, arguments in self.owns.items()}
        kept = pa.schema([pa.field(own.name, pa.struct(list(own.schema))) for own in owns.values()])
        calls = client.end_input()
        try:
            task, number, batch = calls.next_task(pa.RecordBatch.from_pylist([], schema=kept))
            while task != "end":
                given = None
                if number is not None:
                    given = owns[number].do(task, pa.record_batch(batch))
                else:
                    rows = self._conform(pa.record_batch(batch))
                    calls.digest(rows)
                    yield rows
                task, number, batch = calls.next_task(given)
            calls.done()
        finally:
            calls.close()
