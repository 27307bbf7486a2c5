"""A task in Spark's Python worker, without Spark."""

from __future__ import annotations

import subprocess
import sys

# The worker is a process of its own, since this process has imported everything.
_WORKER = """
import io
import sys
import pyarrow as pa
import pyspark
from holdfast.spark.worker import state_host
from holdfast.spark.worker.task import OperatorTask


class Output(list):
    def staged(self):
        return "{}"

class Context:
    partitionId = taskAttemptId = staticmethod(lambda: 1)


class Client:
    pushed = []

    def open_session(self, request):
        pass

    def push(self, batch):
        self.pushed.append(batch)

    def finish(self):
        return Output(self.pushed)

    def close(self):
        pass


pyspark.TaskContext.get = Context
state_host.connect = Client
layout = pa.schema(
    [("pid", pa.int32()), ("t", pa.timestamp("us", "UTC")), ("names", pa.list_(pa.string()))]
)
rows = pa.RecordBatch.from_arrays([pa.nulls(3, field.type) for field in layout], schema=layout)
request = {"scratch": True, "partitions": 2}
task = OperatorTask(request=request, epoch=None, layout=layout, output=layout)


def main(infile):
    return list(task(iter([rows])))


result = main(io.BufferedReader(io.BytesIO(b"the end mark")))
assert [batch.num_rows for batch in result] == [0, 3], "the columns go ahead of the rows"
assert "pandas" not in sys.modules, "a worker needs no pandas, which takes a second to import"
"""


def test_a_worker_sends_an_empty_batch_first_and_imports_no_pandas():
    done = subprocess.run(
        [sys.executable, "-c", _WORKER], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
