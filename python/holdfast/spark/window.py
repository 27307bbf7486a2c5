"""Windows of event time that an aggregation cuts its groups into."""

from dataclasses import dataclass

from holdfast.errors import UnsupportedOperationError
from holdfast.spark.span import Span, micros


@dataclass(frozen=True)
class Window:
    """Windows of `length` that start at each multiple of `slide` since the epoch, both in microseconds."""

    length: int
    slide: int


def window(length: Span, slide: Span | None = None) -> Window:
    """Windows of one length: tumbling, or, with a `slide` shorter than it, hopping (a row is in `length / slide` of them).

    A window holds its start and not its end; windows start at multiples of `slide` since 1970-01-01 00:00 UTC.

    Raises `ValueError` for a length or slide that is not above zero, and for a slide longer than the length.
    """
    size = _positive(length, "length")
    step = size if slide is None else _positive(slide, "slide")
    if step > size:
        raise ValueError(f"slide={slide!r} is longer than length={length!r}: rows between two windows would be in none")
    return Window(size, step)


def sliding_window(length: Span) -> Window:
    """Windows around each row; not there yet: raises `UnsupportedOperationError`."""
    _positive(length, "length")
    raise UnsupportedOperationError("sliding_window comes later: use window(length, slide) with a short slide")


def session_window(gap: Span) -> Window:
    """Windows between pauses of `gap`; not there yet: raises `UnsupportedOperationError`."""
    _positive(gap, "gap")
    raise UnsupportedOperationError("session_window comes later: use window(length)")


def _positive(span: Span, argument: str) -> int:
    size = micros(span, argument)
    if size <= 0:
        raise ValueError(f"{argument}={span!r}: give a duration above zero")
    return size
