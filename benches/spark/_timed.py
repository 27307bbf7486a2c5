"""Task functions that record when they are called, when rows come in and when rows go out."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.spark.worker.task import OperatorTask

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

PLACE = "HOLDFAST_BENCH_TIMES"


class TimedTask(OperatorTask):
    """An operator's task, timed."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The operator's rows."""
        return _timed(super().__call__, batches)


def identity(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows as they came, timed: what the same plan takes without an operator."""
    return _timed(lambda same: same, batches)


def _timed(function: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    times: dict[str, float] = {}

    def coming() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            times.setdefault("first_in", time.time())
            yield batch

    times["called"] = time.time()
    for result in function(coming()):
        if result.num_rows and "first_out" not in times:
            times["first_out"] = time.time()
            _write(times)
        yield result


def _write(times: dict[str, float]) -> None:
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is not None:
        task = context.taskAttemptId()
        Path(os.environ[PLACE], f"{task}.json").write_text(json.dumps({"task": task, **times}))
