"""A user store inside a database, with its offsets."""

from __future__ import annotations

import logging
import shutil
from typing import TYPE_CHECKING

from holdfast._offsets import TopicPartition
from holdfast._options import ProcessingGuarantee
from holdfast._user_store import checkpoint_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from holdfast._user_store.protocol import UserStateStore

_log = logging.getLogger("holdfast")
_warned: set[str] = set()


class AttachedStore:
    """A user store of a database, with its offsets if it does not manage them itself."""

    def __init__(
        self, store: UserStateStore, directory: Path | None, guarantee: ProcessingGuarantee
    ) -> None:
        """Reads the store's checkpoint file.

        If there is none, the last stop was unclean: exactly-once then deletes the store's files.
        """
        self.store = store
        self._guarantee = guarantee
        self._offsets: dict[TopicPartition, int] = {}
        self._has_begun = False
        keeps_file = directory is not None and store.persistent and not store.manages_offsets
        self._file = (
            directory / f".checkpoint_{store.name}"
            if directory is not None and keeps_file
            else None
        )
        if self._file is None or directory is None:
            return
        if store.name not in _warned:
            _warned.add(store.name)
            _log.warning(
                "store %s: it is persistent and does not manage its offsets, so they are in a "
                "separate file (%s); let it commit them with its data and set manages_offsets",
                store.name,
                self._file.name,
            )
        folder = directory / store.name
        if (offsets := checkpoint_file.read(self._file)) is not None:
            self._offsets = offsets
        elif guarantee is ProcessingGuarantee.EXACTLY_ONCE and folder.is_dir():
            _log.warning(
                "store %s: discarded, since its database was not closed; restore it from its "
                "changelog",
                store.name,
            )
            shutil.rmtree(folder)

    @property
    def keeps_file(self) -> bool:
        """Whether the store's offsets are in a text file."""
        return self._file is not None

    def begin(self) -> None:
        """Starts the use of the store, once all stores of the database are open.

        Under exactly-once this deletes the checkpoint file: only a clean close writes it again.
        """
        if self._file is not None and self._guarantee is ProcessingGuarantee.EXACTLY_ONCE:
            checkpoint_file.remove(self._file)
        self._has_begun = True

    def commit(self, offsets: Mapping[tuple[str, int], int | None] | None) -> None:
        """Commits the store and its offsets."""
        self.store.commit(offsets)
        if self.store.manages_offsets or offsets is None:
            return
        if not offsets:
            self._offsets.clear()
        for partition, offset in offsets.items():
            if offset is None:
                self._offsets.pop(TopicPartition(*partition), None)
            else:
                self._offsets[TopicPartition(*partition)] = offset
        if self._guarantee is ProcessingGuarantee.AT_LEAST_ONCE:
            self._write()

    def committed_offset(self, partition: tuple[str, int]) -> int | None:
        """Returns the store's committed offset of (topic, partition), None without one."""
        if self.store.manages_offsets:
            return self.store.committed_offset(partition)
        return self._offsets.get(TopicPartition(*partition))

    def close(self) -> None:
        """Closes the store and writes its offsets to disk.

        If `begin` was not called, the checkpoint file of the last stop is not changed.
        """
        self.store.close()
        if self._has_begun:
            self._write()

    def _write(self) -> None:
        if self._file is not None:
            checkpoint_file.write(self._file, self._offsets)
