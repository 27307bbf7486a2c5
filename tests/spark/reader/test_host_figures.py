"""The figures that a reader gets from state hosts."""

from __future__ import annotations

import shutil
from typing import Any

from reading import connect, same_value, stored
from streams import KEYS, Stream


def figures(stream: Stream) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Returns how often each part of the host's memory was outgrown, and its partitions."""
    with connect(stream, offline="never") as reader:
        (host,) = reader.metrics()
    return {part["part"]: part["spills"] for part in host["memory"]}, host["partitions"]


def test_a_session_that_outgrows_its_memory_is_counted(stream: Stream):
    same_value(stream, 0)
    stream.run(stored(stream, state=stream.state(memory="1m")))
    small, partitions = figures(stream)
    # The host drops a staged epoch if other queries of the tests need the memory.
    for prepared in (partition["prepared"] for partition in partitions):
        assert (prepared["bytes"] > 0) == (prepared["epochs"] > 0)
    assert all(partition["restore"] is None for partition in partitions)
    stream.batch(left=[(f"key {n}", 1, n) for n in range(20_000)])
    stream.run(stored(stream, state=stream.state(memory="1m")), each=lambda frame, _: frame.count())
    large, partitions = figures(stream)
    assert large["sorting"] > small["sorting"]
    assert large["uncommitted"] > small["uncommitted"]
    assert large["write_buffers"] == 0
    with connect(stream, offline="never") as reader:
        assert reader["table"].scan().read_all().num_rows == len(KEYS) + 20_000


def test_damage_counts_as_a_rebuild_and_a_rewind_does_not(stream: Stream):
    def rebuilds() -> int:
        return sum(partition["snapshots"]["rebuilds"] for partition in figures(stream)[1])

    for epoch in range(2):
        same_value(stream, epoch)
    stream.run(stored(stream))
    stream.rewind(1)
    same_value(stream, 2)
    stream.run(stored(stream))
    assert rebuilds() == 0
    shutil.rmtree(stream.root / "state")
    same_value(stream, 3)
    stream.run(stored(stream))
    assert rebuilds() == stream.partitions
