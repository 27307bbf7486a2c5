"""Metrics of databases for Prometheus, through its own client library."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from holdfast._requirements import how_to_install
from holdfast.errors import StoreClosedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    from holdfast._core import _Figure
    from holdfast._database import Database

    _Families: TypeAlias = dict[str, CounterMetricFamily | GaugeMetricFamily]


class Collector:
    """Collects the metrics of databases for a registry of `prometheus_client`.

    Register it with `prometheus_client.REGISTRY.register(Collector({"orders": db}))`. The names in
    the dict are the values of the label `database`. Databases that were closed are left out.
    """

    def __init__(self, databases: Mapping[str, Database]) -> None:
        """Takes the databases by name; each scrape reads the mapping, which may change."""
        self._databases = databases

    def collect(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        """Returns the current metrics of all open databases."""
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
        """Returns nothing: which metrics there are depends on the databases."""
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
    """Returns a database's metrics in Prometheus's text format.

    `name` is the value of the label `database`, by default the database's path. A closed database
    has no metrics. Raises `ModuleNotFoundError` without the package `prometheus-client`, which the
    extra `prometheus` installs.
    """
    try:
        from prometheus_client import generate_latest
        from prometheus_client.registry import CollectorRegistry
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"metrics for Prometheus need prometheus-client: {how_to_install('prometheus')}",
            name=error.name,
        ) from None
    registry = CollectorRegistry()
    registry.register(Collector({name or str(db._core.path()): db}))
    return generate_latest(registry).decode()
