"""A database with user stores in a forked child of its process."""

from __future__ import annotations

from pathlib import Path

from processes import running

CLOSES = """
sys.path.insert(0, sys.argv[2])
from one_step_store import OneStepStore
from two_step_store import opened

class Store(OneStepStore):
    def close(self):
        print("closes", os.getpid() == parent)

parent = os.getpid()
db = opened(sys.argv[1], Store())
child = os.fork()
if child == 0:
    for _ in range(2):
        try:
            db.close()
        except hf.errors.ForkedProcessError:
            print("refused")
    os._exit(0)
os.waitpid(child, 0)
db.close()
"""


def test_a_close_in_a_forked_child_closes_no_user_store(tmp_path):
    with running(CLOSES, tmp_path / "db", Path(__file__).parent) as process:
        printed, _ = process.communicate(timeout=60)
    assert printed.splitlines() == ["refused", "refused", "closes True"]
