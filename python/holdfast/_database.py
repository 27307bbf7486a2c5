"""A database: one database, many stores, one transaction."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from holdfast import _core
from holdfast._arguments import check_bits, check_choice, offset_rows, option_rows, partition_of
from holdfast._key_value import KeyValueStore
from holdfast._options import (
    Durability,
    IsolationLevel,
    MetricsLevel,
    ProcessingGuarantee,
    TransactionMechanism,
)
from holdfast._position import Position
from holdfast._records import TopicPartition
from holdfast._session import SessionStore
from holdfast._timestamped import TimestampedKeyValueStore
from holdfast._user_store import Attached, UserStateStore, check_name, is_user_store
from holdfast._versioned import VersionedKeyValueStore
from holdfast._window import TimestampedWindowStore, WindowStore
from holdfast.serde import TypedSerde
from holdfast.stores import StoreBuilder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike

    from holdfast.metrics import DatabaseMetrics

_INT64_MAX = 2**63 - 1
# Versions of Kafka Streams with the offsets in text files, as its own `upgrade.from` names them.
_OLDER_LAYOUTS = (
    *("0.10.0", "0.10.1", "0.10.2", "0.11.0", "1.0", "1.1"),
    *(f"2.{minor}" for minor in range(9)),
    *(f"3.{minor}" for minor in range(10)),
    *("4.0", "4.1", "4.2"),
)


def open(  # noqa: A001
    path: str | PathLike[str] | None,
    stores: Sequence[StoreBuilder | UserStateStore],
    *,
    processing_guarantee: ProcessingGuarantee = ProcessingGuarantee.EXACTLY_ONCE,
    durability: Durability = Durability.SYNC,
    default_isolation_level: IsolationLevel | None = None,
    uncommitted_max_bytes: int = 64 << 20,
    transaction_mechanism: TransactionMechanism = TransactionMechanism.AUTO,
    metrics_level: MetricsLevel = MetricsLevel.INFO,
    upgrade_from: str | None = None,
    rocksdb_options: Mapping[str, str] | None = None,
) -> Database:
    """Opens the database in the directory `path`, or makes it. None: the database is all in memory
    and gone when closed.

    A store is what `holdfast.stores` builds, or an object of the user's own (`UserStateStore`).
    Offsets and positions in the text files of older layouts (`.checkpoint`, `<store>.position`) are
    moved into the database. With `upgrade_from`, the version of Kafka Streams whose layout is to be
    able to open the directory again ("0.10.0" to "4.2"), a close writes them back and leaves a
    database of the stores' column families alone; the next open brings back all that was in the
    others.

    `uncommitted_max_bytes` is the memory of the open transaction at which it goes on in files
    beside the stores (by `transaction_mechanism`, unless that is INDEXED_BATCH) and
    `Database.commit_requested` turns true; -1: no limit. `rocksdb_options` are RocksDB's own names
    and values, of the database or of all column families
    (`{"max_open_files": "2000", "write_buffer_size": "33554432"}`); those that the stores' promises
    rest on are refused. What `metrics_level` adds to `Database.metrics` is in `docs/metrics.md`.
    The default isolation level of queries is READ_COMMITTED under exactly-once, else
    READ_UNCOMMITTED.

    Raises `StoreLockedError` if somebody else has it open, `FormatVersionError` or
    `StoreCorruptedError` if it cannot be read, `ValueError` or `TypeError` for arguments that
    cannot be, `ValueError` for stores, a serde or a durability other than it was made with, and
    with an `upgrade_from` for a topic with white space, which text files have no place for;
    `SerializationError` for columns of a value that do not fit those it was written with;
    `StateMismatchError` under exactly-once for a state that an unclean stop left in doubt; whatever
    `init` of a store of the user's own raises.
    """
    if upgrade_from is not None and upgrade_from not in _OLDER_LAYOUTS:
        raise ValueError(
            f"upgrade_from is {upgrade_from!r}; wanted: None or one of {', '.join(_OLDER_LAYOUTS)}"
        )
    check_choice("processing_guarantee", processing_guarantee, ProcessingGuarantee)
    check_choice("durability", durability, Durability)
    check_choice("transaction_mechanism", transaction_mechanism, TransactionMechanism)
    check_choice("metrics_level", metrics_level, MetricsLevel)
    if default_isolation_level is not None:
        check_choice("default_isolation_level", default_isolation_level, IsolationLevel)
    built, own = _sorted_out(stores)
    names = [store.name for store in built] + [store.name for store in own]
    if len(set(names)) < len(names):
        raise ValueError(
            "stores has two of one name: "
            f"{sorted({name for name in names if names.count(name) > 1})}"
        )
    if not isinstance(uncommitted_max_bytes, int) or isinstance(uncommitted_max_bytes, bool):
        raise TypeError(
            f"uncommitted_max_bytes is {uncommitted_max_bytes!r}; wanted: a number of bytes, or -1 "
            "for no limit"
        )
    if not -1 <= uncommitted_max_bytes <= _INT64_MAX:
        raise ValueError(
            f"uncommitted_max_bytes is {uncommitted_max_bytes}; wanted: a number of bytes, or -1 "
            "for no limit"
        )
    if default_isolation_level is None:
        exactly_once = processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE
        default_isolation_level = (
            IsolationLevel.READ_COMMITTED if exactly_once else IsolationLevel.READ_UNCOMMITTED
        )
    if path is not None and not str(fspath(path)).strip():
        raise ValueError("path is empty: give a folder, or None for a database in memory")
    directory = None if path is None else Path(fspath(path))
    if directory is None:
        built = [replace(store, persistent=False) for store in built]

    core = _core.open_database(
        directory,
        built,
        {
            "durability": durability.value,
            "guarantee": processing_guarantee.value,
            "mechanism": transaction_mechanism.value,
            "uncommitted_max_bytes": uncommitted_max_bytes,
            "metrics_level": metrics_level.value,
            "older_layout": upgrade_from is not None,
            "rocksdb_options": option_rows(rocksdb_options),
        },
    )
    sides = (
        (store.name, as_key, serde)
        for store in built
        for as_key, serde in ((True, store.key), (False, store.value))
    )
    try:
        core.keep_serdes(
            [
                (name, as_key, serde.core)
                for name, as_key, serde in sides
                if isinstance(serde, TypedSerde)
            ]
        )
        place = None if directory is None else Path(core.path())
        by_name: dict[str, StoreBuilder | Attached] = {store.name: store for store in built}
        by_name |= {store.name: Attached(store, place, processing_guarantee) for store in own}
        older_layout = upgrade_from is not None and directory is not None
        return Database(core, by_name, default_isolation_level, place, older_layout)
    except BaseException:
        core.close()
        raise


def _sorted_out(
    stores: Iterable[StoreBuilder | UserStateStore],
) -> tuple[list[StoreBuilder], list[UserStateStore]]:
    if not isinstance(stores, Iterable):
        raise TypeError(
            f"stores is a {type(stores).__name__}; wanted: a sequence of what holdfast.stores "
            "builds"
        )
    built: list[StoreBuilder] = []
    own: list[UserStateStore] = []
    for store in stores:
        if isinstance(store, StoreBuilder):
            built.append(store)
        elif is_user_store(store):
            check_name(store.name)
            own.append(store)
        else:
            raise TypeError(
                f"a store is a {type(store).__name__}; wanted: what holdfast.stores builds, or an "
                "object with the "
                "methods of holdfast.UserStateStore"
            )
    return built, own


class Database(AbstractContextManager["Database"]):
    """An open database. `with` closes it; what was not committed is gone.

    One thread writes at a time (writes and commits are serialised); any number read through
    `read_only` views. `db[name]` is a store; `KeyError` for one that the database was not opened
    with.

    Methods raise `TypeError` for an argument of another type; those that note or look up offsets
    `ValueError` for a partition beyond 32 bits or an offset beyond 64 and, all but `recover`, for a
    topic with a NUL character in it.
    """

    def __init__(
        self,
        core: _core.Database,
        stores: Mapping[str, StoreBuilder | Attached],
        default_isolation_level: IsolationLevel,
        place: Path | None,
        older_layout: bool,
    ) -> None:
        """Made by `open`."""
        self._core = core
        self._place = place
        self._default_isolation_level = default_isolation_level
        self._stores: dict[str, Any] = {}
        self._attached: dict[str, Attached] = {}
        for name, store in stores.items():
            if isinstance(store, Attached):
                self._attached[name] = store
            else:
                self._stores[name] = self._store(name, store)
        self._older_layout = older_layout
        self._topics_in_files = older_layout or any(
            own.keeps_file for own in self._attached.values()
        )
        inited: list[Attached] = []
        try:
            for name, own in self._attached.items():
                self._stores[name] = own.store
                own.store.init(self)
                inited.append(own)
            # Not before all are open: if one of them fails, the last stop still was a clean one.
            for own in self._attached.values():
                own.begin()
        except BaseException as error:
            for closing in _close_all(inited):
                error.add_note(f"and then: {closing!r}")
            raise

    def directory(self, store: str) -> Path | None:
        """Where a store of the user's own keeps its files: made when it is first asked for; None
        for a database in memory.

        Raises `KeyError` for a store that the database does not have, `OSError` where the folder
        cannot be made.
        """
        self[store]
        if self._place is None:
            return None
        (self._place / store).mkdir(exist_ok=True)
        return self._place / store

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
        """The stores that the database was opened with."""
        return list(self._stores)

    @property
    def is_open(self) -> bool:
        """Whether `close` has not been called."""
        return self._core.is_open()

    def observe(self, topic: str, partition: int, offset: int) -> None:
        """Notes the input record that the following writes come from; committed and rolled back
        with them.

        With `upgrade_from` raises `ValueError` also for a topic that is empty or has white space in
        it.
        """
        if self._older_layout:
            _core.check_topic(topic)
        try:
            self._core.observe(topic, partition, offset)
        except (OverflowError, TypeError):
            # Looked at no sooner, since records are many.
            check_bits("partition", partition, 32)
            check_bits("offset", offset, 64)
            raise

    def position(self, isolation_level: IsolationLevel | None = None) -> Position:
        """The input position that readers at a level see; None: the database's default level."""
        return Position.of_rows(self._core.position(self.isolation(isolation_level)))

    def commit(self, changelog_offsets: Mapping[tuple[str, int], int | None] | None = None) -> None:
        """Makes everything since the last commit permanent, in all stores at once, together with
        the offsets.

        None keeps the committed offsets as they are, `{}` forgets them all, `{tp: None}` forgets
        that one. A failed commit leaves the stores as they were; the open transaction then only
        takes `rollback`. Only a transaction that outgrew its memory can fail half-way: then the
        error says so, and `rollback` or `recover` ends it. A `ValueError` for offsets changes
        nothing; where they go into text files (with `upgrade_from`, or a store of the user's own
        that does not manage them) there is one also for a topic that is empty or has white space in
        it. `HoldfastError` after a write or a commit that failed, until `rollback`.
        """
        offsets = offset_rows(changelog_offsets)
        if self._attached or self._topics_in_files:
            # Before any store of the user's own commits, and writes what cannot be taken back.
            self._core.check_commit(offsets, self._topics_in_files)
        for own in self._attached.values():
            own.commit(changelog_offsets)
        self._core.commit(offsets)

    def rollback(self) -> None:
        """Drops everything since the last commit; ends a commit that was interrupted, as `recover`
        does.

        Raises `HoldfastError` or `StoreCorruptedError` where it cannot be ended; it can be called
        again.
        """
        self._core.rollback()

    def recover(
        self, changelog_offsets: Mapping[tuple[str, int], int]
    ) -> dict[TopicPartition, int]:
        """Drops the open transaction and returns the offsets, of those asked for, that the state
        now stands at.

        A commit that was interrupted is ended first: forward if its commit file had been written
        (transactions that outgrew their memory have one), and else back. So the offsets returned
        are those asked for or older ones, or newer ones. `rollback` and the next `open` do the
        same. Raises as `rollback` does.
        """
        wanted = {
            TopicPartition(topic, number)
            for topic, number, _ in offset_rows(changelog_offsets) or []
        }
        self._core.recover()
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
    ) -> None:
        """Applies changelog records past the transaction: visible at once, with their offsets.

        The records come in the order in which they were written; the result is the same however
        they are cut into batches. One that was older than the store's retention when it was written
        is passed over, so those of several partitions come merged by the order in which they were
        written. What a record is, by the store's kind:

        - key-value: key and value, `timestamps` None
        - timestamped key-value: key, value and its timestamp
        - versioned: key, value or null, and the begin of its validity
        - window: key, value, and the window's start as timestamp; of a timestamped window store a
          value begins with its own timestamp in 8 bytes, big-endian
        - session: a key that is followed by the session's end and start in 8 bytes each,
          big-endian, as Kafka Streams writes it; value; `timestamps` None

        With offsets `{}` the store's stay as they are. `HoldfastError` while the database has
        uncommitted writes or observed offsets, whichever store they are of: commit or roll back
        first. `KeyError` for an unknown store; `ValueError` for one of the user's own, for
        `timestamps` where the kind takes none or none where it needs them, with `upgrade_from` for
        a topic that is empty or has white space in it, and, with the row, for what is no record of
        the kind; columns as in `StateStore`. Nothing is applied then.
        """
        self[store]  # an unknown name is a KeyError that lists the known ones
        offsets = offset_rows(changelog_offsets) or []
        for topic, *_ in offsets if self._older_layout else ():
            _core.check_topic(topic)
        self._core.restore_batch(store, keys, values, timestamps, offsets)

    def committed_offset(self, partition: tuple[str, int]) -> int | None:
        """The least committed offset of (topic, partition) among the stores that have one.

        None if none has, if a store has lost what it had, or if a store of the user's own says
        None.
        """
        found = self._core.committed_offset(*partition_of(partition))
        for own in self._attached.values():
            offset = own.committed_offset(partition)
            found = None if offset is None or found is None else min(found, offset)
        return found

    def store_offset(self, store: str, partition: tuple[str, int]) -> int | None:
        """The committed offset of (topic, partition) that one store stands at, None if there is
        none.

        Raises `ValueError` for an unknown store.
        """
        own = self._attached.get(store)
        return (
            self._core.store_offset(store, *partition_of(partition))
            if own is None
            else own.committed_offset(partition)
        )

    def committed_offsets(self) -> dict[TopicPartition, int]:
        """`committed_offset` of each topic and partition that has one."""
        partitions = [
            TopicPartition(topic, number) for topic, number, _ in self._core.committed_offsets()
        ]
        offsets = ((partition, self.committed_offset(partition)) for partition in partitions)
        return {partition: offset for partition, offset in offsets if offset is not None}

    def checkpoint(self, directory: str | PathLike[str]) -> None:
        """Makes a consistent copy of the last commit in a new directory, hard-linked where the file
        system can.

        Folders above the directory are made. Of a store without transactions the copy may hold
        more, so it is opened as after an unclean stop. Stores of the user's own are not in it.
        Raises `ValueError` for a directory that exists or lies below a file,
        `UnsupportedOperationError` for a database in memory, `HoldfastError` after a commit that
        was interrupted.
        """
        self._core.checkpoint(fspath(directory))

    @property
    def approximate_num_uncommitted_bytes(self) -> int:
        """Bytes of memory that a commit would free: it grows with every write, also of one key. Not
        what is in files.
        """
        return self._core.uncommitted_bytes()

    @property
    def commit_requested(self) -> bool:
        """Memory has reached `uncommitted_max_bytes` since the last commit, or would with as much
        again as the last record.

        What counts as a record, or as a batch, is what was written between two reads of this
        property: read it after each.
        """
        return self._core.commit_requested()

    def metrics(self) -> DatabaseMetrics:
        """Figures by name, those of each store under `stores`: rates a second, times in seconds,
        sizes in bytes.

        What each of them says: `docs/metrics.md`. Rates, means and greatest values are of a window
        that ends now and is 30 to 60 s long for who asks oftener than that, else reaches back to
        the last call but one. Sizes and `-total` counts are exact. `holdfast.metrics.prometheus`
        has them as text.
        """
        figures, stores = self._core.metrics()
        by_store = {
            name: {figure[0]: figure[1] for figure in of_store} for name, of_store in stores
        }
        return cast(
            "DatabaseMetrics", {**{figure[0]: figure[1] for figure in figures}, "stores": by_store}
        )

    def close(self) -> None:
        """Drops the open transaction, writes the last commit to files and closes. Again: nothing.

        Where stores of the user's own fail, all others are closed all the same; then the first
        error is raised. Where the disk refuses, the database is closed all the same, and the error
        says what its files hold.
        """
        errors = _close_all(self._attached.values()) if self.is_open else []
        try:
            self._core.close()
        except Exception as error:
            if not errors:
                raise
            errors.append(error)
        if errors:
            for other in errors[1:]:
                errors[0].add_note(f"and then: {other!r}")
            raise errors[0]

    def isolation(self, level: IsolationLevel | None) -> str:
        """A level's name for the extension; None is the database's default."""
        if level is None:
            return self._default_isolation_level.value
        check_choice("isolation_level", level, IsolationLevel)
        return level.value

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Database {self._core.path()!r}{'' if self.is_open else ', closed'}>"


def _close_all(stores: Iterable[Attached]) -> list[BaseException]:
    """Closes all of them, and returns what they raised."""
    errors: list[BaseException] = []
    for own in stores:
        try:
            own.close()
        except BaseException as error:  # noqa: BLE001  # the caller raises it, once all are closed
            errors.append(error)
    return errors
