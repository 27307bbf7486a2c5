"""Objects that notebooks show have a repr that says what they are."""

from __future__ import annotations

import pickle
from pathlib import Path

import holdfast as hf
import holdfast.spark as hfs


def test_a_state_shows_its_root_its_partitions_and_its_operators(tmp_path: Path):
    state = hfs.State(str(tmp_path), partitions=4)
    assert repr(state) == f"State('{tmp_path}', partitions=4)"
    state.claim(["totals", "join"], None)
    assert repr(state) == f"State('{tmp_path}', partitions=4, operators=['join', 'totals'])"


def test_a_state_does_not_show_the_secret_of_its_process(tmp_path: Path):
    state = hfs.State(str(tmp_path))
    assert state.writer_secret is not None
    assert len(state.writer_secret) == 64
    assert state.writer_secret not in repr(state)
    # A query may have several states of one root, in its plan and in a foreachBatch function.
    assert hfs.State(str(tmp_path)).writer_secret == state.writer_secret
    assert pickle.loads(pickle.dumps(state)).writer_secret == state.writer_secret


def test_a_state_shows_that_it_is_at_least_once(tmp_path: Path):
    state = hfs.State(str(tmp_path), processing_guarantee="at_least_once")
    assert repr(state).endswith("partitions=16, processing_guarantee='at_least_once')")


def test_a_scratch_state_shows_its_partitions():
    assert repr(hfs.State.scratch(partitions=2)) == "State.scratch(partitions=2)"


def test_windows_show_durations():
    assert repr(hfs.window("1 hour", "30 minutes")) == "Window(length='1:00:00', slide='0:30:00')"
    assert repr(hfs.sliding_window("10 seconds")) == "SlidingWindow(length='0:00:10')"
    assert repr(hfs.session_window("2 days")) == "SessionWindow(gap='2 days, 0:00:00')"


def test_a_processors_store_shows_that_it_is_a_processors():
    from holdfast.spark.worker.processor.stores import ProcessorStores

    stores = ProcessorStores(None, [hf.stores.key_value("hits")], [])  # type: ignore[arg-type]
    assert "'hits'" in repr(stores["hits"])
    assert "a processor's session" in repr(stores["hits"])
