"""Stateful operators for PySpark: functions of DataFrames that return a DataFrame.

They work in a streaming plan and inside `foreachBatch`. If an error says that a union or a
`coalesce` moves an operator's tasks, put a `repartition` between that and the operator. This
example joins each order with the exchange rate that was in force when the order was placed, even if
the order is late, and even after a crash (`grace=` also waits for late rates):

```python
import holdfast.spark as hfs

spark.conf.set("spark.sql.adaptive.enabled", "false")  # it may split or drop an operator's tasks
state = hfs.State("/var/lib/enrich", partitions=4)
enriched = hfs.join_asof(orders, rates, by="currency", left_on="ordered_at", right_on="valid_from",
                         history_retention="30 days", state=state)
writer = enriched.writeStream.option("checkpointLocation", state.checkpoint_location)
writer.start("/var/lib/enriched")
```

The docstring of a function lists what its call raises. An error in a task ends the query: Spark's
`StreamingQueryException` contains its class and message. `docs/spark/operating.md` says what to do
about each.
"""

from holdfast._requirements import check_pyspark

check_pyspark()  # before the imports that need it

from holdfast._progress import EpochProgress, OperatorProgress
from holdfast._time import Duration
from holdfast.spark.foreach_batch import foreach_batch
from holdfast.spark.heartbeat import heartbeat
from holdfast.spark.materialized import Materialized
from holdfast.spark.operators.aggregate import aggregate
from holdfast.spark.operators.aggregator import Aggregator
from holdfast.spark.operators.drop_duplicates import drop_duplicates
from holdfast.spark.operators.join_asof import join_asof
from holdfast.spark.operators.join_table import join_table
from holdfast.spark.operators.join_window import join_window
from holdfast.spark.operators.lookup import lookup
from holdfast.spark.operators.materialize import materialize
from holdfast.spark.operators.process import Processor, process
from holdfast.spark.state import State
from holdfast.spark.window import (
    SessionWindow,
    SlidingWindow,
    Window,
    session_window,
    sliding_window,
    window,
)
from holdfast.spark.worker.processor.context import ProcessorContext

__all__ = [
    "Aggregator",
    "Duration",
    "EpochProgress",
    "Materialized",
    "OperatorProgress",
    "Processor",
    "ProcessorContext",
    "SessionWindow",
    "SlidingWindow",
    "State",
    "Window",
    "aggregate",
    "drop_duplicates",
    "foreach_batch",
    "heartbeat",
    "join_asof",
    "join_table",
    "join_window",
    "lookup",
    "materialize",
    "process",
    "session_window",
    "sliding_window",
    "window",
]
