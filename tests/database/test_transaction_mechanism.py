"""`transaction_mechanism`: uncommitted writes in memory, in files, or in memory then files.

Every mechanism gives the same results, for every kind of store.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from processes import running

RC, RU = hf.IsolationLevel.READ_COMMITTED, hf.IsolationLevel.READ_UNCOMMITTED
AUTO, INDEXED_BATCH, SECONDARY_STORE = (
    hf.TransactionMechanism[n] for n in ("AUTO", "INDEXED_BATCH", "SECONDARY_STORE")
)
SPILLING = pytest.mark.parametrize("mechanism", [AUTO, SECONDARY_STORE])

LONG = 1 << 40
BUILDERS = [
    hf.stores.key_value("key_value"),
    hf.stores.timestamped_key_value("timestamped"),
    hf.stores.versioned("versioned", history_retention=LONG),
    hf.stores.window("window", retention=LONG, window_size=5),
    hf.stores.window("duplicates", retention=LONG, window_size=5, retain_duplicates=True),
    hf.stores.timestamped_window("timestamped_window", retention=LONG, window_size=5),
    hf.stores.session("session", retention=LONG),
]
NAMES = [builder.name for builder in BUILDERS]
# 120 rows of a store, of which 20 are deletes, are 1.14 MiB: more than the 1 MiB that
# SECONDARY_STORE holds in memory.
MANY, VALUE = 120, b"v" * 12_000
# The limit at which AUTO continues in files; a few rows of each store stay below it.
LIMIT = 1_000_000


def opened(
    path: Path | None, mechanism: hf.TransactionMechanism, names: list[str] = NAMES
) -> hf.Database:
    builders = [builder for builder in BUILDERS if builder.name in names]
    limit = LIMIT if mechanism is AUTO else 64 << 20
    return hf.open(path, builders, transaction_mechanism=mechanism, uncommitted_max_bytes=limit)


def write(store: Any, rows: range) -> None:
    """Overwrites and deletes among few keys; a row's content follows from its number."""
    for n in rows:
        key, value = b"k%d" % (n % 35), b"%d %s" % (n, VALUE)
        deleted = n % 6 == 5
        match store.name:
            case "key_value":
                store.put(key, None if deleted else value)
            case "timestamped" | "versioned":
                store.put(key, None if deleted else value, n)
            case "window" | "duplicates":
                store.put(key, None if deleted else value, n % 50)
            case "timestamped_window":
                store.put(key, None if deleted else value, n % 50, n)
            case _:
                session = hf.WindowedKey(key, n % 50, n % 50 + 3)
                store.remove(session) if deleted else store.put(session, value)


def scan(store: Any, name: str) -> Iterator[Any]:
    if name == "versioned":
        return store.versions_range(None, None, 0, LONG)
    if name == "session":
        return store.find_sessions(None, 0, LONG, key_to=None)
    return store.all() if "window" in name or name == "duplicates" else store.range()


def short(row: Any) -> str:
    """Returns a row without the long part of its value, so that failures are readable."""
    return str(row).replace(VALUE.decode(), "")


def rows(store: Any, name: str) -> list[str]:
    return [short(row) for row in scan(store, name)]


def everything(db: hf.Database, level: hf.IsolationLevel | None = None) -> dict[str, list[str]]:
    """Returns all rows of all stores, as the writer or a reader sees them."""
    stores = {
        name: db[name] if level is None else db[name].read_only(level) for name in db.store_names()
    }
    return {name: rows(store, name) for name, store in stores.items()}


def is_spilled(path: Path) -> bool:
    folder = path / "+uncommitted"
    return folder.exists() and any(folder.iterdir())


def committed(*parts: range) -> dict[str, list[str]]:
    """Returns the rows of all stores after commits of these numbers."""
    with opened(None, INDEXED_BATCH) as db:
        for part in parts:
            for name in NAMES:
                write(db[name], part)
            db.commit()
        return everything(db)


FIRST, SECOND, THIRD = range(MANY), range(MANY, 2 * MANY), range(2 * MANY, 3 * MANY)


@pytest.mark.parametrize("name", NAMES)
def test_every_mechanism_gives_the_same_answers(memory_path, name):
    answers = {}
    for place in ("files", "memory"):
        for mechanism in hf.TransactionMechanism:
            path = memory_path / mechanism.value if place == "files" else None
            found: list[Any] = []
            with opened(path, mechanism, [name]) as db:

                def read_all(db: hf.Database = db, found: list[Any] = found) -> None:
                    found.extend(rows(db[name].read_only(level), name) for level in (RC, RU))
                    found.append(rows(db[name], name))

                for part, end in (
                    (FIRST, db.commit),
                    (SECOND, db.rollback),
                    (THIRD, db.commit),
                ):
                    write(db[name], part)
                    if path:
                        assert is_spilled(path) == (mechanism is not INDEXED_BATCH)
                    read_all()
                    end()
                    if path:
                        assert not is_spilled(path)
                        assert not (path / "+commit").exists()
                    read_all()
            if path:
                with opened(path, mechanism, [name]) as db:
                    assert rows(db[name], name) == found[-1]
            answers[place, mechanism] = found
    expected = answers["files", INDEXED_BATCH]
    assert all(len(one) > 10 for one in expected[1:])
    for how, found in answers.items():
        assert found == expected, how


