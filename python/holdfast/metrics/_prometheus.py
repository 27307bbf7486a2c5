"""Tasks' figures for Prometheus, by its own library."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from holdfast.errors import StoreClosedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    from holdfast._core import _Figure
    from holdfast._task import Task

    _Families: TypeAlias = dict[str, CounterMetricFamily | GaugeMetricFamily]


class Collector:
    """Open tasks for a registry of `prometheus_client`, each under the name that its label `task`
    is to have.

    `prometheus_client.REGISTRY.register(Collector({"orders": task}))`. A task that was closed
    meanwhile is left out.
    """

    def __init__(self, tasks: Mapping[str, Task]) -> None:
        """The tasks, looked at anew at each scrape: the mapping may change."""
        self._tasks = tasks

    def collect(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        """All figures as they are now."""
        families: _Families = {}
        for label, task in list(self._tasks.items()):
            try:
                figures, stores = task._core.metrics()
            except StoreClosedError:
                continue
            _add(families, "task", {"task": label}, figures)
            for store, of_store in stores:
                _add(families, "store", {"task": label, "store": store}, of_store)
        return families.values()

    def describe(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        """Nothing: which figures there are depends on the tasks."""
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


def prometheus(task: Task, name: str | None = None) -> str:
    """A task's figures in Prometheus's text format; `name` is the label `task`, by default the
    task's path.

    Of a closed task there are none. Raises `ModuleNotFoundError` without the package
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
    registry.register(Collector({name or str(task._core.path()): task}))
    return generate_latest(registry).decode()
