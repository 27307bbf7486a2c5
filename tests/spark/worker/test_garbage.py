"""Which objects a worker's garbage collector examines."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from holdfast.spark.worker.garbage import leave_out_modules


@pytest.fixture
def collector() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_modules_are_left_out_and_later_garbage_is_collected(collector: None):
    leave_out_modules()
    left_out = gc.get_freeze_count()
    assert left_out > 10_000
    later: list[list[object]] = [[] for _ in range(1000)]
    leave_out_modules()
    # Other threads free some objects that were left out.
    assert gc.get_freeze_count() < left_out + len(later)
    circle: list[object] = []
    circle.append(circle)
    del circle
    assert gc.collect() > 0
