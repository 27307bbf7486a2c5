"""Figures of tasks and stores: what `Task.metrics` returns, and the same for Prometheus.

>>> import holdfast as hf
>>> with hf.open_task(None, [hf.stores.key_value("totals")]) as task:
...     task["totals"].put(b"customer 7", b"120.50")
...     task["totals"].put(b"customer 9", b"17.00")
...     task.commit()
...     task.metrics()["commit-total"], task.metrics()["stores"]["totals"]["put-total"]
(1, 2)

`prometheus` is a task's figures as text, `Collector` those of many tasks for a registry of
`prometheus_client`. Every name, its unit and its level, and what to do when it looks bad:
`docs/metrics.md`.
"""

from holdfast.metrics._names import StoreMetrics, TaskMetrics
from holdfast.metrics._prometheus import Collector, prometheus

__all__ = ["Collector", "StoreMetrics", "TaskMetrics", "prometheus"]
