"""Windows of event time that an aggregation divides its groups into."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from holdfast._time import Duration, duration_micros


@dataclass(frozen=True, repr=False)
class Window:
    """Windows of `length` that start at each multiple of `slide` since 1970-01-01 00:00 UTC.

    Both are in microseconds.
    """

    length: int
    slide: int

    @property
    def request(self) -> dict[str, Any]:
        """The window as the state host reads it."""
        return {"kind": "hopping", "length": self.length, "slide": self.slide}

    def __repr__(self) -> str:
        return f"Window(length={_text(self.length)}, slide={_text(self.slide)})"


@dataclass(frozen=True, repr=False)
class SlidingWindow:
    """Windows of `length` microseconds, both bounds included.

    Each window ends at a row, or begins one microsecond after a row.
    """

    length: int

    @property
    def request(self) -> dict[str, Any]:
        """The window as the state host reads it."""
        return {"kind": "sliding", "length": self.length}

    def __repr__(self) -> str:
        return f"SlidingWindow(length={_text(self.length)})"


@dataclass(frozen=True, repr=False)
class SessionWindow:
    """Windows between pauses of more than `length` microseconds."""

    length: int

    @property
    def request(self) -> dict[str, Any]:
        """The window as the state host reads it."""
        return {"kind": "session", "gap": self.length}

    def __repr__(self) -> str:
        return f"SessionWindow(gap={_text(self.length)})"


AnyWindow = Window | SlidingWindow | SessionWindow
"""A result of `window`, `sliding_window` or `session_window`."""


def window(length: Duration, slide: Duration | None = None) -> Window:
    """Windows of one length: tumbling, or hopping if `slide` is shorter than `length`.

    With hopping windows, a row is in `length / slide` windows, rounded up or down. A window
    includes its start and excludes its end; windows start at multiples of `slide` since 1970-01-01
    00:00 UTC.

    Raises `ValueError` if the length or the slide is not above zero or the slide is longer than the
    length, `TypeError` if one is no duration.
    """
    size = _positive(length, "length")
    step = size if slide is None else _positive(slide, "slide")
    if step > size:
        raise ValueError(
            f"slide={slide!r} is longer than length={length!r}: rows between two windows would be "
            "in no window"
        )
    return Window(size, step)


def sliding_window(length: Duration) -> SlidingWindow:
    """Windows along a key's rows, one for each set of rows at most `length` apart (KIP-450).

    A row at `t` makes two windows: `[t - length, t]`, in which it is the last row, and
    `[t + 1 microsecond, t + 1 microsecond + length]`, the first one without it. A window without
    rows does not exist. Both bounds are inside the window; `window_start` and `window_end` are
    these bounds.

    Raises `ValueError` if the length is not above zero, `TypeError` if it is no duration.
    """
    return SlidingWindow(_positive(length, "length"))


def session_window(gap: Duration) -> SessionWindow:
    """Windows between pauses: a row at most `gap` after a session's last row belongs to it.

    A session begins at its first row and ends `gap` after its last one, as in Spark. A row near two
    sessions merges them.

    Raises `ValueError` if the gap is not above zero, `TypeError` if it is no duration.
    """
    return SessionWindow(_positive(gap, "gap"))


def _positive(duration: Duration, argument: str) -> int:
    size = duration_micros(duration, argument)
    if size <= 0:
        raise ValueError(f"{argument}={duration!r}: give a duration above zero")
    return size


def _text(microseconds: int) -> str:
    return f"'{timedelta(microseconds=microseconds)}'"
