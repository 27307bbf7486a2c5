"""What a database has after its process was killed, or closed it."""

from __future__ import annotations

from counting_writer import WRITER, state

import holdfast as hf
from processes import running


def test_a_synced_commit_survives_a_kill(tmp_path):
    with running(WRITER, tmp_path / "db", "SYNC", 20) as process:
        assert process.stdout.readline() == "committed\n"
    assert state(tmp_path / "db", hf.Durability.SYNC) == (b"19", b"19", 19, 19, 21)


def test_t14_without_a_log_a_kill_falls_back_to_one_earlier_commit_of_all_stores(tmp_path):
    with running(WRITER, tmp_path / "db", "CHANGELOG", 2_000) as process:
        assert process.stdout.readline() == "committed\n"
    value, version, stream_time, offset, rows = state(tmp_path / "db", hf.Durability.CHANGELOG)
    if offset is None:
        assert (value, version, stream_time, rows) == (None, None, None, 0)
    else:
        assert (value, version, stream_time, rows) == (
            b"%d" % offset,
            b"%d" % offset,
            offset,
            offset + 2,
        )


def test_a_clean_close_keeps_every_commit_without_a_log(open_bench):
    bench = open_bench(durability=hf.Durability.CHANGELOG)
    bench.kv.put(b"a", b"1")
    bench.db.commit({("log", 0): 1})
    bench.reopen()
    assert bench.kv.get(b"a") == b"1"
    assert bench.db.committed_offset(("log", 0)) == 1
