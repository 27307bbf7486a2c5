"""Each test reads the tables of a query between two runs twice: from its hosts and from copies.

The hosts continue to run after the query has stopped.
"""

from __future__ import annotations

import random
from functools import partial

import pytest
import reading
from streams import KEYS, Stream


@pytest.fixture(params=["auto", "only"], ids=["hosts", "copies"])
def connect(request: pytest.FixtureRequest) -> reading.Connect:
    """As `reading.connect`: state hosts answer the reads, or copies do."""
    return partial(reading.connect, offline=request.param)


@pytest.fixture
def batches(stream: Stream) -> list[list[tuple[str, int, int]]]:
    """Micro-batches of random rows (key, seconds, value), in the order in which they were written.

    Times are unique, so that the order of equal times does not matter.
    """
    draw = random.Random(7)
    times = draw.sample(range(1000), 60)
    found = []
    for number in range(6):
        rows = [
            (draw.choice(KEYS), time, number * 100 + index)
            for index, time in enumerate(times[number * 10 : number * 10 + 10])
        ]
        found.append(rows)
        stream.batch(left=rows)
    return found
