"""A database that another handle, another process or a parent process has open."""

from __future__ import annotations

import os

import pytest

import holdfast as hf
from processes import run_script, running

KV = [hf.stores.key_value("kv")]


def test_a_second_open_in_this_process_names_the_holder(bench):
    with pytest.raises(hf.errors.StoreLockedError, match=rf"{os.getpid()}") as caught:
        hf.open(bench.path, KV)
    assert str(bench.path) in str(caught.value)
    bench.kv.put(b"a", b"1")
    bench.db.commit()


def test_a_second_process_gets_the_pid_of_the_holder(tmp_path):
    holder = """
    db = hf.open(sys.argv[1], [hf.stores.key_value("kv")])
    db["kv"].put(b"a", b"1"); db.commit()
    print("open"); sys.stdin.readline()
    """
    path = tmp_path / "db"
    with running(holder, path) as process:
        assert process.stdout.readline() == "open\n"
        with pytest.raises(hf.errors.StoreLockedError, match=rf"process {process.pid}\b"):
            hf.open(path, KV)
    # The holder is dead, so its lock is released.
    with hf.open(path, KV) as db:
        assert db["kv"].get(b"a") == b"1"


def test_a_process_that_only_built_stores_may_fork(tmp_path):
    script = """
    stores = [hf.stores.key_value("kv")]
    pid = os.fork()
    if pid == 0:
        with hf.open(sys.argv[1], stores) as db:
            db["kv"].put(b"a", b"1"); db.commit()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    with hf.open(sys.argv[1], stores) as db:
        print(db["kv"].get(b"a"))
    """
    assert run_script(script, tmp_path / "db") == "b'1'\n"


def test_a_forked_child_raises_with_the_advice_to_spawn(tmp_path):
    script = """
    stores = [hf.stores.key_value("kv"), hf.stores.versioned("rates", history_retention=10)]
    db = hf.open(sys.argv[1], stores)
    kv, rates = db["kv"], db["rates"]
    kv.put(b"a", b"1"); db.commit(); kv.put(b"b", b"2")
    iterator, reader = kv.range(), kv.range_batches()
    pid = os.fork()
    if pid == 0:
        calls = {
            "get": lambda: kv.get(b"a"), "put": lambda: kv.put(b"a", b"x"),
            "commit": db.commit, "close": db.close,
            "iterator": lambda: next(iterator), "reader": lambda: next(reader),
            "export": reader.__arrow_c_stream__,
            "rates": lambda: rates.get(b"a"),
            "batch": lambda: kv.get_batch(pa.array([b"a"])),
            "view": lambda: kv.read_only().get(b"a"),
            "open": lambda: hf.open(sys.argv[1] + ".child", [hf.stores.key_value("kv")]),
        }
        for name, call in calls.items():
            try:
                call()
                print(name, "worked")
            except hf.errors.ForkedProcessError as error:
                assert str(os.getppid()) in str(error), error
                print(name, "ForkedProcessError")
        sys.stdout.flush()
        sys.exit(0)  # an ordinary end: the child destroys all objects
    _, status = os.waitpid(pid, 0)
    assert status == 0, status
    db.commit()
    print("parent", kv.get(b"a"), kv.get(b"b"), next(iterator))
    db.close()
    """
    printed = run_script(script, tmp_path / "db").splitlines()
    names = [
        "get",
        "put",
        "commit",
        "close",
        "iterator",
        "reader",
        "export",
        "rates",
        "batch",
        "view",
        "open",
    ]
    assert printed == [
        *[f"{name} ForkedProcessError" for name in names],
        "parent b'1' b'2' (b'a', b'1')",
    ]
