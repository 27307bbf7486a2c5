"""Databases' figures for Prometheus, by its own library."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from holdfast.errors import StoreClosedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    from holdfast._core import _Figure
    from holdfast._database import Database

    _Families: TypeAlias = dict[str, CounterMetricFamily | GaugeMetricFamily]


class Collector:
    """Open databases for a registry of `prometheus_client`, each under the name that its label `db`
    is to have.

    `prometheus_client.REGISTRY.register(Collector({"orders": db}))`. A database that was closed
    meanwhile is left out.
    """

    def __init__(self, databases: Mapping[str, Database]) -> None:
        """The databases, looked at anew at each scrape: the mapping may change."""
        self._databases = databases

    def collect(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        """All figures as they are now."""
        families: _Families = {}
        for label, db in list(self._databases.items()):
            try:
                figures, stores = db._core.metrics()
            except StoreClosedError:
                continue
            _add(families, "database", {"database": label}, figures)
            for store, of_store in stores:
                _add(families, "store", {"database": label, "store": store}, of_store)
        return families.values()

    def describe(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        """Nothing: which figures there are depends on the databases."""
        return []


def _add(
    families: _Families, scope: str, labels: dict[str, str], figures: Iterable[_Figure]
) -> None:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    for name, value, _unit, meaning in figures:
        full = f"holdfast_{scope}_{name.replace('-', '_')}"
        family = families.get(full)
        if family is None:
            kind = CounterMetricFamily if name.endswith("-total") else GaugeMetricFamily
            family = families[full] = kind(full, meaning, labels=list(labels))
        family.add_metric(list(labels.values()), value)


def prometheus(db: Database, name: str | None = None) -> str:
    """A database's figures in Prometheus's text format; `name` is the label `db`, by default the
    database's path.

    Of a closed database there are none. Raises `ModuleNotFoundError` without the package
    `prometheus-client` (`pip install holdfast[prometheus]`).
    """
    try:
        from prometheus_client import generate_latest
        from prometheus_client.registry import CollectorRegistry
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "metrics for Prometheus need prometheus-client; install it with: pip install "
            "holdfast[prometheus]",
            name=error.name,
        ) from None
    registry = CollectorRegistry()
    registry.register(Collector({name or str(db._core.path()): db}))
    return generate_latest(registry).decode()
