"""The open database."""

from __future__ import annotations

from contextlib import AbstractContextManager
from html import escape
from os import fspath, getpid
from typing import TYPE_CHECKING, Any, cast

from holdfast._database.durable import sync_names
from holdfast._offsets import TopicPartition, check_bits, offset_rows, topic_partition
from holdfast._options import IsolationLevel, check_choice
from holdfast._position import Position
from holdfast._stores.key_value import KeyValueStore
from holdfast._stores.session import SessionStore
from holdfast._stores.timestamped import TimestampedKeyValueStore
from holdfast._stores.versioned import VersionedKeyValueStore
from holdfast._stores.window import TimestampedWindowStore, WindowStore
from holdfast._user_store.attached_stores import raise_first
from holdfast.errors import StoreClosedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from os import PathLike
    from pathlib import Path

    from holdfast import _core
    from holdfast._metric_names import DatabaseMetrics
    from holdfast._user_store.attached_stores import AttachedStores
    from holdfast._user_store.protocol import UserStateStore
    from holdfast.stores import StoreBuilder


class Database(AbstractContextManager["Database"]):
    """An open database. `with` closes it; uncommitted writes are lost then.

    One thread writes at a time: writes and commits are serialised. Any number of threads read
    through `read_only` views. `db[name]` is a store; a name that the database was not opened with
    raises `KeyError`.

    Methods raise `TypeError` for an argument of another type. Methods that take offsets or
    partitions raise `ValueError` for a partition beyond 32 bits, for an offset beyond 64 and,
    except `recover`, for a topic that contains a NUL character.

    >>> import holdfast as hf
    >>> visits = hf.stores.session("visits", retention=5)
    >>> db = hf.open(None, [hf.stores.key_value("totals"), visits])
    >>> db
    <Database in memory, open: totals (key_value), visits (session)>
    >>> db["totals"]
    <KeyValueStore 'totals' of database in memory, open>
    >>> db["totals"].read_only()
    <ReadOnlyKeyValueStore 'totals'>
    >>> db.close()
    >>> db
    <Database in memory, closed: totals (key_value), visits (session)>
    """

    def __init__(
        self,
        core: _core.Database,
        stores: Iterable[StoreBuilder],
        user_stores: AttachedStores,
        default_isolation_level: IsolationLevel,
        directory: Path | None,
    ) -> None:
        """Called by `open`."""
        self._core = core
        self._directory = directory
        self._process = getpid()
        self._has_begun_close = False
        self._default_isolation_level = default_isolation_level
        self._stores: dict[str, Any] = {}
        self._kinds: dict[str, str] = {}
        for store in stores:
            self._stores[store.name] = self._store(store.name, store)
            self._kinds[store.name] = store.kind
        self._user_stores = user_stores

        def opened(store: UserStateStore) -> None:
            self._stores[store.name] = store
            self._kinds[store.name] = type(store).__name__

        self._user_stores.init(self, opened)

    def directory(self, store: str) -> Path | None:
        """Returns the folder for the files of a user store, created on first use.

        None for a database in memory. Raises `KeyError` for a store that the database does not
        have, `OSError` if the folder cannot be created.
        """
        self[store]
        if self._directory is None:
            return None
        # First: a mark without a folder costs a restore, a folder without a mark can lose data.
        attached = self._user_stores.get(store)
        if attached is not None:
            attached.mark_folder()
        (self._directory / store).mkdir(exist_ok=True)
        # The folder has what the store commits.
        sync_names(self._directory)
        return self._directory / store

    def _store(self, name: str, builder: StoreBuilder) -> Any:
        match builder.kind:
            case "key_value":
                return KeyValueStore(self, builder, self._core.key_value(name))
            case "timestamped_key_value":
                return TimestampedKeyValueStore(
                    self, builder, self._core.timestamped_key_value(name)
                )
            case "versioned":
                return VersionedKeyValueStore(self, builder, self._core.versioned(name))
            case "window":
                return WindowStore(self, builder, self._core.window(name))
            case "timestamped_window":
                return TimestampedWindowStore(self, builder, self._core.window(name))
            case "session":
                return SessionStore(self, builder, self._core.session(name))

    def __getitem__(self, store: str) -> Any:
        try:
            return self._stores[store]
        except KeyError:
            raise KeyError(
                f"no store {store!r} in this database; it has {self.store_names()}"
            ) from None

    def store_names(self) -> list[str]:
        """Returns the names of the stores that the database was opened with."""
        return list(self._stores)

    @property
    def is_open(self) -> bool:
        """Whether the database is open; also true after a `close` that was interrupted."""
        return self._core.is_open()

    def observe(self, topic: str, partition: int, offset: int) -> None:
        """Records the input record that the following writes come from.

        The greatest offset of each partition is the database's `position`: it is committed and
        rolled back with the writes, and queries can require it (`PositionBound`). The position is
        about the input; the offsets that `commit` takes are about the changelog. To restore the
        position from a changelog, write it beside the records, and give it to `restore_batch`.

        Raises `HoldfastError` after a write or a commit that failed, until `rollback`.
        """
        try:
            self._core.observe(topic, partition, offset)
        except (OverflowError, TypeError):
            # Checked only on failure, since it is called once per record.
            check_bits("partition", partition, 32)
            check_bits("offset", offset, 64)
            raise

    def position(self, isolation_level: IsolationLevel | None = None) -> Position:
        """Returns the input position at an isolation level; None: the database's default."""
        return Position.of_rows(self._core.position(self.isolation(isolation_level)))

    def commit(self, changelog_offsets: Mapping[tuple[str, int], int | None] | None = None) -> None:
        """Makes all writes since the last commit permanent, atomically, with the offsets.

        Offsets of None keep the committed offsets, `{}` removes them all, `{partition: None}`
        removes one. After a commit that failed, the open transaction only accepts `rollback`; if
        the error came from a user store, it also accepts reads and writes. The stores are as they
        were, unless the error came after the write: `committed_offset` shows whether the commit was
        written. Only the commit of a transaction that outgrew its memory can stop half-way: the
        error says so, and `rollback` or `recover` completes or undoes it.

        Raises `ValueError` for invalid offsets, before anything is changed. If a persistent user
        store does not manage its offsets, they are written to a text file, and a topic that is
        empty or contains white space is invalid, too. Raises `HoldfastError` after a write or a
        commit that failed, until `rollback`.

        Two rules hold for user stores under exactly-once. A commit that moves no offset of a
        transactional user store raises `ValueError`. A user store's first commit of a partition
        raises `StateMismatchError` if the store has no transactions and has an offset of that
        partition, and the database has a smaller one or none.
        """
        self._check_not_closing()
        self._user_stores.commit(changelog_offsets, offset_rows(changelog_offsets))

    def rollback(self) -> None:
        """Drops all writes since the last commit.

        An interrupted commit is completed or undone, as in `recover`. After a write that failed on
        a full disk, the call waits up to 11 seconds until the database has detected free space. If
        the commit can be neither completed nor undone, or if writes to the disk still fail, raises
        `HoldfastError` or `StoreCorruptedError`; the call can be repeated.

        User stores return to the last commit, too, with their `rollback` and `recover`. The first
        of their errors is raised unchanged, after all stores were called. Under exactly-once raises
        `StateMismatchError` for a user store that has committed more than the database and cannot
        return to the database's last commit.
        """
        self._check_not_closing()
        self._user_stores.begin_rollback()
        self._core.rollback()
        self._user_stores.roll_back()

    def recover(
        self, changelog_offsets: Mapping[tuple[str, int], int]
    ) -> dict[TopicPartition, int]:
        """Drops the open transaction and returns the committed offsets of the given partitions.

        If a commit was interrupted, it is first completed or undone: completed if its commit file
        was written (transactions that outgrew their memory have one), else undone. So the returned
        offsets may be older or newer than the given ones. `rollback` and the next `open` do the
        same. Raises as `rollback` does.
        """
        wanted = {
            TopicPartition(topic, number)
            for topic, number, _ in offset_rows(changelog_offsets) or []
        }
        self.rollback()
        return {
            partition: offset
            for partition, offset in self.committed_offsets().items()
            if partition in wanted
        }

    def restore_batch(
        self,
        store: str,
        keys: Any,
        values: Any,
        timestamps: Any,
        changelog_offsets: Mapping[tuple[str, int], int],
        *,
        position: Position | None = None,
    ) -> None:
        """Applies changelog records outside the transaction: visible at once, with their offsets.

        The records must be in the order in which they were written; merge those of several
        partitions by that order. The order decides which records are skipped: those that were older
        than the store's retention when they were written. How the records are divided into batches
        does not change the result. The record of each kind of store:

        - key-value: key and value, `timestamps` None
        - timestamped key-value: key, value and its timestamp
        - versioned: key, value or null, and the start of its validity
        - window: key, value, and the window's start as timestamp; in a timestamped window store the
          value begins with its own timestamp in 8 bytes, big-endian
        - session: a key that is followed by the session's end and start in 8 bytes each,
          big-endian, as Kafka Streams writes it; value; `timestamps` None

        The offsets are those of the whole database: if other stores have lower offsets, those rise,
        too. If no built-in store was at an offset, a transactional user store must be there from
        then on. If several stores have records in the changelog, first restore all of them with
        offsets `{}`, which change nothing, and then give each store the offsets with a call without
        rows. Otherwise a crash between two calls would lose the records of the stores that are not
        restored yet. A window store that retains duplicates is the exception: after a crash, a
        second restore would add its rows again. Restore it last, with its rows and their offsets in
        one call.

        `position` is the input position of the last record, if the changelog has it (KIP-892 keeps
        it in the records' headers). It is merged into the database's position. A store that has
        lost its data meets a `PositionBound` again when `position` is at or after the database's
        position in each partition of `position`, or with its first batch if there is no `position`.
        The database's position is that of all stores, so restore all stores before you serve
        queries with a bound.

        Nothing is applied if the call raises: `HoldfastError` while any store has uncommitted
        writes or the database has observed offsets (commit or roll back first), and after a commit
        that failed, until `rollback`; `KeyError` for an unknown store; `ValueError` for a user
        store, for `timestamps` that the kind does not take, for missing `timestamps` that the kind
        needs, and for a row that is not a record of the kind; for invalid columns the errors that
        `StateStore` lists.
        """
        self._check_not_closing()
        self[store]  # the KeyError of an unknown name lists the known ones
        offsets = offset_rows(changelog_offsets) or []
        if position is not None and not isinstance(position, Position):
            raise TypeError(f"position is a {type(position).__name__}; wanted: a Position")
        rows = [] if position is None else position.rows()
        record = self._user_stores.record_of_restore(offsets, self._greatest_offset)
        try:
            self._core.restore_batch(store, keys, values, timestamps, offsets, record, rows)
        finally:
            # Ctrl-C may come when the database has the new record already.
            self._user_stores.restored(offsets)

    def _greatest_offset(self, partition: tuple[str, int]) -> int | None:
        """Returns the greatest offset of a built-in store, None without one."""
        names = [name for name in self._stores if self._user_stores.get(name) is None]
        offsets = [self._core.store_offset(name, *partition) for name in names]
        return max((offset for offset in offsets if offset is not None), default=None)

    def committed_offset(self, partition: tuple[str, int]) -> int | None:
        """Returns the least committed offset of (topic, partition) among the stores that have one.

        None if no store has one, if a store has lost its offset, or if a user store has none.
        """
        found = self._core.committed_offset(*topic_partition(partition))
        return self._user_stores.least_offset(partition, found)

    def store_offset(self, store: str, partition: tuple[str, int]) -> int | None:
        """Returns one store's committed offset of (topic, partition), None without one.

        Raises `ValueError` for an unknown store.
        """
        attached = self._user_stores.get(store)
        if attached is not None:
            return attached.committed_offset(partition)
        return self._core.store_offset(store, *topic_partition(partition))

    def committed_offsets(self) -> dict[TopicPartition, int]:
        """Returns the `committed_offset` of each topic and partition that has one.

        If the database was opened with user stores only, these are partitions of its commits: a
        user store does not list the partitions of a restore by its own methods.
        """
        found = {
            TopicPartition(topic, partition): offset
            for topic, partition, offset in self._core.committed_offsets()
        }
        offsets = (
            (partition, self._user_stores.least_offset(partition, found.get(partition)))
            for partition in found.keys() | self._user_stores.partitions()
        )
        return {partition: offset for partition, offset in offsets if offset is not None}

    def checkpoint(self, directory: str | PathLike[str]) -> None:
        """Creates a consistent copy of the last commit in a new directory.

        Files are hard-linked if the file system supports it. Folders above the directory are
        created. The copy of a store without transactions may be newer than the last commit, so it
        opens as after an unclean stop. User stores are not copied. Do not copy the files of an open
        database in another way: the copies would be of different moments.

        Raises `ValueError` for a directory that exists or is below a file,
        `UnsupportedOperationError` for a database in memory, `HoldfastError` after a commit that
        was interrupted.
        """
        self._core.checkpoint(fspath(directory))

    @property
    def approximate_num_uncommitted_bytes(self) -> int:
        """The bytes of memory that a commit would free; data in files is not included.

        Every write of a transaction adds to it, including repeated writes of the same key; a spill
        to files reduces it. The bytes that user stores report are included.
        """
        return self._core.uncommitted_bytes() + self._user_stores.uncommitted_bytes

    def store_uncommitted_bytes(self, store: str) -> int:
        """Returns the part of `approximate_num_uncommitted_bytes` that belongs to one store.

        Raises `ValueError` for an unknown store.
        """
        attached = self._user_stores.get(store)
        if attached is not None:
            return attached.uncommitted_bytes
        return self._core.store_uncommitted_bytes(store)

    @property
    def commit_requested(self) -> bool:
        """Whether a commit is due: memory reached `uncommitted_max_bytes` since the last commit.

        Also true if another record as large as the last one would reach that limit. All writes
        between two reads of this property count as one record, so read it after each record or
        batch. Without a limit (-1) it is always false.
        """
        return self._core.commit_requested(self._user_stores.uncommitted_bytes)

    def metrics(self) -> DatabaseMetrics:
        """Returns metrics by name, those of each store under `stores`.

        Rates are per second, times in seconds, sizes in bytes; `docs/metrics.md` describes each
        metric. Rates, means and maxima cover a window that ends now. If this method is called every
        few seconds, the window is 30 to 60 s long. With rarer calls it is longer, and if they are
        30 s or more apart, it begins two calls ago. The first windows begin when the database was
        opened, and so do all windows of RocksDB's own times. `-total` counts are since the open.
        `holdfast.metrics.prometheus` returns the metrics as text.
        """
        figures, stores = self._core.metrics()
        by_store = {
            name: {figure[0]: figure[1] for figure in of_store} for name, of_store in stores
        }
        return cast(
            "DatabaseMetrics", {**{figure[0]: figure[1] for figure in figures}, "stores": by_store}
        )

    def close(self) -> None:
        """Drops the open transaction, flushes the last commit to files and closes.

        A second call does nothing. If a user store fails, the close continues with the others and
        then raises the first error. If a write to disk fails, the database is still closed, and the
        error says what its files contain. After a close that was interrupted (Ctrl-C), commits,
        rollbacks and restores raise `StoreClosedError`; call `close` again.

        In a forked child it raises `ForkedProcessError` and closes no user store.
        """
        if getpid() != self._process:
            # Raises `ForkedProcessError`, before a user store closes what the parent process uses.
            self._core.close()
        # First: a commit after the stores' checkpoint files are written would make those too old.
        self._has_begun_close = True
        errors = self._user_stores.close() if self.is_open else []
        try:
            self._core.close()
        except Exception as error:
            if not errors:
                raise
            errors.append(error)
        raise_first(errors)

    def _check_not_closing(self) -> None:
        if self._has_begun_close and self.is_open:
            raise StoreClosedError(
                f"{self} was not closed completely; call close() again, then open the database"
            )

    def isolation(self, level: IsolationLevel | None) -> str:
        """Returns the extension's name of a level; None: the database's default."""
        if level is None:
            return self._default_isolation_level.value
        check_choice("isolation_level", level, IsolationLevel)
        return level.value

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __str__(self) -> str:
        return f"database {self._location()}"

    def __repr__(self) -> str:
        stores = ", ".join(f"{name} ({kind})" for name, kind in self._kinds.items())
        return f"<Database {self._location()}, {self._state()}: {stores or 'no stores'}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(name)}</td><td>{escape(kind)}</td></tr>"
            for name, kind in self._kinds.items()
        )
        caption = escape(f"{self}, {self._state()}")
        return (
            f"<table><caption>{caption}</caption>"
            "<thead><tr><th>store</th><th>kind</th></tr></thead>"
            f"<tbody>{rows}</tbody></table>"
        )

    def _location(self) -> str:
        return "in memory" if self._directory is None else repr(str(self._directory))

    def _state(self) -> str:
        return "open" if self.is_open else "closed"
