"""A user store inside a database, with its offsets."""

from __future__ import annotations

import errno
import logging
import shutil
from typing import TYPE_CHECKING

from holdfast._offsets import TopicPartition
from holdfast._options import ProcessingGuarantee
from holdfast._user_store import checkpoint_file
from holdfast._user_store.protocol import as_transactional
from holdfast.errors import StateMismatchError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from pathlib import Path

    from holdfast._user_store.protocol import UserStateStore

_log = logging.getLogger("holdfast")
_warned: set[str] = set()


def _is_deleted(folder: Path) -> bool:
    """Whether nothing has this name. A link to a disk that is not mounted is there."""
    try:
        folder.lstat()
    except FileNotFoundError:
        return True
    return False


def _has_files(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def _discard(store: str, folder: Path) -> None:
    """Deletes a store's folder.

    Of a link it deletes only the link, since its target may have other files. A folder that is a
    mount point becomes empty.
    """
    if not folder.is_symlink():
        try:
            shutil.rmtree(folder)
        except OSError as error:
            if error.errno != errno.EBUSY or _has_files(folder):
                raise
        return
    _log.warning(
        "store %s: its folder was a link to %s, which stays as it is; the store's new folder is in "
        "the database's directory",
        store,
        folder.readlink(),
    )
    folder.unlink()


class AttachedStore:
    """A user store of a database, with its offsets if it does not manage them itself."""

    def __init__(
        self,
        store: UserStateStore,
        directory: Path | None,
        guarantee: ProcessingGuarantee,
        *,
        has_committed: bool,
    ) -> None:
        """Reads the store's checkpoint file. `has_committed`: the database has commits with it.

        If the store has a folder and no such file, the last stop was unclean, or the store managed
        its offsets then. The offsets of its data are unknown: exactly-once deletes the folder. If
        the store has used a folder that was deleted, the offsets are wrong: the file is deleted.

        Raises `StateMismatchError` for a folder with files that cannot be the store's.
        """
        self.store = store
        self._exactly_once = guarantee is ProcessingGuarantee.EXACTLY_ONCE
        self._offsets: dict[TopicPartition, int] = {}
        self._has_begun = False
        self._is_closed = False
        # A commit or a rollback has begun, and the database has not ended it.
        self._needs_rollback = False
        # The store has committed, and the database has not.
        self._is_ahead = False
        # The offsets of the last commit, if `recover` found the store empty since.
        self._lacking: dict[TopicPartition, int] = {}
        self._transactional = as_transactional(store)
        file = (
            directory / f".checkpoint_{store.name}"
            if directory is not None and store.persistent
            else None
        )
        # Beside the file, while the store has used its folder.
        mark = None if file is None else file.with_name(f".folder_{store.name}")
        self._file, self._folder_mark = (None, None) if store.manages_offsets else (file, mark)
        # Of an earlier open in which the store did not manage its offsets.
        self._old_file, self._old_mark = (file, mark) if store.manages_offsets else (None, None)
        if self._file is None or self._folder_mark is None or directory is None:
            return
        if store.name not in _warned:
            _warned.add(store.name)
            _log.warning(
                "store %s: it is persistent and does not manage its offsets, so they are in a "
                "separate file (%s); commit them with the store's data, and set manages_offsets",
                store.name,
                self._file.name,
            )
        folder = directory / store.name
        if (offsets := checkpoint_file.read(self._file)) is not None:
            if not _is_deleted(folder) or not self._folder_mark.exists():
                self._offsets = offsets
                return
            _log.warning(
                "store %s: its folder is missing, so its file %s is deleted, too; "
                "restore it from its changelog",
                store.name,
                self._file.name,
            )
            # Before `init`, which may create the folder again: this open may fail after that.
            checkpoint_file.remove(self._file)
            self._folder_mark.unlink()
        elif self._exactly_once and _has_files(folder):
            if not has_committed and not self._folder_mark.exists():
                raise StateMismatchError(
                    f"store {store.name}: the files in {folder} may not be its own, since it has "
                    "no commits in this database and no record that it used this folder; move "
                    "them to another place, or give the store another name"
                )
            _log.warning(
                "store %s: discarded, since it has no file %s: its database was not closed, or the "
                "store managed its offsets itself before; restore it from its changelog",
                store.name,
                self._file.name,
            )
            _discard(store.name, folder)
            self._folder_mark.unlink(missing_ok=True)
        elif _is_deleted(folder):
            # The file was deleted with the folder. The next one may be of a store without a folder.
            self._folder_mark.unlink(missing_ok=True)

    @property
    def has_offsets_in_file(self) -> bool:
        """Whether the store's offsets are in a text file."""
        return self._file is not None

    def mark_folder(self) -> None:
        """Records that the store uses its folder; the caller syncs the database's directory.

        A later open then detects that the folder was deleted.
        """
        if self._folder_mark is not None:
            self._folder_mark.touch()

    @property
    def recorded_partitions(self) -> list[TopicPartition]:
        """The partitions of the offsets that the database keeps for the store."""
        return list(self._offsets)

    @property
    def must_move_offsets(self) -> bool:
        """Whether each commit must move an offset: the store distinguishes commits by offsets."""
        return self._exactly_once and self._transactional is not None

    @property
    def needs_rollback(self) -> bool:
        """Whether a rollback is due: the store may have writes that its database does not have."""
        return self._needs_rollback

    @property
    def uncommitted_bytes(self) -> int:
        """The memory of the store's uncommitted writes; 0 if the store does not report this."""
        return int(getattr(self.store, "approximate_num_uncommitted_bytes", 0))

    def begin(self) -> None:
        """Begins the use of the store; called when all stores of the database are open.

        Under exactly-once this deletes the checkpoint file: only a clean close writes it again. The
        files of a store that manages its offsets now are always deleted: its offsets would be too
        old if the store stopped managing them, and the store may no longer use its folder.
        """
        # First: if the removal fails or is interrupted, the close writes the file again.
        self._has_begun = True
        if self._file is not None and self._exactly_once:
            checkpoint_file.remove(self._file)
        if self._old_file is not None and self._old_file.exists():
            checkpoint_file.remove(self._old_file)
        # Last: without the mark, an open would accept the file of a folder that was deleted.
        if self._old_mark is not None:
            self._old_mark.unlink(missing_ok=True)

    def commit(self, offsets: Mapping[tuple[str, int], int | None] | None) -> None:
        """Commits the store; `decided` follows if the database commits, else a rollback is due."""
        self._needs_rollback = True
        # An interrupt (Ctrl-C) may come after the store has committed.
        self._is_ahead = True
        try:
            self.store.commit(offsets)
        except Exception:
            self._is_ahead = False
            raise

    def decided(self, offsets: Mapping[tuple[str, int], int | None] | None) -> None:
        """Records the offsets of a commit that the database has made."""
        moved = None if self.store.manages_offsets else offsets
        if moved is not None:
            self._move_offsets(moved)
        self._lacking = {}
        # Last: after an interrupt before this, the close writes no file with the old offsets.
        self._needs_rollback = self._is_ahead = False
        if moved is not None and not self._exactly_once:
            self.write_offsets()

    def _move_offsets(self, offsets: Mapping[tuple[str, int], int | None]) -> None:
        if not offsets:
            self._offsets.clear()
        for partition, offset in offsets.items():
            if offset is None:
                self._offsets.pop(TopicPartition(*partition), None)
            else:
                self._offsets[TopicPartition(*partition)] = offset

    def begin_rollback(self) -> None:
        """Marks the store: it needs a rollback until `roll_back` has succeeded."""
        self._needs_rollback = True

    def roll_back(
        self, offsets: Mapping[TopicPartition, int], database: Mapping[TopicPartition, int]
    ) -> None:
        """Drops the store's uncommitted writes if it has `rollback`, and recovers it."""
        rollback = getattr(self.store, "rollback", None)
        if rollback is not None:
            rollback()
        self.recover(offsets, database)

    def recover(
        self, offsets: Mapping[TopicPartition, int], database: Mapping[TopicPartition, int]
    ) -> None:
        """Brings a transactional store to the database's last commit with it, at these offsets.

        `database` has the database's own offsets, for the error.

        Raises `StateMismatchError` under exactly-once if the store is then at other offsets, and
        for a store without transactions that has committed what the database has not.
        """
        if self._transactional is not None:
            answer = self._transactional.recover(dict(offsets))
            at = {TopicPartition(*partition): offset for partition, offset in answer.items()}
            if self._exactly_once and at and at != dict(offsets):
                raise StateMismatchError(self._not_at(at, offsets, database))
            self._lacking = {} if at else dict(offsets)
        elif self._is_ahead and self._exactly_once:
            raise StateMismatchError(
                f"store {self.store.name}: it may have committed writes that its database does not "
                f"have, and it is not transactional; close the database, {self._ways_out}"
            )
        self._needs_rollback = self._is_ahead = False

    def _not_at(
        self,
        at: Mapping[TopicPartition, int],
        offsets: Mapping[TopicPartition, int],
        database: Mapping[TopicPartition, int],
    ) -> str:
        """Returns the error text for a store that is not at the database's last commit with it."""
        name = self.store.name
        text = f"store {name}: after recover it is at {_text(at)}, and its database at "
        text += _text(offsets)
        others = {key: offset for key, offset in database.items() if key not in offsets}
        if not others:
            return f"{text}; {self._ways_out}"
        target = _text({**offsets, **others})
        return (
            f"{text}; the database is also at {_text(others)}, but its record of commits with the "
            f"store lacks these partitions, because it was restored, or committed without the "
            f"store; delete the store's data, open the database, and restore the store up to "
            f"{target}, without partitions that it never had; or open the database with "
            "AT_LEAST_ONCE"
        )

    @property
    def _ways_out(self) -> str:
        """Returns what to do with a store that is not at its database's offsets."""
        file = "" if self._file is None else f" and its file {self._file.name}"
        return (
            f"delete the store's data{file} and restore it from its changelog, or open the "
            "database with AT_LEAST_ONCE"
        )

    def check_restored(self, same: Collection[TopicPartition]) -> None:
        """Raises `StateMismatchError` if the store was found empty and still lacks a partition.

        `same` are the partitions of the last commit with the store that the next commit leaves as
        they are. If the store committed without its earlier data, the next `recover` would drop the
        commit.
        """
        missing = {
            key: at
            for key, at in self._lacking.items()
            if key in same and self.committed_offset(key) is None
        }
        if missing:
            raise StateMismatchError(
                f"store {self.store.name}: it lacks the data of its earlier commits at "
                f"{_text(missing)}, so it cannot commit; call rollback(), and restore the store up "
                f"to {_text(self._lacking)}"
            )

    def check_not_ahead(
        self,
        partitions: Iterable[TopicPartition],
        database_offset: Callable[[TopicPartition], int | None],
    ) -> None:
        """Raises `StateMismatchError` under exactly-once if the store is ahead of its database."""
        if self._transactional is not None or not self._exactly_once:
            return
        for partition in partitions:
            own, offset = self.committed_offset(partition), database_offset(partition)
            if own is not None and (offset is None or own > offset):
                raise StateMismatchError(
                    f"store {self.store.name}: it is at offset {own} of {partition.topic} "
                    f"partition {partition.partition}, and its database at "
                    f"{'no offset' if offset is None else offset}, so records would be applied to "
                    f"it twice; make it transactional, {self._ways_out}"
                )

    def committed_offset(self, partition: tuple[str, int]) -> int | None:
        """Returns the store's committed offset of (topic, partition), None without one."""
        if self.store.manages_offsets:
            return self.store.committed_offset(partition)
        return self._offsets.get(TopicPartition(*partition))

    def close(self) -> None:
        """Closes the store; `write_offsets` follows if `close_writes_file` is true.

        Does nothing if the store is closed: the close of its database may be repeated.
        """
        if not self._is_closed:
            self.store.close()
            self._is_closed = True

    @property
    def close_writes_file(self) -> bool:
        """Whether the closed store gets a checkpoint file.

        If `begin` was not called, the checkpoint file of the last stop is not changed. Under
        exactly-once, a store that needs a rollback gets no checkpoint file: the next open then
        discards the store's files.
        """
        clean = self._is_closed and not (self._needs_rollback and self._exactly_once)
        return self._file is not None and self._has_begun and clean

    def write_offsets(self) -> None:
        """Writes the checkpoint file of a store that has one."""
        if self._file is not None:
            checkpoint_file.write(self._file, self._offsets)


def _text(offsets: Mapping[TopicPartition, int]) -> str:
    """Returns offsets for a message."""
    return (
        ", ".join(
            f"{partition.topic} {partition.partition}: {offset}"
            for partition, offset in offsets.items()
        )
        or "no offset"
    )
