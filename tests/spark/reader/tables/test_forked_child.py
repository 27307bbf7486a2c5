"""Reads in a forked child, which does not have its parent's threads."""

from __future__ import annotations

import pytest
from reading import counted_windows
from streams import Stream

from processes import run_script

READS = """
def rows(path):
    return hf.connect(path, offline="only")["windows"].scan().read_all().num_rows

def changes(path):
    return hf.connect(path, offline="only")["windows"].changes().read_all().num_rows

def pickled(path):
    table = pickle.loads(PICKLED)
    return table.scan().read_all().num_rows

def in_child(read, path):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        signal.alarm(30)  # a read that hangs ends the child
        try:
            print("rows", read(path))
        except hf.errors.ForkedProcessError:
            print("ForkedProcessError")
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

import pickle, signal
path = sys.argv[1]
PICKLED = pickle.dumps(hf.connect(path, offline="only")["windows"])
"""


@pytest.mark.parametrize("parent", ["rows(path)", "hf.open(None, []).close()"])
@pytest.mark.parametrize("read", ["rows", "changes", "pickled"])
def test_a_child_of_a_process_with_a_copy_or_database_makes_no_copy(
    stream: Stream, parent: str, read: str
):
    stream.batch(left=[("a", 1, 1)])
    stream.run(counted_windows(stream))
    script = f"{READS}\n{parent}\nin_child({read}, path)"
    assert run_script(script, stream.root) == "ForkedProcessError\n"


@pytest.mark.parametrize("read", ["rows", "changes", "pickled"])
def test_a_child_of_a_process_that_only_connected_makes_copies(stream: Stream, read: str):
    stream.batch(left=[("a", 1, 1)])
    stream.run(counted_windows(stream))
    assert run_script(f"{READS}\nin_child({read}, path)", stream.root) == "rows 1\n"
