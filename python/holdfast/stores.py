"""Builders: which stores a task has.

>>> from datetime import timedelta
>>> import holdfast as hf
>>> hf.stores.versioned("rates", history_retention=timedelta(days=30)).segment_interval == 30 * 86_400_000_000 // 24
True
"""

from dataclasses import dataclass
from typing import Any, Literal

from holdfast import serde
from holdfast._time import Span, span
from holdfast.errors import UnsupportedOperationError

__all__ = ["StoreBuilder", "key_value", "versioned"]

_SECOND = 1_000_000
_MINUTE = 60 * _SECOND


@dataclass(frozen=True, kw_only=True)
class StoreBuilder:
    """The description of a store; `open_task` makes it."""

    name: str
    kind: Literal["key_value", "versioned"]
    key: serde.Serde[Any] = serde.BYTES
    value: serde.Serde[Any] = serde.BYTES
    transactional: bool = True
    persistent: bool = True
    history_retention: int | None = None
    """Microseconds; None for a store without history."""
    segment_interval: int | None = None
    """Microseconds; None for a store without history."""


def key_value(
    name: str,
    *,
    key: serde.Serde[Any] = serde.BYTES,
    value: serde.Serde[Any] = serde.BYTES,
    persistent: bool = True,
    transactional: bool = True,
) -> StoreBuilder:
    """A store of key and value."""
    _check(name, persistent=persistent, transactional=transactional)
    return StoreBuilder(name=name, kind="key_value", key=key, value=value)


def versioned(
    name: str,
    *,
    history_retention: Span,
    segment_interval: Span | None = None,
    key: serde.Serde[Any] = serde.BYTES,
    value: serde.Serde[Any] = serde.BYTES,
    persistent: bool = True,
    transactional: bool = True,
) -> StoreBuilder:
    """A store of values in force from a time on, with the history of the last `history_retention`.

    `history_retention` is also the grace for late writes. `segment_interval` is the unit in which old history is
    dropped: its only effect is speed.
    """
    _check(name, persistent=persistent, transactional=transactional)
    retention = span(history_retention, "history_retention")
    if retention < 0:
        raise ValueError(f"history_retention is {retention} microseconds; it must not be negative")
    if segment_interval is None:
        interval = _default_segment_interval(retention)
    else:
        interval = span(segment_interval, "segment_interval")
        if interval <= 0:
            raise ValueError(f"segment_interval is {interval} microseconds; it must be positive")
    return StoreBuilder(
        name=name, kind="versioned", key=key, value=value, history_retention=retention, segment_interval=interval
    )


def _default_segment_interval(retention: int) -> int:
    if retention <= _MINUTE:
        return max(retention // 3, 2 * _SECOND)
    if retention <= 5 * _MINUTE:
        return max(retention // 5, 20 * _SECOND)
    if retention <= 60 * _MINUTE:
        return max(retention // 12, _MINUTE)
    return max(retention // 24, 5 * _MINUTE)


def _check(name: str, *, persistent: bool, transactional: bool) -> None:
    if not isinstance(name, str):
        raise TypeError(f"name is a {type(name).__name__}; wanted: str")
    if not name or "\0" in name:
        raise ValueError(f"name is {name!r}; a store's name is not empty and has no NUL in it")
    if not persistent:
        raise UnsupportedOperationError(f"store {name}: in-memory stores are not here yet; use persistent=True")
    if not transactional:
        raise UnsupportedOperationError(
            f"store {name}: stores without transactions are not here yet; use transactional=True"
        )