@SPILLING
def test_readers_do_not_see_a_spill_in_mid_transaction(memory_path, mechanism):
    def held(db: hf.Database, level: hf.IsolationLevel) -> dict[str, Iterator[Any]]:
        return {name: scan(db[name].read_only(level), name) for name in NAMES}

    with opened(memory_path / "db", mechanism) as db:
        for name in NAMES:
            write(db[name], FIRST)
        db.commit()
        before = everything(db)
        for name in NAMES:
            # Little enough to stay in memory.
            write(db[name], range(MANY, MANY + 2))
        assert not is_spilled(memory_path / "db")
        staged = everything(db)
        assert staged != before
        views = [(held(db, RC), before), (held(db, RU), staged)]
        begun = [
            {name: [short(next(iterator))] for name, iterator in view.items()} for view, _ in views
        ]
        for name in NAMES:
            write(db[name], SECOND)
        assert is_spilled(memory_path / "db")
        assert everything(db, RC) == before
        assert everything(db, RU) == everything(db)
        views += [(held(db, RC), before), (held(db, RU), everything(db))]
        begun += [{name: [] for name in NAMES} for _ in range(2)]
        db.commit()
        for name in NAMES:
            write(db[name], THIRD)
        for (view, expected), first in zip(views, begun, strict=True):
            found = {
                name: first[name] + [short(row) for row in iterator]
                for name, iterator in view.items()
            }
            assert found == expected
        db.rollback()
        assert everything(db) == everything(db, RC) == everything(db, RU)


@SPILLING
def test_recover_drops_what_was_spilled(memory_path, mechanism):
    with opened(memory_path / "db", mechanism) as db:
        for name in NAMES:
            write(db[name], FIRST)
        db.commit({("log", 0): 1})
        for name in NAMES:
            write(db[name], SECOND)
        assert is_spilled(memory_path / "db")
        assert db.recover({("log", 0): 1}) == {("log", 0): 1}
        assert not is_spilled(memory_path / "db")
        assert everything(db) == everything(db, RU) == committed(FIRST)
        for name in NAMES:
            write(db[name], THIRD)
        db.commit({("log", 0): 2})
        assert everything(db) == committed(FIRST, THIRD)


CHILD = """
    folder = sys.argv[1]
    sys.path[:0] = [folder, os.path.dirname(folder)]
    from pathlib import Path
    from test_transaction_mechanism import MANY, NAMES, is_spilled, opened, write
    path, mechanism = Path(sys.argv[2]), hf.TransactionMechanism(sys.argv[3])
    db = opened(path, mechanism)
    for n in range(int(sys.argv[4])):
        for name in NAMES:
            write(db[name], range(n * MANY, (n + 1) * MANY))
        print(n + 1, is_spilled(path), flush=True)
        db.commit({("log", 0): n + 1})
"""


@pytest.mark.parametrize("mechanism", list(hf.TransactionMechanism))
def test_a_kill_leaves_the_last_commit(memory_path, mechanism):
    script = (
        CHILD
        + """
    for name in NAMES:
        write(db[name], range(MANY, 2 * MANY))
    print(is_spilled(path), flush=True)
    os.kill(os.getpid(), 9)
    """
    )
    with running(script, Path(__file__).parent, memory_path / "db", mechanism.value, 1) as child:
        spilled = [line.split()[-1] == "True" for line in child.stdout]
        assert child.wait() == -signal.SIGKILL
    assert spilled == [mechanism is not INDEXED_BATCH] * 2
    with opened(memory_path / "db", mechanism) as db:
        assert not is_spilled(memory_path / "db")
        assert db.recover({("log", 0): 1}) == {("log", 0): 1}
        assert everything(db) == committed(FIRST)
        for name in NAMES:
            write(db[name], SECOND)
        db.commit({("log", 0): 2})
        assert everything(db) == committed(FIRST, SECOND)


@SPILLING
def test_a_commit_killed_after_its_commit_file_is_completed(memory_path, mechanism):
    for attempt in range(20):
        path = memory_path / str(attempt)
        commit_file = path / "+commit" / "COMMIT"
        with running(CHILD, Path(__file__).parent, path, mechanism.value, 3) as child:
            while not commit_file.exists() and child.poll() is None:
                pass
            child.kill()
            attempted = len(child.stdout.readlines())
        if commit_file.exists():
            break
    else:
        pytest.fail("no kill came between the commit file and its removal")
    parts = [FIRST, SECOND, THIRD][:attempted]
    with opened(path, mechanism) as db:
        assert db.committed_offsets() == {("log", 0): attempted}
        assert db.recover({("log", 0): attempted}) == {("log", 0): attempted}
        assert everything(db) == everything(db, RC) == committed(*parts)
    assert not (path / "+commit").exists()
