"""The user stores of a database, which are opened, committed and rolled back with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from holdfast._offsets import TopicPartition
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from holdfast import _core
    from holdfast._user_store.attached import AttachedStore
    from holdfast._user_store.protocol import UserStateStore


class AttachedStores:
    """The user stores of one database, in `open`'s order.

    The database's commit writes a record with the offsets of that commit. The record decides
    whether the commits that the stores made just before it are valid. The engine's own offsets
    cannot decide this: they are by store, and a restore or a store in memory changes them.
    """

    def __init__(self, core: _core.Database, stores: Iterable[AttachedStore]) -> None:
        """Takes the stores of an open database."""
        self._core = core
        self._stores = {attached.store.name: attached for attached in stores}
        # Those whose `init` has returned.
        self._initialised: list[AttachedStore] = []
        # The record that was last read or written, and its offsets.
        self._record: bytes | None = None
        self._decided: dict[TopicPartition, int] = {}
        # Partitions of restores since the last commit.
        self._unchecked: set[TopicPartition] = set()
        # The offsets of the stores before a commit that has not succeeded, by name.
        self._before: dict[str, dict[TopicPartition, int]] = {}
        self._topics_in_files = any(attached.keeps_file for attached in self._stores.values())
        self._must_move = [
            name for name, attached in self._stores.items() if attached.must_move_offsets
        ]

    def get(self, name: str) -> AttachedStore | None:
        """Returns the store of this name, None without one."""
        return self._stores.get(name)

    def init(self, db: Any, opened: Callable[[UserStateStore], None]) -> None:
        """Opens the stores at the database's last commit; `opened` is called before each `init`.

        If this fails, the caller calls `close`.
        """
        if not self._stores:
            return
        self._set_record(self._core.user_store_offsets())
        for attached in self._stores.values():
            opened(attached.store)
            attached.store.init(db)
            self._initialised.append(attached)
            restored = self._restored_offsets()
            attached.recover(self._offsets_of([attached], restored))
            partitions = [*self._decided, *restored, *attached.recorded_partitions]
            attached.check_not_ahead(partitions, self._offset)
        # Only after all stores are open: if one fails, the last stop still counts as clean.
        for attached in self._stores.values():
            attached.begin()

    def commit(
        self,
        changelog_offsets: Mapping[tuple[str, int], int | None] | None,
        rows: list[tuple[str, int, int | None]] | None,
    ) -> None:
        """Commits the stores, then the database.

        Before any store commits, raises

        - `HoldfastError` for a store that needs a rollback,
        - what a commit of the database would raise,
        - `ValueError` for a commit that moves no offset although a store needs it,
        - `StateMismatchError`, under exactly-once, for a store that is ahead of the database in a
          partition of which the database has had no commit.
        """
        if not self._stores:
            self._core.commit(rows, None)
            return
        for name, attached in self._stores.items():
            if attached.needs_rollback:
                raise HoldfastError(
                    f"store {name}: it may have writes that its database does not have, because a "
                    "commit or a rollback failed; call rollback() to go on from the last commit"
                )
        self._core.check_commit(rows, self._topics_in_files)
        restored = self._restored_offsets()
        of_stores = self._offsets_of(self._stores.values(), restored)
        decided = _moved(of_stores, rows)
        known = {**restored, **of_stores}
        moves = any(decided.get(key) != known.get(key) for key in {*decided, *of_stores})
        if self._must_move and not moves:
            raise ValueError(
                "changelog_offsets moves no offset, and the user stores "
                f"{self._must_move} distinguish commits by their offsets; give the changelog "
                "offsets of the last writes"
            )
        # A store that manages its offsets does not list its partitions, so `init` has not checked
        # those that the record does not have.
        new = {partition for partition in decided if partition not in self._decided}
        for attached in self._stores.values():
            attached.check_not_ahead(new | self._unchecked, self._offset)
        self._before = {
            name: self._offsets_of([attached], restored) for name, attached in self._stores.items()
        }
        for attached in self._stores.values():
            attached.commit(changelog_offsets)
        record = _record(decided)
        self._core.commit(rows, record)
        self._before.clear()
        self._set_record(record)
        self._unchecked.clear()
        for attached in self._stores.values():
            attached.decided(changelog_offsets)

    def record_of_restore(
        self,
        rows: list[tuple[str, int, int | None]],
        greatest: Callable[[TopicPartition], int | None],
    ) -> bytes | None:
        """Returns the record of user stores' offsets after a restore with these offsets.

        Without the new record, a user store that has the records up to these offsets would drop its
        commits after the last record. `greatest` returns the greatest offset of a built-in store: a
        restore only up to that one lets other stores catch up, and says nothing about user stores.
        Returns None if nothing changes.
        """
        record = self._core.user_store_offsets()
        if not rows or record is None:
            return None
        recorded, moved = _recorded(record), {}
        for topic, partition, offset in rows:
            key = TopicPartition(topic, partition)
            if offset is None or key not in recorded:
                continue
            built_in = greatest(key)
            if offset > recorded[key] and (built_in is None or offset > built_in):
                moved[key] = offset
        return _record({**recorded, **moved}) if moved else None

    def restored(self, rows: list[tuple[str, int, int | None]]) -> None:
        """Reads the offsets again after a restore with these offsets.

        The next commit checks that no store is ahead of them.
        """
        if self._stores and rows:
            record = self._core.user_store_offsets()
            moved = {
                partition: offset
                for partition, offset in _recorded(record).items()
                if self._decided.get(partition) != offset
            }
            for before in self._before.values():
                before.update(moved)
            self._set_record(record)
            self._unchecked.update(TopicPartition(*row[:2]) for row in rows)

    def begin_rollback(self) -> None:
        """Marks the stores before the database's rollback: no commit until `roll_back` succeeds.

        An error or an interrupt (Ctrl-C) may come before a store is called. The database has then
        dropped its writes, and the store has not.
        """
        for attached in self._stores.values():
            attached.begin_rollback()

    def roll_back(self) -> None:
        """Brings the stores to the database's last commit.

        Called after `begin_rollback` and the database's rollback. Calls all stores, then raises the
        first error.
        """
        if not self._stores:
            return
        record = self._core.user_store_offsets()
        if record != self._record:
            # The commit that failed was written: it may have removed partitions.
            self._before.clear()
        self._set_record(record)
        raise_first(
            _each(
                self._stores.values(),
                lambda attached: attached.roll_back(self._last_commit(attached)),
            )
        )
        self._before.clear()

    def close(self) -> list[BaseException]:
        """Closes the stores whose `init` has returned, and writes their checkpoint files.

        Returns the errors.
        """
        errors = _each(self._initialised, lambda attached: attached.close())
        with_file = [attached for attached in self._initialised if attached.gets_file]
        if not with_file:
            return errors
        # Without a log, the last commits may be in memory only: a checkpoint file with their
        # offsets would put the store ahead of its database. The close of the database flushes, too,
        # but unlocks the directory: the next open could then miss the file.
        try:
            self._core.flush()
        except Exception as error:  # noqa: BLE001  # the caller raises it, after all calls
            return [*errors, error]
        return [*errors, *_each(with_file, lambda attached: attached.write_offsets())]

    def least_offset(self, partition: tuple[str, int], found: int | None) -> int | None:
        """Returns the least of `found` and the stores' committed offsets.

        None if `found` or the offset of a store is None.
        """
        for attached in self._stores.values():
            offset = attached.committed_offset(partition)
            found = None if offset is None or found is None else min(found, offset)
        return found

    @property
    def uncommitted_bytes(self) -> int:
        """The memory of the stores' uncommitted writes."""
        return sum(attached.uncommitted_bytes for attached in self._stores.values())

    def _offset(self, partition: TopicPartition) -> int | None:
        """Returns the offset of the database's last commit, None without one.

        The engine's own offset counts if it is greater: the database may have been restored, or
        opened without its user stores.
        """
        offsets = (self._decided.get(partition), self._core.committed_offset(*partition))
        return max((offset for offset in offsets if offset is not None), default=None)

    def _offsets_of(
        self, stores: Iterable[AttachedStore], restored: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Returns the offsets at which the last commit left these stores.

        A restore adds no partition to the record, and a commit of the database without its user
        stores does not change it. So the record of a store that was added later may lack partitions
        that the database has. But if a transactional store has been brought to the database's
        offset, which is in `restored`, the store is there from then on. For several stores, an
        offset of the record moves only if all of them are there.
        """
        transactional = [attached for attached in stores if attached.is_transactional]
        moved = {}
        for partition, offset in restored.items():
            there = [attached.committed_offset(partition) == offset for attached in transactional]
            if any(there) and (partition not in self._decided or all(there)):
                moved[partition] = offset
        return {**self._decided, **moved}

    def _last_commit(self, attached: AttachedStore) -> dict[TopicPartition, int]:
        """Returns the offsets of a store's last decided commit.

        After a commit that failed, the store may answer with the offsets of that commit.
        """
        before = self._before.get(attached.store.name)
        if before is None:
            return self._offsets_of([attached], self._restored_offsets())
        return before

    def _restored_offsets(self) -> dict[TopicPartition, int]:
        """Returns the database's offsets that the record does not have, or that are above it."""
        offsets = _offsets(self._core.committed_offsets())
        return {
            partition: offset
            for partition, offset in offsets.items()
            if partition not in self._decided or offset > self._decided[partition]
        }

    def _set_record(self, record: bytes | None) -> None:
        self._record, self._decided = record, _recorded(record)


def raise_first(errors: list[BaseException]) -> None:
    """Raises the first error, with the others as notes.

    An interrupt (Ctrl-C) precedes all errors: a caller that handles an error must not swallow it.
    """
    if not errors:
        return
    first = next((error for error in errors if not isinstance(error, Exception)), errors[0])
    for other in errors:
        if other is not first:
            first.add_note(f"and then: {other!r}")
    raise first


def _moved(
    offsets: Mapping[TopicPartition, int], rows: list[tuple[str, int, int | None]] | None
) -> dict[TopicPartition, int]:
    """Returns the offsets after a commit with these rows."""
    if rows is None:
        return dict(offsets)
    moved = dict(offsets) if rows else {}
    for topic, partition, offset in rows:
        if offset is None:
            moved.pop(TopicPartition(topic, partition), None)
        else:
            moved[TopicPartition(topic, partition)] = offset
    return moved


def _offsets(rows: Iterable[tuple[str, int, int]]) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, partition): offset for topic, partition, offset in rows}


def _recorded(record: bytes | None) -> dict[TopicPartition, int]:
    """Returns the offsets of a record; a database without commits with user stores has none."""
    return {} if record is None else _offsets(json.loads(record))


def _record(offsets: Mapping[TopicPartition, int]) -> bytes:
    return json.dumps([[*partition, offset] for partition, offset in offsets.items()]).encode()


def _each(
    stores: Iterable[AttachedStore], call: Callable[[AttachedStore], None]
) -> list[BaseException]:
    """Calls a function with each store and returns the errors."""
    errors: list[BaseException] = []
    for attached in stores:
        try:
            call(attached)
        except BaseException as error:  # noqa: BLE001  # the caller raises it, after all calls
            errors.append(error)
    return errors
