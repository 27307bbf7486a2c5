"""The two ends of a range of keys."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from holdfast._store import Serdes

K = TypeVar("K")
V = TypeVar("V")

# A struct key's next field begins with 00 (null) or 01.
_BEHIND_FIELDS = b"\x02"

_log = logging.getLogger("holdfast")


def key_bounds(
    serdes: Serdes[K, V], start: K | None, end: K | None
) -> tuple[bytes | None, bytes | None]:
    """The bytes of both ends, None open; warns where the start lies above the end, since such a
    range is empty.
    """
    low, high = serdes.to_bound(start), serdes.to_bound(end)
    if low is not None and high is not None and low > high:
        _log.warning(
            "store %s: range from %r to %r is empty, the start lies above the end",
            serdes.store,
            start,
            end,
        )
    return low, high


def prefix_bounds(serdes: Serdes[K, V], prefix: K) -> tuple[bytes, bytes | None]:
    """The bytes that the keys with a prefix begin with, and what lies behind these keys; None: all
    keys with those bytes.

    Of a struct's first fields the bytes alone do not tell: those of a text are the beginning of
    those of the same text with a zero behind it.
    """
    start = serdes.to_prefix(prefix)
    return start, start + _BEHIND_FIELDS if serdes.keys_are_structs else None
