"""An operator's task: sends a partition's rows to the state host and yields its results.

Every worker process that Spark forks imports this module, so it imports little (never pandas) and
starts nothing.
"""

import json
from collections.abc import Callable, Generator, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from holdfast._progress import COUNTED
from holdfast.errors import HoldfastError
from holdfast.spark.epoch import Epoch
from holdfast.spark.worker.filler import filler
from holdfast.spark.worker.garbage import leave_out_modules
from holdfast.spark.worker.input_end import check_input_ended
from holdfast.spark.worker.task_epoch import task_epoch
from holdfast.spark.worker.task_settings import check_settings

if TYPE_CHECKING:
    from pyspark import TaskContext

    from holdfast._core import HostClient


class OperatorTask:
    """The function under `mapInArrow`.

    It is pickled by name, so it runs with the package of the executor.
    """

    def __init__(
        self,
        *,
        request: dict[str, Any],
        epoch: Epoch | None,
        layout: pa.Schema,
        output: pa.Schema,
        has_timestamps: bool = False,
        counts: str | None = None,
    ) -> None:
        """`has_timestamps`: a column after those of the layout has the batch timestamp.

        `counts`: the name of a column after those of the output. The column is null except in one
        more row at the end, which has the counts of `COUNTED`, in their order.
        """
        self.request: Final = request
        self.epoch: Final = epoch
        self.layout: Final = layout
        self.output: Final = output
        self.has_timestamps: Final = has_timestamps
        self.counts: Final = counts
        self._columns: Final = list(range(len(layout)))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Stages one partition of one epoch, and yields its result."""
        # Imported here: the driver pickles this class and needs no connection to a state host.
        from pyspark import TaskContext

        from holdfast.spark.worker.state_host import connect

        context = TaskContext.get()
        if context is None:
            raise HoldfastError("an operator's task runs in a Spark task only")
        leave_out_modules()
        request = self._session(context)
        client = connect()
        try:
            if self.has_timestamps:
                request, batches = _planned(request, batches)
            client.open_session(json.dumps(request))
            # An empty batch goes first, even if no rows follow: the host then restores the state
            # while Spark computes the rows. In a streaming plan the first rows are already here.
            client.push(_empty(self.layout))
            for batch in batches:
                rows = batch.select(self._columns) if self.has_timestamps else batch
                if not request["scratch"]:
                    self._check_partition(rows, request["partition"])
                client.push(_conform(rows, self.layout))
            check_input_ended()
            report = yield from map_results(self._with_counts, self._results(client, request))
            if self.counts is not None:
                yield self._with_counts(filler(self.output), json.loads(report))
        finally:
            client.close()

    def _results(
        self,
        client: "HostClient",
        request: dict[str, Any],  # noqa: ARG002
    ) -> Generator[pa.RecordBatch, None, str]:
        """Yields the operator's result after the end of its input.

        The result ends only after the host has acknowledged that the epoch is staged. Returns the
        host's report about the stage (JSON).
        """
        results = client.finish()
        for result in results:
            yield self._conform(pa.record_batch(result))
        return results.staged() or "{}"

    def _with_counts(
        self, batch: pa.RecordBatch, report: dict[str, int] | None = None
    ) -> pa.RecordBatch:
        """Returns the batch with the column of the counts, null without a report."""
        if self.counts is None:
            return batch
        kind = pa.list_(pa.int64())
        # An array is the smallest column of nulls: four bytes a row.
        column = (
            pa.nulls(batch.num_rows, kind)
            if report is None
            else pa.array([[report[name] for name in COUNTED]], kind)
        )
        schema = batch.schema.append(pa.field(self.counts, kind))
        return pa.RecordBatch.from_arrays([*batch.columns, column], schema=schema)

    def _conform(self, result: pa.RecordBatch) -> pa.RecordBatch:
        return _conform(result, self.output)

    def _session(self, context: "TaskContext") -> dict[str, Any]:
        partition, partitions = context.partitionId(), self.request["partitions"]
        if self.request["scratch"]:
            # The state is not stored, so any task can have any rows.
            partition %= partitions
        elif partition >= partitions:
            raise HoldfastError(
                self._moved(f"it has {partitions} partitions and runs in task {partition}")
            )
        epoch = None
        if not self.request["scratch"]:
            check_settings(context.getLocalProperty, self.request["operator"]["name"])
            epoch = task_epoch(context.getLocalProperty, self.epoch, self.request)
        return {
            **self.request,
            "query_id": None if epoch is None else epoch.query_id,
            "run_id": None if epoch is None else epoch.run_id,
            "epoch": None if epoch is None else epoch.number,
            "planned_at": None if epoch is None else epoch.planned_at,
            "partition": partition,
            "attempt": context.taskAttemptId(),
        }

    def _check_partition(self, batch: pa.RecordBatch, partition: int) -> None:
        pids = batch.column(0).unique()
        if len(pids) > 1 or (len(pids) == 1 and pids[0].as_py() != partition):
            rows = ", ".join(str(pid) for pid in sorted(pids.to_pylist()))
            raise HoldfastError(self._moved(f"task {partition} got rows of partition {rows}"))

    def _moved(self, what: str) -> str:
        return (
            f"operator {self.request['operator']['name']!r}: {what}. A union or coalesce above the "
            "operator moves its tasks: put repartition() between them, or write the two results in "
            "two queries"
        )


def map_results(
    function: Callable[[pa.RecordBatch], pa.RecordBatch],
    results: Generator[pa.RecordBatch, None, str],
) -> Generator[pa.RecordBatch, None, str]:
    """Yields the function's result of each batch, and returns what the generator returns."""
    while True:
        try:
            batch = next(results)
        except StopIteration as end:
            report: str = end.value
            return report
        yield function(batch)


def _planned(
    request: dict[str, Any], batches: Iterator[pa.RecordBatch]
) -> tuple[dict[str, Any], Iterator[pa.RecordBatch]]:
    """Returns the request with the batch timestamp of the first row, and all rows again.

    Raises `HoldfastError` if the rows are of another micro-batch than the request.
    """
    batches = iter(batches)
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return request, batches
    planned_at = first.column(first.num_columns - 1)[0].as_py()
    if request["planned_at"] not in (None, planned_at):
        raise HoldfastError(
            f"operator {request['operator']['name']!r}: this job belongs to epoch "
            f"{request['epoch']}, which Spark planned at {request['planned_at']} ms, and its rows "
            f"were planned at {planned_at} ms: evaluate a frame only in its own micro-batch"
        )
    return {**request, "planned_at": planned_at}, chain([first], batches)


def _empty(layout: pa.Schema) -> pa.RecordBatch:
    # Not pa.array([]): it imports pandas if that is installed, which would delay a new worker's
    # first rows by a second.
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in layout], schema=layout)


def _conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Returns the batch with exactly this schema.

    Equal types may be spelled differently: time zones, large types, nested types.
    """
    if batch.schema.equals(schema):
        return batch
    if batch.num_columns != len(schema):
        raise HoldfastError(
            f"got {batch.num_columns} columns instead of {len(schema)}: {batch.schema.names}"
        )
    columns = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
