"""Interrupts (Ctrl-C) of one user store's call, after an error of another store."""

from __future__ import annotations

import pytest
from two_step_store import LOG, TwoStepStore, opened

import holdfast as hf
from holdfast import _core
from holdfast._user_store.attached import AttachedStore


class Failing(TwoStepStore):
    """A store, some calls of which fail."""

    def __init__(self, name: str, error: BaseException, *calls: str) -> None:
        super().__init__(name)
        self.error, self.calls = error, calls

    def fail(self, call: str) -> None:
        if call in self.calls:
            raise self.error

    def init(self, db: hf.Database) -> None:
        self.fail("init")
        super().init(db)

    def rollback(self) -> None:
        self.fail("rollback")

    def close(self) -> None:
        super().close()
        self.fail("close")


@pytest.mark.parametrize("call", ["rollback", "close"])
def test_an_interrupt_is_raised_before_an_error(tmp_path, call):
    first = Failing("first", OSError("disk"), call)
    second = Failing("second", KeyboardInterrupt(), call)
    third = Failing("third", OSError("network"), call)
    db = opened(tmp_path / "db", first, second, third)
    db.commit({LOG: 1})
    with pytest.raises(KeyboardInterrupt) as raised:
        getattr(db, call)()
    assert [note.split("'")[1] for note in raised.value.__notes__] == ["disk", "network"]
    for store in (first, second, third):
        store.calls = ()
    db.close()
    assert not db.is_open


def test_an_interrupt_while_a_failed_open_closes_is_raised(tmp_path):
    first = Failing("first", KeyboardInterrupt(), "close")
    with pytest.raises(KeyboardInterrupt) as raised:
        opened(tmp_path / "db", first, Failing("second", OSError("disk"), "init"))
    assert "disk" in raised.value.__notes__[0]
    opened(tmp_path / "db").close()


class UnclosableCore:
    """The extension's database, whose flush may be interrupted and whose close fails."""

    def __init__(self, core, *, flushes: bool) -> None:
        self.core, self.flushes = core, flushes

    def __getattr__(self, name: str):
        return getattr(self.core, name)

    def flush(self) -> None:
        if not self.flushes:
            raise KeyboardInterrupt
        self.core.flush()

    def close(self) -> None:
        self.core.close()
        raise OSError("disk")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("init")])
def test_a_failed_open_whose_close_fails_raises_the_first_error(tmp_path, monkeypatch, error):
    fail_closes(monkeypatch, flushes=True)
    with pytest.raises(type(error)) as raised:
        opened(tmp_path / "db", Failing("store", error, "init"))
    assert raised.value is error
    assert error.__notes__ == ["and then: OSError('disk')"]


def test_an_interrupt_of_a_failed_open_is_raised_although_the_close_fails(tmp_path, monkeypatch):
    fail_closes(monkeypatch, flushes=False)
    monkeypatch.setattr(AttachedStore, "close_writes_file", True)
    with pytest.raises(KeyboardInterrupt) as raised:
        opened(tmp_path / "db", TwoStepStore("first"), Failing("second", OSError("data"), "init"))
    assert raised.value.__notes__ == ["and then: OSError('data')", "and then: OSError('disk')"]


def fail_closes(monkeypatch: pytest.MonkeyPatch, *, flushes: bool) -> None:
    """Makes the close of each database fail that is opened after this."""
    open_database = _core.open_database
    monkeypatch.setattr(
        _core,
        "open_database",
        lambda *args: UnclosableCore(open_database(*args), flushes=flushes),
    )
