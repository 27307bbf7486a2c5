"""Windows of event time that an aggregation cuts its groups into."""

from dataclasses import dataclass
from typing import Any

from holdfast.spark.span import Span, micros


@dataclass(frozen=True)
class Window:
    """Windows of `length` that start at each multiple of `slide` since the epoch, both in
    microseconds.
    """

    length: int
    slide: int

    @property
    def request(self) -> dict[str, Any]:
        """As the state host reads it."""
        return {"kind": "hopping", "length": self.length, "slide": self.slide}


@dataclass(frozen=True)
class SlidingWindow:
    """Windows of `length` microseconds, both bounds included, that begin and end at rows."""

    length: int

    @property
    def request(self) -> dict[str, Any]:
        """As the state host reads it."""
        return {"kind": "sliding", "length": self.length}


@dataclass(frozen=True)
class SessionWindow:
    """Windows between pauses of `length` microseconds."""

    length: int

    @property
    def request(self) -> dict[str, Any]:
        """As the state host reads it."""
        return {"kind": "session", "gap": self.length}


AnyWindow = Window | SlidingWindow | SessionWindow
"""What `window`, `sliding_window` and `session_window` make."""


def window(length: Span, slide: Span | None = None) -> Window:
    """Windows of one length: tumbling, or, with a `slide` shorter than it, hopping (a row is in
    `length / slide` of them).

    A window holds its start and not its end; windows start at multiples of `slide` since 1970-01-01
    00:00 UTC.

    Raises `ValueError` for a length or slide that is not above zero, and for a slide longer than
    the length, `TypeError` for what is no duration.
    """
    size = _positive(length, "length")
    step = size if slide is None else _positive(slide, "slide")
    if step > size:
        raise ValueError(
            f"slide={slide!r} is longer than length={length!r}: rows between two windows would be "
            "in none"
        )
    return Window(size, step)


def sliding_window(length: Span) -> SlidingWindow:
    """Windows that slide along a key's rows, one for each set of rows that lie no more than
    `length` apart (KIP-450).

    A row at `t` makes two: `[t - length, t]`, which it is the last of, and
    `[t + 1 microsecond, t + 1 microsecond + length]`, which it has just fallen out of; a window
    without rows is none. Both bounds are in a window, and they are what `window_start` and
    `window_end` say.

    Raises `ValueError` for a length that is not above zero, `TypeError` for what is no duration.
    """
    return SlidingWindow(_positive(length, "length"))


def session_window(gap: Span) -> SessionWindow:
    """Windows between pauses: a row no more than `gap` behind a session's last one belongs to it,
    as in Spark.

    A session begins with its first row and ends `gap` after its last one. A row that lies near two
    sessions makes them one.

    Raises `ValueError` for a gap that is not above zero, `TypeError` for what is no duration.
    """
    return SessionWindow(_positive(gap, "gap"))


def _positive(span: Span, argument: str) -> int:
    size = micros(span, argument)
    if size <= 0:
        raise ValueError(f"{argument}={span!r}: give a duration above zero")
    return size
