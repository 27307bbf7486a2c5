"""How a database finds the members of a user store."""

from __future__ import annotations

import inspect

import pytest
from two_step_store import LOG, TwoStepStore, opened

import holdfast as hf
from holdfast._user_store import protocol


class Buffered(TwoStepStore):
    """A store with a property that can be read only after `init`."""

    @property
    def approximate_num_uncommitted_bytes(self) -> int:
        return len(self.pending)

    def init(self, db: hf.Database) -> None:
        super().init(db)
        self.pending: list[int] = []


class Forwarding:
    """A store that forwards all members to another one."""

    def __init__(self, store: TwoStepStore) -> None:
        self._forwarded_to = store

    def __getattr__(self, name: str):
        return getattr(self._forwarded_to, name)


@pytest.mark.parametrize("guarantee", list(hf.ProcessingGuarantee))
@pytest.mark.parametrize("store", [Buffered, lambda: Forwarding(TwoStepStore())])
def test_a_member_that_needs_init_or_is_forwarded_is_found(tmp_path, store, guarantee):
    with opened(tmp_path / "db", store(), guarantee=guarantee) as db:
        db.commit({LOG: 1})
        db["totals"].add(100)
        db.rollback()
        assert db["totals"].sum == 0


def test_a_member_that_is_none_or_missing_is_refused(tmp_path):
    class Disabled(TwoStepStore):
        recover = None

    for store in (Disabled(), Forwarding(Disabled())):
        with pytest.raises(ValueError, match="lacks a member"):
            opened(tmp_path / "db", store)


def test_the_members_are_those_of_the_protocols():
    for kind, members in (
        (hf.UserStateStore, protocol.MEMBERS),
        (hf.TransactionalUserStore, protocol.TRANSACTIONAL_MEMBERS),
    ):
        wanted = {
            name
            for base in kind.__mro__
            if base.__module__ == protocol.__name__
            for name in {*vars(base), *inspect.get_annotations(base)}
            if not name.startswith("_")
        }
        assert set(members) == wanted
