"""Metrics of databases and stores, as dicts and for Prometheus.

>>> import holdfast as hf
>>> with hf.open(None, [hf.stores.key_value("totals")]) as db:
...     db["totals"].put(b"customer 7", b"120.50")
...     db["totals"].put(b"customer 9", b"17.00")
...     db.commit()
...     db.metrics()["commit-total"], db.metrics()["stores"]["totals"]["put-total"]
(1, 2)

`prometheus` returns the metrics of one database as text; `Collector` collects those of many for a
registry of `prometheus_client`. `docs/metrics.md` has every name with its unit and level, and what
to do if a value looks wrong.
"""

from holdfast._metric_names import DatabaseMetrics, StoreMetrics
from holdfast.metrics._prometheus import Collector, prometheus

__all__ = ["Collector", "DatabaseMetrics", "StoreMetrics", "prometheus"]
