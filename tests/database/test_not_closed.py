"""Databases that nobody closes: what becomes of them when they are let go, and at the program's
end.
"""

from __future__ import annotations

import pytest

from processes import run_script

# A store whose segments are short: each commit lets the thread that frees expired space do
# something, and say so at DEBUG.
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
LET_GO = """
for number in range(20):
    job(number)
    gc.collect()
print("done")
"""
END = """
db = job(0)
print("done")
"""
SAID = """
class Words(logging.Handler):
    def emit(self, record):
        if record.name.startswith("holdfast_core.") and record.name.endswith(".reclaim"):
            said.add(record.threadName)

said = set()
logging.getLogger().addHandler(Words())
db = job(0)
for i in range(3, 100_000):
    db["v"].put(b"k", b"v", i * 100)
    db.commit()
    if said:
        break
print(said)
"""
END_WITHOUT_DROP = """
import ctypes
db = job(0)
ctypes.pythonapi.Py_IncRef(ctypes.py_object(db))
print("done")
"""


@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
@pytest.mark.parametrize(
    "script", [LET_GO, END, END_WITHOUT_DROP], ids=["let go", "end", "end without a drop"]
)
def test_a_database_that_was_not_closed_holds_nobody_up(tmp_path, script, level):
    assert run_script(SETUP + script, tmp_path, level) == "done\n"


# In a process of its own: what a logger's level was once is remembered.
def test_what_the_thread_for_expired_space_says_is_logged_by_a_commit_or_close(tmp_path):
    assert run_script(SETUP + SAID, tmp_path, "DEBUG") == "{'MainThread'}\n"
