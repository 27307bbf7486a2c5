"""Builders: which stores a database has.

Durations are timedeltas, or microseconds. Builders raise `ValueError` or `TypeError` for a name, a
duration, a flag or a serde that cannot be: a name is 1 to 200 ASCII letters, digits, `_`, `-` or
`.`, a duration is not negative and fits 64 bits.

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


Kind = Literal[
    "key_value", "timestamped_key_value", "versioned", "window", "timestamped_window", "session"
]


@dataclass(frozen=True, kw_only=True)
class StoreBuilder:
    """The description of a store; `open` makes it."""

    name: str
    kind: Kind
    key: serde.Serde[Any] = serde.BYTES
    value: serde.Serde[Any] = serde.BYTES
    transactional: bool = True
    """False: each write call goes straight through and is visible to all at once."""
    persistent: bool = True
    """False: in memory, empty after each open; its changelog brings it back."""
    history_retention: int | None = None
    """Microseconds; None for a store without history."""
    segment_interval: int | None = None
    """Microseconds; None for a store without history."""
    retention: int | None = None
    """Microseconds; None for a store without windows or sessions."""
    window_size: int | None = None
    """Microseconds; None for a store without windows."""
    retain_duplicates: bool = False
    """Every put of a window is kept."""

    def __post_init__(self) -> None:
        """Raises `TypeError` that names the field: no serde, one that cannot be a key's, a flag
        that is no bool.
        """
        for what, flag in (
            *(("transactional", self.transactional), ("persistent", self.persistent)),
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
    """A store of key and value."""
    _check(name)
    return StoreBuilder(
        name=name,
        kind="key_value",
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
    """A store of key and value with a timestamp a value.

    It can be opened on the rows of a key-value store of the same name: they have timestamp -1 until
    they are written again. There is no way back.
    """
    _check(name)
    return StoreBuilder(
        name=name,
        kind="timestamped_key_value",
        persistent=persistent,
        transactional=transactional,
        key=key,
        value=value,
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
    """A store of values in force from a time on, with the history of the last `history_retention`.

    `history_retention` is also the grace for late writes. `segment_interval` is the unit in which
    old history is dropped: its only effect is speed; `ValueError` where it is not above zero.
    """
    _check(name)
    retention = store_duration_micros(history_retention, "history_retention")
    if segment_interval is None:
        interval = _core.default_segment_interval(retention)
    else:
        interval = store_duration_micros(segment_interval, "segment_interval")
        if interval <= 0:
            raise ValueError(f"segment_interval is {interval} microseconds; it must be positive")
    return StoreBuilder(
        name=name,
        kind="versioned",
        key=key,
        value=value,
        persistent=persistent,
        transactional=transactional,
        history_retention=retention,
        segment_interval=interval,
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
    """A store of values by key and window, which ends `window_size` after its start.

    Windows that start `retention` or more before the latest start are gone, and puts of them
    dropped and counted. With `retain_duplicates` every put of a key and start is kept; that is
    fixed when the store is made. `ValueError` for a `window_size` above `retention`.
    """
    _check(name)
    kept, size = _window_durations(retention, window_size)
    return StoreBuilder(
        name=name,
        kind="window",
        persistent=persistent,
        transactional=transactional,
        key=key,
        value=value,
        retention=kept,
        window_size=size,
        retain_duplicates=retain_duplicates,
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
    """As `window`, with a timestamp a value.

    It can be opened on the rows of a window store of the same name: they have timestamp -1 until
    they are written again. There is no way back.
    """
    _check(name)
    kept, size = _window_durations(retention, window_size)
    return StoreBuilder(
        name=name,
        kind="timestamped_window",
        persistent=persistent,
        transactional=transactional,
        key=key,
        value=value,
        retention=kept,
        window_size=size,
        retain_duplicates=retain_duplicates,
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
    """A store of values by key and session, a time from its start to its end, both included.

    Sessions that end `retention` or more before the latest end are gone, and puts of them dropped
    and counted.
    """
    _check(name)
    kept = store_duration_micros(retention, "retention")
    return StoreBuilder(
        name=name,
        kind="session",
        persistent=persistent,
        transactional=transactional,
        key=key,
        value=value,
        retention=kept,
    )


def _window_durations(retention: StoreDuration, window_size: StoreDuration) -> tuple[int, int]:
    kept, size = (
        store_duration_micros(retention, "retention"),
        store_duration_micros(window_size, "window_size"),
    )
    if size > kept:
        raise ValueError(
            f"window_size is {size} microseconds, more than retention, which is {kept}; a window "
            "must be kept until it ends"
        )
    return kept, size


def _check(name: str) -> None:
    if not isinstance(name, str):
        raise TypeError(f"name is a {type(name).__name__}; wanted: str")
    _core.check_store_name(name)
