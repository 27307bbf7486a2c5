"""The interface of user aggregations, and the checks of their declarations."""

from typing import Any, Final, Protocol

import pyarrow as pa
from pyspark import cloudpickle

from holdfast.spark.plan.schema import arrow_type, parsed_ddl


class Aggregator(Protocol):
    """The interface of a user aggregation over Arrow batches: an object that can be pickled.

    Spark may run a task twice, so equal arguments must give equal results. An exception in a method
    fails the task. A result that is no batch or array fails it with a `TypeError`. A result with
    other columns than declared, with values that cannot be cast to the declared types, or with
    another number of rows than the arguments, fails it with a `ValueError`.
    """

    state_schema: str
    """The columns of a group's state, as SQL writes them: `"total double, rows bigint"`."""
    result_type: str
    """The type of the result, as SQL writes it: `"double"`."""

    def update(
        self, states: pa.RecordBatch, groups: pa.Array, batch: pa.RecordBatch
    ) -> pa.RecordBatch:
        """Returns the states with rows added.

        `states` has a row per group, which is all null for a new group. `batch` has up to 10,000
        rows with all columns of the frame, ordered by time, and about 16 MiB with the states.
        `groups` (int64) has, for each row of `batch`, the index of its group's row in `states`. The
        result has as many rows as `states`, in the same order.
        """
        ...

    def merge(self, states: pa.RecordBatch, others: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the states, each merged with the one in the same row of `others`.

        A state in `others` was computed from rows with later times than the state in `states`.
        """
        ...

    def result(self, states: pa.RecordBatch) -> pa.Array:
        """Returns the results, one per state."""
        ...


class DeclaredAggregator:
    """An aggregator with its declared types, checked, and pickled for the workers."""

    def __init__(self, name: str, aggregator: Any) -> None:
        """`name` is the result's column.

        Raises `TypeError` or `ValueError` for attributes that are missing or invalid.
        """
        if isinstance(aggregator, type):
            raise TypeError(
                f"aggs[{name!r}] is the class {aggregator.__name__}: give an object of it"
            )
        where = f"aggs[{name!r}]: {type(aggregator).__name__}"
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
        self.name: Final = name
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
        self.types: Final = f"{state.simpleString()} -> {self.result_type.simpleString()}"
        try:
            pickled = cloudpickle.dumps(aggregator)  # type: ignore[no-untyped-call]
            self.pickled: Final[bytes] = pickled
        except Exception as error:
            raise TypeError(f"{where} cannot be pickled ({error})") from error

    @property
    def for_worker(self) -> tuple[str, bytes, pa.Schema, pa.DataType]:
        """The arguments of `WorkerAggregator`."""
        return self.name, self.pickled, self.states, self.result
