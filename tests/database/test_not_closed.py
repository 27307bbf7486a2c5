"""Databases that are never closed: dropped by the program, or open at its end."""

from __future__ import annotations

import pytest

from processes import run_script

# The store's segments are short: after each commit the thread that frees expired space has work,
# which it logs at DEBUG.
SETUP = """
import faulthandler, gc, io, logging
faulthandler.dump_traceback_later(45, exit=True)
logging.basicConfig(level=sys.argv[2], stream=io.StringIO())

def job(number):
    store = hf.stores.versioned("v", history_retention=5, segment_interval=1)
    db = hf.open(f"{sys.argv[1]}/{number}", [store])
    for i in range(3):
        db["v"].put(b"k", b"v", i * 100)
        db.commit()
    return db
"""
DROPPED = """
for number in range(20):
    job(number)
    gc.collect()
print("done")
"""
END = """
db = job(0)
print("done")
"""
LOGGED = """
class Words(logging.Handler):
    def emit(self, record):
        if "reclaim" in record.name:
            logged.add(record.threadName)

logged = set()
logging.getLogger().addHandler(Words())
db = job(0)
for i in range(3, 100_000):
    db["v"].put(b"k", b"v", i * 100)
    db.commit()
    if logged:
        break
print(logged)
"""
END_WITHOUT_DROP = """
import ctypes
db = job(0)
ctypes.pythonapi.Py_IncRef(ctypes.py_object(db))
print("done")
"""


@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
@pytest.mark.parametrize(
    "script", [DROPPED, END, END_WITHOUT_DROP], ids=["dropped", "end", "end without a drop"]
)
def test_a_database_that_was_not_closed_does_not_block_the_end(tmp_path, script, level):
    assert run_script(SETUP + script, tmp_path, level) == "done\n"


# In a separate process, since the level of a logger is cached.
def test_a_commit_or_close_logs_the_messages_of_the_thread_for_expired_space(tmp_path):
    assert run_script(SETUP + LOGGED, tmp_path, "DEBUG") == "{'MainThread'}\n"
