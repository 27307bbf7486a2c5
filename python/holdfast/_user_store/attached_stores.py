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

    The database's commit writes a record with the offsets of each user store after that commit. The
    record decides whether the commits that the stores made just before it are valid. The engine's
    own offsets cannot decide this: a restore or a store in memory changes them. A store that is
    left out keeps its offsets in the record: they are those of its own last commit.
    """

    def __init__(
        self, core: _core.Database, stores: Iterable[AttachedStore], *, has_built_in: bool
    ) -> None:
        """Takes the user stores of an open database. `has_built_in`: it also has built-in ones."""
        self._core = core
        self._has_built_in = has_built_in
        self._stores = {attached.store.name: attached for attached in stores}
        # Those whose `init` has returned.
        self._initialised: list[AttachedStore] = []
        # The record that was last read or written.
        self._record: dict[str, dict[TopicPartition, int]] = {}
        # Partitions of restores since the last commit.
        self._unchecked: set[TopicPartition] = set()
        # The offsets of the stores before a commit that has not succeeded, by name.
        self._before: dict[str, dict[TopicPartition, int]] = {}
        self._topics_in_files = any(
            attached.has_offsets_in_file for attached in self._stores.values()
        )
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
        self._record = self._read_record()
        for attached in self._stores.values():
            opened(attached.store)
            attached.store.init(db)
            self._initialised.append(attached)
            database = self._database_offsets()
            attached.recover(self._offsets_of(attached, database), database)
            recorded = (partition for name in self._stores for partition in self._recorded(name))
            partitions = {*database, *recorded, *attached.recorded_partitions}
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
        - `ValueError` for a commit that moves no offset of a store that needs it,
        - `StateMismatchError`, under exactly-once, for a store that is ahead of the database in a
          partition of which the database has had no commit, and for a transactional store that
          lacks the data of an earlier commit.
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
        # No store needs a rollback, so the offsets of an earlier attempt are no longer of use.
        self._before.clear()
        database = self._database_offsets()
        before = {
            name: self._offsets_of(attached, database) for name, attached in self._stores.items()
        }
        decided = {name: _moved(offsets, rows) for name, offsets in before.items()}
        unmoved = [
            name for name in self._must_move if not _moves(before[name], decided[name], database)
        ]
        if unmoved:
            raise ValueError(
                f"changelog_offsets moves no offset of the user stores {unmoved}, which "
                "distinguish commits by their offsets; give the changelog offsets of the last "
                "writes"
            )
        moved = {(topic, partition) for topic, partition, _ in rows or ()}
        for name in self._must_move:
            self._stores[name].check_restored(decided[name].keys() - moved)
        # A store that manages its offsets does not list its partitions, so `init` has not checked
        # those that the record does not have.
        for name, attached in self._stores.items():
            new = decided[name].keys() - self._recorded(name).keys()
            attached.check_not_ahead(new | self._unchecked, self._offset)
        self._before = before
        for attached in self._stores.values():
            attached.commit(changelog_offsets)
        record = {**self._record, **decided}
        self._core.commit(rows, _bytes(record))
        self._before.clear()
        self._record = record
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
        commits after the last record, also one that is not open now. `greatest` returns the
        greatest offset of a built-in store: a restore only up to that one lets other stores catch
        up, and says nothing about user stores. Returns None if nothing changes.
        """
        if not rows:
            return None
        record, moves = self._read_record(), False
        for topic, partition, offset in rows:
            key = TopicPartition(topic, partition)
            if offset is None:
                continue
            below = [offsets for offsets in record.values() if offsets.get(key, offset) < offset]
            if not below:
                continue
            built_in = greatest(key)
            if built_in is None or offset > built_in:
                moves = True
                for offsets in below:
                    offsets[key] = offset
        return _bytes(record) if moves else None

    def restored(self, rows: list[tuple[str, int, int | None]]) -> None:
        """Reads the record again after a restore with these offsets.

        The next commit checks that no store is ahead of them.
        """
        if self._stores and rows:
            self._record = self._read_record()
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
        self._record = self._read_record()
        database = self._database_offsets()
        raise_first(
            _each(
                self._stores.values(),
                lambda attached: attached.roll_back(self._offsets_of(attached, database), database),
            )
        )
        self._before.clear()

    def close(self) -> list[BaseException]:
        """Closes the stores whose `init` has returned, and writes their checkpoint files.

        Returns the errors.
        """
        errors = _each(self._initialised, lambda attached: attached.close())
        with_file = [attached for attached in self._initialised if attached.close_writes_file]
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
        """Returns the least of `found`, the engine's offset, and the stores' committed offsets.

        None if one of them is None. Without built-in stores only the user stores' offsets count:
        the engine's offset is then the last one that was committed without built-in stores.
        """
        offsets = [self._decided_offset(attached, partition) for attached in self._stores.values()]
        if self._has_built_in or not offsets:
            offsets.append(found)
        known = [offset for offset in offsets if offset is not None]
        return min(known) if len(known) == len(offsets) else None

    def partitions(self) -> set[TopicPartition]:
        """Returns the partitions of the stores' offsets that the database knows."""
        record = self._read_record() if self._stores else {}
        return {
            partition
            for name, attached in self._stores.items()
            for partition in [*record.get(name, {}), *attached.recorded_partitions]
        }

    def _decided_offset(self, attached: AttachedStore, partition: tuple[str, int]) -> int | None:
        """Returns a store's committed offset, without a commit that the database lacks.

        After a commit that failed, the store may have it, and the database's record decides.
        """
        if self._has_built_in or not attached.needs_rollback:
            return attached.committed_offset(partition)
        return self._read_record().get(attached.store.name, {}).get(TopicPartition(*partition))

    @property
    def uncommitted_bytes(self) -> int:
        """The memory of the stores' uncommitted writes."""
        return sum(attached.uncommitted_bytes for attached in self._stores.values())

    def _offset(self, partition: TopicPartition) -> int | None:
        """Returns the offset of the database's last commit, None without one.

        The engine's offset counts if it is greater: the database may have been restored, or opened
        without its user stores.
        """
        offsets = [self._recorded(name).get(partition) for name in self._stores]
        if self._engine_has_offsets:
            offsets.append(self._core.committed_offset(*partition))
        return max((offset for offset in offsets if offset is not None), default=None)

    def _offsets_of(
        self, attached: AttachedStore, database: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Returns the offsets at which the last commit left a store.

        `database` has the database's own offsets. A restore adds no partition to the record, and a
        commit without the store does not change the store's offsets in the record. But if the store
        has been brought to a later offset of the database, it is there from then on.
        """
        recorded = self._recorded(attached.store.name)
        later = {
            partition: offset
            for partition, offset in database.items()
            if partition not in recorded or offset > recorded[partition]
        }
        # After a commit that failed, the store may answer with the offsets of that commit.
        at: Mapping[TopicPartition, int | None] | None = self._before.get(attached.store.name)
        if at is None:
            at = {partition: attached.committed_offset(partition) for partition in later}
        there = {
            partition: offset for partition, offset in later.items() if at.get(partition) == offset
        }
        return {**recorded, **there}

    @property
    def _engine_has_offsets(self) -> bool:
        """Whether the engine's offsets are those of the database.

        Without built-in stores they may be older than the record, which each commit with user
        stores writes.
        """
        return self._has_built_in or not self._record

    def _database_offsets(self) -> dict[TopicPartition, int]:
        if self._engine_has_offsets:
            return _offsets(self._core.committed_offsets())
        greatest: dict[TopicPartition, int] = {}
        # A greater offset of a store that is not open would hide that an open store is ahead.
        for name in self._stores:
            for partition, offset in self._recorded(name).items():
                greatest[partition] = max(offset, greatest.get(partition, offset))
        return greatest

    def _recorded(self, name: str) -> Mapping[TopicPartition, int]:
        """Returns a store's offsets in the record; a store that has not committed has none."""
        return self._record.get(name, {})

    def _read_record(self) -> dict[str, dict[TopicPartition, int]]:
        return user_store_offsets(self._core)


def user_store_offsets(core: _core.Database) -> dict[str, dict[TopicPartition, int]]:
    """Returns the record of the offsets of the user stores with which a database has committed."""
    record = core.user_store_offsets()
    if record is None:
        return {}
    return {name: _offsets(rows) for name, rows in json.loads(record).items()}


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


def _moves(
    before: Mapping[TopicPartition, int],
    decided: Mapping[TopicPartition, int],
    database: Mapping[TopicPartition, int],
) -> bool:
    """Returns whether a commit moves an offset of a store.

    In a partition of which the store has no offset, it must also differ from the database's offset.
    Otherwise the store's undecided commit would look as if the store had been restored.
    """
    known = {**database, **before}
    return any(decided.get(key) != known.get(key) for key in {*decided, *before})


def _offsets(rows: Iterable[tuple[str, int, int]]) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, partition): offset for topic, partition, offset in rows}


def _bytes(record: Mapping[str, Mapping[TopicPartition, int]]) -> bytes:
    return json.dumps(
        {
            name: [[*partition, offset] for partition, offset in offsets.items()]
            for name, offsets in record.items()
        }
    ).encode()


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
