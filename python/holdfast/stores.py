"""Builders of the stores that a database is opened with.

All builders take a name of 1 to 200 ASCII letters, digits, `_`, `-` or `.`, and

- `key`, `value`: the serdes of keys and values; bytes by default,
- `persistent`: False holds the store in memory, where it is empty after each open and must be
  restored from its changelog,
- `transactional`: False makes each write visible at once.

Durations are timedeltas or microseconds. Builders raise `ValueError` or `TypeError` for an invalid
name, duration, flag or serde.

>>> from datetime import timedelta
>>> import holdfast as hf
>>> rates = hf.stores.versioned("rates", history_retention=timedelta(days=30))
>>> rates.segment_interval == 30 * 86_400_000_000 // 24
True
"""

from dataclasses import dataclass
from typing import Any, Literal

from holdfast import _core, serde
from holdfast._time import StoreDuration, store_duration_micros

__all__ = [
    "StoreBuilder",
    "key_value",
    "session",
    "timestamped_key_value",
    "timestamped_window",
    "versioned",
    "window",
]


StoreKind = Literal[
    "key_value", "timestamped_key_value", "versioned", "window", "timestamped_window", "session"
]


@dataclass(frozen=True, kw_only=True)
class StoreBuilder:
    """The description of a store, from which `open` creates or opens it."""

    name: str
    kind: StoreKind
    key: serde.Serde[Any] = serde.BYTES
    value: serde.Serde[Any] = serde.BYTES
    transactional: bool = True
    """Whether writes wait for the commit; if not, each write is visible at once."""
    persistent: bool = True
    """Whether the store is in files; in memory it is empty after each open."""
    history_retention: int | None = None
    """Microseconds; None for a store without history."""
    segment_interval: int | None = None
    """Microseconds; None for a store without history."""
    retention: int | None = None
    """Microseconds; None for a store without windows or sessions."""
    window_size: int | None = None
    """Microseconds; None for a store without windows."""
    retain_duplicates: bool = False
    """Whether every put of the same key and window is retained."""

    def __post_init__(self) -> None:
        """Raises `TypeError` for a flag that is not a bool, or a serde that is invalid."""
        for what, flag in (
            ("transactional", self.transactional),
            ("persistent", self.persistent),
            ("retain_duplicates", self.retain_duplicates),
        ):
            if not isinstance(flag, bool):
                raise TypeError(f"store {self.name}: {what} is {flag!r:.80}; wanted: True or False")
        for what, given in (("key", self.key), ("value", self.value)):
            if not hasattr(given, "serialize") or not hasattr(given, "deserialize"):
                raise TypeError(
                    f"store {self.name}: {what} is {given!r:.80}; wanted: a serde, such as "
                    "serde.STRING"
                )
        if isinstance(self.key, serde.TypedSerde):
            try:
                self.key.check_key()
            except TypeError as error:
                raise TypeError(f"store {self.name}: key: {error}") from None


def key_value(
    name: str,
    *,
    key: serde.Serde[Any] = serde.BYTES,
    value: serde.Serde[Any] = serde.BYTES,
    persistent: bool = True,
    transactional: bool = True,
) -> StoreBuilder:
    """Returns the builder of a store of values by key."""
    return _build(
        "key_value",
        name,
        key=key,
        value=value,
        persistent=persistent,
        transactional=transactional,
    )


def timestamped_key_value(
    name: str,
    *,
    key: serde.Serde[Any] = serde.BYTES,
    value: serde.Serde[Any] = serde.BYTES,
    persistent: bool = True,
    transactional: bool = True,
) -> StoreBuilder:
    """Returns the builder of a store of values with a timestamp each, by key.

    It can be opened on the rows of a key-value store of the same name: those have timestamp -1
    until they are written again. A store cannot be changed back.
    """
    return _build(
        "timestamped_key_value",
        name,
        key=key,
        value=value,
        persistent=persistent,
        transactional=transactional,
    )


