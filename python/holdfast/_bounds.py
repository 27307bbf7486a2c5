"""The two ends of a range of keys."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from holdfast._store import Serdes

K = TypeVar("K")
V = TypeVar("V")

_log = logging.getLogger("holdfast")


def key_bounds(serdes: Serdes[K, V], start: K | None, end: K | None) -> tuple[bytes | None, bytes | None]:
    """The bytes of both ends, None open; warns where the start lies above the end, since such a range is empty."""
    low, high = serdes.to_bound(start), serdes.to_bound(end)
    if low is not None and high is not None and low > high:
        _log.warning("store %s: range from %r to %r is empty, the start lies above the end", serdes.store, start, end)
    return low, high
