"""Opening a database."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast import _core
from holdfast._database.database import Database
from holdfast._options import (
    Durability,
    IsolationLevel,
    MetricsLevel,
    ProcessingGuarantee,
    TransactionMechanism,
    check_choice,
    rocksdb_option_rows,
)
from holdfast._user_store.attached import AttachedStore
from holdfast._user_store.attached_stores import (
    AttachedStores,
    raise_first,
    user_store_offsets,
)
from holdfast._user_store.protocol import (
    UserStateStore,
    check_name,
    check_transactional,
    is_user_store,
)
from holdfast.serde import TypedSerde
from holdfast.stores import StoreBuilder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike

_INT64_MAX = 2**63 - 1


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
    rocksdb_options: Mapping[str, str] | None = None,
) -> Database:
    """Opens the database in the directory `path`, or creates it.

    With `path` None the database is in memory, and lost when it is closed. A store is built by
    `holdfast.stores`, or is a user store (`UserStateStore`).

    - `uncommitted_max_bytes`: the memory limit of the open transaction; -1: no limit. At the limit
      `Database.commit_requested` becomes true, and the transaction continues in files beside the
      stores, unless `transaction_mechanism` is INDEXED_BATCH or the database is in memory. With
      SECONDARY_STORE it continues in files at 1 MiB, or at the limit if that is lower.
    - `default_isolation_level`: the level of queries that do not give one; by default
      READ_COMMITTED under exactly-once, else READ_UNCOMMITTED.
    - `metrics_level`: how much `Database.metrics` measures (`docs/metrics.md`).
    - `rocksdb_options`: RocksDB's own names and values, of the database or of all column families
      (`{"max_open_files": "2000", "write_buffer_size": "33554432"}`). Options that the stores'
      guarantees depend on are refused.

    Raises
    ------
    - `StoreLockedError` if another process or database has it open,
    - `FormatVersionError` if another version of Holdfast wrote it, or another program, for example
      Kafka Streams; nothing in a directory of another program is changed,
    - `StoreCorruptedError` if its files are damaged,
    - `StateMismatchError` under exactly-once for a state that an unclean stop left undefined, and
      for a user store that is not at the database's last commit,
    - `SerializationError` if the columns of a store's values do not fit those of the stored values,
    - `TypeError` or `ValueError` for invalid arguments; `ValueError` also for a store kind, a serde
      or a durability that differs from the one that the database was created with, for another
      `retain_duplicates`, for a store with `persistent=False` whose rows are in files, and under
      exactly-once for a transactional user store that lacks a member of `TransactionalUserStore`,
      and for a persistent transactional user store if the database can lose commits,
    - the errors of a user store's `init` and `recover`.

    """
    check_choice("processing_guarantee", processing_guarantee, ProcessingGuarantee)
    check_choice("durability", durability, Durability)
    check_choice("transaction_mechanism", transaction_mechanism, TransactionMechanism)
    check_choice("metrics_level", metrics_level, MetricsLevel)
    if default_isolation_level is not None:
        check_choice("default_isolation_level", default_isolation_level, IsolationLevel)
    built, user_stores = _sort_stores(stores)
    _check_uncommitted_max_bytes(uncommitted_max_bytes)
    if default_isolation_level is None:
        exactly_once = processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE
        default_isolation_level = (
            IsolationLevel.READ_COMMITTED if exactly_once else IsolationLevel.READ_UNCOMMITTED
        )
    if processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE:
        can_lose_commits = (
            "it is in memory"
            if path is None
            else "its durability is CHANGELOG"
            if durability is Durability.CHANGELOG
            else None
        )
        for user_store in user_stores:
            check_transactional(user_store, can_lose_commits=can_lose_commits)
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
            "rocksdb_options": rocksdb_option_rows(rocksdb_options),
            "serdes": _typed_serdes(built),
        },
    )
    attached_stores = None
    try:
        directory = None if directory is None else Path(core.path())
        committed = user_store_offsets(core) if user_stores else {}
        attached = [
            AttachedStore(
                store, directory, processing_guarantee, has_committed=store.name in committed
            )
            for store in user_stores
        ]
        attached_stores = AttachedStores(core, attached, has_built_in=bool(built))
        return Database(core, built, attached_stores, default_isolation_level, directory)
    except BaseException as error:
        errors = [error]
        try:
            if attached_stores is not None:
                errors += attached_stores.close()
        except BaseException as store_error:  # noqa: BLE001  # raised below, after all calls
            errors.append(store_error)
        try:
            core.close()
        except BaseException as core_error:  # noqa: BLE001  # raised below
            errors.append(core_error)
        raise_first(errors)
        # Not reached; for the type checker.
        raise


def _sort_stores(
    stores: Iterable[StoreBuilder | UserStateStore],
) -> tuple[list[StoreBuilder], list[UserStateStore]]:
    """Returns the builders and the user stores, all of different names."""
    if not isinstance(stores, Iterable):
        raise TypeError(
            f"stores is a {type(stores).__name__}; wanted: a sequence of store builders from "
            "holdfast.stores"
        )
    built: list[StoreBuilder] = []
    user_stores: list[UserStateStore] = []
    for store in stores:
        if isinstance(store, StoreBuilder):
            built.append(store)
        elif is_user_store(store):
            check_name(store.name)
            user_stores.append(store)
        else:
            raise TypeError(
                f"a store is a {type(store).__name__}; wanted: a store builder from "
                "holdfast.stores, or an object with the members of holdfast.UserStateStore"
            )
    names = [store.name for store in built] + [store.name for store in user_stores]
    if len(set(names)) < len(names):
        raise ValueError(
            "stores has two of one name: "
            f"{sorted({name for name in names if names.count(name) > 1})}"
        )
    return built, user_stores


def _check_uncommitted_max_bytes(given: object) -> None:
    wanted = "wanted: a number of bytes, or -1 for no limit"
    if not isinstance(given, int) or isinstance(given, bool):
        raise TypeError(f"uncommitted_max_bytes is {given!r}; {wanted}")
    if not -1 <= given <= _INT64_MAX:
        raise ValueError(f"uncommitted_max_bytes is {given}; {wanted}")


def _typed_serdes(stores: Iterable[StoreBuilder]) -> list[tuple[str, bool, _core.Serde]]:
    """Returns (store, whether it is the key's, serde) of the serdes that the extension knows."""
    return [
        (store.name, is_key, serde.core)
        for store in stores
        for is_key, serde in ((True, store.key), (False, store.value))
        if isinstance(serde, TypedSerde)
    ]