def versioned(
    name: str,
    *,
    history_retention: StoreDuration,
    segment_interval: StoreDuration | None = None,
    key: serde.Serde[Any] = serde.BYTES,
    value: serde.Serde[Any] = serde.BYTES,
    persistent: bool = True,
    transactional: bool = True,
) -> StoreBuilder:
    """Returns the builder of a store of values that are valid from a time on, with history.

    History reaches back `history_retention`, which is also the grace for late writes.
    `segment_interval` is the unit in which the disk space of old history is freed: it never affects
    what can be read, and must be positive.
    """
    retention = store_duration_micros(history_retention, "history_retention")
    if segment_interval is None:
        interval = _core.default_segment_interval(retention)
    else:
        interval = store_duration_micros(segment_interval, "segment_interval")
        if interval == 0:
            raise ValueError("segment_interval is 0 microseconds; it must be positive")
    return _build(
        "versioned",
        name,
        history_retention=retention,
        segment_interval=interval,
        key=key,
        value=value,
        persistent=persistent,
        transactional=transactional,
    )


def window(
    name: str,
    *,
    retention: StoreDuration,
    window_size: StoreDuration,
    retain_duplicates: bool = False,
    key: serde.Serde[Any] = serde.BYTES,
    value: serde.Serde[Any] = serde.BYTES,
    persistent: bool = True,
    transactional: bool = True,
) -> StoreBuilder:
    """Returns the builder of a store of values by key and window.

    A window ends `window_size` after its start. Windows that start `retention` or more before the
    latest start are dropped; puts into them are skipped and counted. `retain_duplicates` retains
    every put of a key and start; it is fixed when the store is created. `window_size` must not
    exceed `retention`.
    """
    return _build(
        "window",
        name,
        **_window_durations(retention, window_size),
        retain_duplicates=retain_duplicates,
        key=key,
        value=value,
        persistent=persistent,
        transactional=transactional,
    )


def timestamped_window(
    name: str,
    *,
    retention: StoreDuration,
    window_size: StoreDuration,
    retain_duplicates: bool = False,
    key: serde.Serde[Any] = serde.BYTES,
    value: serde.Serde[Any] = serde.BYTES,
    persistent: bool = True,
    transactional: bool = True,
) -> StoreBuilder:
    """Returns the builder of a window store with a timestamp for each value.

    It can be opened on the rows of a window store of the same name: those have timestamp -1
    until they are written again. A store cannot be changed back.
    """
    return _build(
        "timestamped_window",
        name,
        **_window_durations(retention, window_size),
        retain_duplicates=retain_duplicates,
        key=key,
        value=value,
        persistent=persistent,
        transactional=transactional,
    )


def session(
    name: str,
    *,
    retention: StoreDuration,
    key: serde.Serde[Any] = serde.BYTES,
    value: serde.Serde[Any] = serde.BYTES,
    persistent: bool = True,
    transactional: bool = True,
) -> StoreBuilder:
    """Returns the builder of a store of values by key and session.

    A session lasts from its start to its end, both included. Sessions that end `retention` or more
    before the latest end are dropped; puts of them are skipped and counted.
    """
    return _build(
        "session",
        name,
        retention=store_duration_micros(retention, "retention"),
        key=key,
        value=value,
        persistent=persistent,
        transactional=transactional,
    )


def _build(kind: StoreKind, name: str, **fields: Any) -> StoreBuilder:
    if not isinstance(name, str):
        raise TypeError(f"name is a {type(name).__name__}; wanted: str")
    _core.check_store_name(name)
    return StoreBuilder(name=name, kind=kind, **fields)


def _window_durations(retention: StoreDuration, window_size: StoreDuration) -> dict[str, int]:
    """Returns the checked durations of a window store as fields of its builder."""
    retained = store_duration_micros(retention, "retention")
    size = store_duration_micros(window_size, "window_size")
    if size > retained:
        raise ValueError(
            f"window_size is {size} microseconds, more than retention, which is {retained}; a "
            "window must be retained until it ends"
        )
    return {"retention": retained, "window_size": size}
