"""Figures of databases and stores: what `Database.metrics` returns, and the same for Prometheus.

>>> import holdfast as hf
>>> with hf.open(None, [hf.stores.key_value("totals")]) as db:
...     db["totals"].put(b"customer 7", b"120.50")
...     db["totals"].put(b"customer 9", b"17.00")
...     db.commit()
...     db.metrics()["commit-total"], db.metrics()["stores"]["totals"]["put-total"]
(1, 2)

`prometheus` is a database's figures as text, `Collector` those of many databases for a registry of
`prometheus_client`. Every name, its unit and its level, and what to do when it looks bad:
`docs/metrics.md`.
"""

from holdfast._metric_names import DatabaseMetrics, StoreMetrics
from holdfast.metrics._prometheus import Collector, prometheus

__all__ = ["Collector", "DatabaseMetrics", "StoreMetrics", "prometheus"]
