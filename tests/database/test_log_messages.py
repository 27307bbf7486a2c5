"""The engine's messages reach Python's `logging` when no call holds a lock."""

from __future__ import annotations

from processes import run_script

# In a separate process: a deadlock in this one would block all tests.
CALLS_THE_DATABASE = """
import logging

counts = []

class Counting(logging.Handler):
    def emit(self, record):
        counts.append((record.levelname, db.metrics()["stores"]["rates"]["expired-reads-total"]))
        db["rates"].get(b"EUR")

logging.getLogger().addHandler(Counting())
with hf.open(None, [hf.stores.versioned("rates", history_retention=10)]) as db:
    db["rates"].put(b"EUR", b"v", 1_000)
    assert db["rates"].get(b"EUR", as_of=1) is None
print(counts)
"""

READS_A_STREAM = """
import logging
import pyarrow as pa

counts = []

class Reading(logging.Handler):
    def emit(self, record):
        counts.append(record.levelname)
        db["rates"].get(b"EUR", as_of=1)
        db.close()

logging.getLogger("holdfast_core").addHandler(Reading())
with hf.open(sys.argv[1], [hf.stores.versioned("rates", history_retention=10)]) as db:
    db["rates"].put(b"EUR", b"v", 1_000)
    db.commit()
    rows = pa.table(db["rates"].read_only().scan_batches(1))
print(rows.num_rows, counts)
"""


def test_a_log_handler_may_call_the_database():
    assert run_script(CALLS_THE_DATABASE) == "[('WARNING', 1)]\n"


def test_a_log_handler_may_close_the_database_during_an_exported_scan(tmp_path):
    assert run_script(READS_A_STREAM, tmp_path / "db") == "0 ['WARNING']\n"
