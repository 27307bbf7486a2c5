"""A database whose commits fail, for tests of its user stores."""

from __future__ import annotations

import holdfast as hf


class FailingCore:
    """The extension's database, each commit of which fails before or after its write."""

    def __init__(self, core, *, after: bool) -> None:
        self.core, self.after = core, after

    def __getattr__(self, name: str):
        return getattr(self.core, name)

    def commit(self, *args) -> None:
        if self.after:
            self.core.commit(*args)
        raise OSError("the disk is full")


class InterruptedCore:
    """The extension's database, whose rollback is interrupted, before it begins or at its end."""

    def __init__(self, core, *, rolls_back: bool) -> None:
        self.core, self.rolls_back = core, rolls_back

    def __getattr__(self, name: str):
        return getattr(self.core, name)

    def rollback(self) -> None:
        if self.rolls_back:
            self.core.rollback()
        raise KeyboardInterrupt


def fail_next_commit(db: hf.Database, *, after: bool = False) -> None:
    """Makes every commit of the database fail until `mend`."""
    db._user_stores._core = FailingCore(db._core, after=after)


def mend(db: hf.Database) -> None:
    """Undoes `fail_next_commit`."""
    db._user_stores._core = db._core
