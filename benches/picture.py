"""The picture of the main rows: how many times as fast as each peer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from figure import Figure

WIDTH, LABELS, RIGHT = 860, 480, 70
TOP, ROW = 50, 28
TITLE = "Throughput of Holdfast, divided by that of others: median and range, logarithmic"
STYLE = """
text { font: 13px sans-serif; fill: #1f2328; }
.title { font-weight: bold; }
.bar { fill: #2f6f9f; } .lost { fill: #b35900; }
.line { stroke: #6e7781; }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3; } }
"""


@dataclass(frozen=True)
class Main:
    """A row of the picture, found by how the figure's names begin."""

    label: str
    measured: str
    against: str


MAINS = [
    Main(
        "as-of join on Spark, against transformWithState (Row)",
        "join_asof on Spark",
        "the same job on PySpark's transformWithState (Row)",
    ),
    Main(
        "as-of join on Spark, against Spark's stream-static ASOF JOIN",
        "join_asof on Spark",
        "Spark 4.3's stream-static ASOF JOIN",
    ),
    Main(
        "count and latest row of a key, against transformWithState (Row)",
        "count and latest value per key on Spark",
        "PySpark's transformWithState (Row)",
    ),
    Main(
        "count and latest row of a key, against Spark's JVM aggregation",
        "count and latest value per key on Spark",
        "Spark's own aggregation in the JVM",
    ),
    Main("sessions, against Spark's session_window", "sessions of", "Spark's own session_window"),
    Main(
        "look-up of another query's state, against redis",
        "lookup of a stream",
        "the same stream, which asks redis",
    ),
    Main("puts, against Kafka Streams", "puts, commits of", "Kafka Streams"),
    Main("gets in batches, against Kafka Streams", "gets in batches of", "Kafka Streams"),
    Main("gets as of a time, against Kafka Streams", "gets as of a random time", "Kafka Streams"),
    Main(
        "puts in transactions, against RocksDB by hand",
        "transaction of 10,000 random puts",
        "the same puts to RocksDB one by one",
    ),
    Main("gets in batches, against quixstreams", "get, batches", "quixstreams"),
    Main("gets in batches, against lmdb", "get, batches", "lmdb"),
]


def row_of(main: Main, figures: list[Figure]) -> Figure | None:
    """The figure of a row; None if it was not measured."""
    for figure in figures:
        is_it = figure.measured.startswith(main.measured)
        if is_it and figure.against.startswith(main.against) and figure.turns:
            return figure
    return None


def missing(figures: list[Figure]) -> list[str]:
    """The labels of the rows that were not measured."""
    return [main.label for main in MAINS if row_of(main, figures) is None]


def times_as_fast(figure: Figure) -> tuple[float, float, float]:
    """The least, the median and the greatest turn, as throughput."""
    ratio = figure.ratio
    assert ratio is not None
    low, high = min(figure.turns), max(figure.turns)
    return (1 / high, 1 / ratio, 1 / low) if figure.unit == "time" else (low, ratio, high)


def svg(figures: list[Figure], caption: str) -> str:
    """The picture; a row that was not measured is left out."""
    found = [(main.label, row_of(main, figures)) for main in MAINS]
    rows = [(label, times_as_fast(figure)) for label, figure in found if figure is not None]
    low = min([0.5, *(least for _, (least, _, _) in rows)])
    high = max([2.0, *(most for _, (_, _, most) in rows)])

    def place(value: float) -> float:
        share = math.log(value / low) / math.log(high / low)
        return LABELS + share * (WIDTH - LABELS - RIGHT)

    height = TOP + ROW * len(rows) + 14
    one = place(1)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{TITLE}</title>",
        f"<style>{STYLE}</style>",
        f'<text class="title" x="8" y="18">{TITLE}</text>',
        f'<text x="8" y="36">{escape(caption)}</text>',
    ]
    for number, (label, (least, middle, most)) in enumerate(rows):
        y = TOP + ROW * number
        start, end = sorted((one, place(middle)))
        kind = "bar" if middle >= 1 else "lost"
        lines += [
            f'<text x="{LABELS - 8}" y="{y + 16}" text-anchor="end">{escape(label)}</text>',
            f'<path class="{kind}" d="M{start:.1f} {y + 4}H{end:.1f}v16H{start:.1f}z"/>',
            f'<path class="line" d="M{place(least):.1f} {y + 12}H{place(most):.1f}"/>',
            f'<text x="{place(max(most, 1)) + 6:.1f}" y="{y + 16}">{middle:.3g}x</text>',
        ]
    bottom = TOP + ROW * len(rows)
    lines.append(f'<path class="line" d="M{one:.1f} {TOP}V{bottom}"/>')
    return "\n".join([*lines, "</svg>"]) + "\n"
