"""The ends of ranges: of keys, and of times."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from holdfast._stores.serdes import Serdes

K = TypeVar("K")
V = TypeVar("V")

MIN_TIME, MAX_TIME = -(2**63), 2**63 - 1

# Above every key with the prefix: the next field of a struct key begins with 00 (null) or 01.
_AFTER_FIELDS = b"\x02"

_log = logging.getLogger("holdfast")


def key_bounds(
    serdes: Serdes[K, V], start: K | None, end: K | None
) -> tuple[bytes | None, bytes | None]:
    """Returns the bytes of both ends; None is an open end and stays None.

    Logs a warning if the start is above the end: such a range is empty.
    """
    low, high = serdes.to_bound(start), serdes.to_bound(end)
    if low is not None and high is not None and low > high:
        _log.warning(
            "store %s: range from %r to %r is empty, the start is above the end",
            serdes.store,
            start,
            end,
        )
    return low, high


def prefix_bounds(serdes: Serdes[K, V], prefix: K) -> tuple[bytes, bytes | None]:
    """Returns the first bytes of the keys with a prefix, and the end of their range.

    If keys are not structs, the end is None: every key that begins with those bytes has the prefix.
    For struct keys the prefix bytes alone are ambiguous: the bytes of a text are also the first
    bytes of the same text followed by a zero.
    """
    start = serdes.to_prefix(prefix)
    return start, start + _AFTER_FIELDS if serdes.keys_are_structs else None
