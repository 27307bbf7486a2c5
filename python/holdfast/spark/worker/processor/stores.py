"""A processor's stores: the classes of `holdfast`, over the state host instead of a database."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from holdfast._offsets import TopicPartition, topic_partition
from holdfast._stores.key_value import KeyValueStore
from holdfast._stores.serdes import Serdes
from holdfast._stores.session import SessionStore
from holdfast._stores.timestamped import TimestampedKeyValueStore
from holdfast._stores.versioned import VersionedKeyValueStore
from holdfast._stores.window import TimestampedWindowStore, WindowStore
from holdfast.errors import HoldfastError, UnsupportedOperationError
from holdfast.serde import BYTES, TypedSerde
from holdfast.serde._struct import StructSerde
from holdfast.spark.worker.processor.key_value import RemoteKeyValue, RemoteTimestampedKeyValue
from holdfast.spark.worker.processor.session import RemoteSession
from holdfast.spark.worker.processor.versioned import RemoteVersioned
from holdfast.spark.worker.processor.window import RemoteWindow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast import _core
    from holdfast._options import IsolationLevel
    from holdfast._stores.owner import StoreOwner
    from holdfast.spark.worker.processor.remote import RemoteStore
    from holdfast.stores import StoreBuilder

_KINDS: Final[dict[str, tuple[Any, Any]]] = {
    "key_value": (KeyValueStore, RemoteKeyValue),
    "timestamped_key_value": (TimestampedKeyValueStore, RemoteTimestampedKeyValue),
    "versioned": (VersionedKeyValueStore, RemoteVersioned),
    "window": (WindowStore, RemoteWindow),
    "timestamped_window": (TimestampedWindowStore, RemoteWindow),
    "session": (SessionStore, RemoteSession),
}
"""For each kind, the class that the processor calls and the class that calls the state host."""


class ProcessorStores:
    """The stores of one session, by name."""

    def __init__(
        self,
        calls: "_core.HostCalls",
        builders: "list[StoreBuilder]",
        by: list[str],
        *,
        partition: int = 0,
        state_epoch: int | None = None,
    ) -> None:
        """`by`: the columns of a batch that have the keys to prefetch.

        `state_epoch` is the epoch before this one, whose state the session reads. None if there is
        no such epoch.
        """
        self._by = by
        self._builders = builders
        self._remote: dict[str, RemoteStore] = {}
        self._stores: dict[str, Any] = {}
        owner: StoreOwner = _SessionOwner(
            self._remote, TopicPartition("log", partition), state_epoch
        )
        for builder in builders:
            store, remote = _KINDS[builder.kind]
            self._remote[builder.name] = remote(calls, builder.name)
            self._stores[builder.name] = store(owner, builder, self._remote[builder.name])

    @property
    def names(self) -> list[str]:
        """The stores' names."""
        return list(self._stores)

    def __getitem__(self, name: str) -> Any:
        """Returns a store."""
        try:
            return self._stores[name]
        except KeyError:
            raise KeyError(f"no store {name!r} in this processor; it has {self.names}") from None

    def begin_batch(self, batch: pa.RecordBatch) -> None:
        """Sends the writes of the previous batch, and prepares to prefetch the keys of this one."""
        for builder in self._builders:
            self._remote[builder.name].begin_batch(self._keys_of(builder, batch))

    def flush(self) -> None:
        """Sends all buffered writes."""
        for remote in self._remote.values():
            remote.flush()

    def _keys_of(self, builder: "StoreBuilder", batch: pa.RecordBatch) -> Callable[[], list[bytes]]:
        return lambda: _keys(builder, batch.select(self._by).drop_null())


def _keys(builder: "StoreBuilder", rows: pa.RecordBatch) -> list[bytes]:
    """Returns the batch's keys as the store encodes them; none if their types do not fit."""
    is_known = builder.key is BYTES or isinstance(builder.key, TypedSerde)
    try:
        if isinstance(builder.key, StructSerde):
            encoded = Serdes(builder).encode_keys(rows.to_struct_array())
        elif is_known and rows.num_columns == 1:
            encoded = Serdes(builder).encode_keys(rows.column(0))
        else:
            return []
        keys: list[bytes] = pa.array(encoded).cast(pa.binary()).to_pylist()
    except (TypeError, ValueError, HoldfastError, pa.ArrowException):
        return []
    return keys


class _SessionOwner:
    """The owner of a processor's stores."""

    is_open = True

    def __init__(
        self,
        remote: "Mapping[str, RemoteStore]",
        changelog: TopicPartition,
        state_epoch: int | None,
    ) -> None:
        self._remote = remote
        self._changelog = changelog
        self._state_epoch = state_epoch

    def commit(self, _offsets: "Mapping[tuple[str, int], int | None] | None" = None, /) -> None:
        """Raises: a store cannot end the epoch."""
        raise UnsupportedOperationError(
            "a store's commit inside a processor: the epoch commits as a whole after Spark "
            "has committed it"
        )

    def store_offset(self, _store: str, partition: tuple[str, int], /) -> int | None:
        """Returns the last committed epoch if `partition` is the partition's changelog, else None.

        All stores of a partition have the state of the epoch before this one.
        """
        return self._state_epoch if topic_partition(partition) == self._changelog else None

    def store_uncommitted_bytes(self, store: str, /) -> int:
        """Returns the memory of the epoch's writes to one store."""
        return self._remote[store].uncommitted_bytes()

    def isolation(self, level: "IsolationLevel | None", /) -> str:
        """Returns the name of an isolation level."""
        return "read_uncommitted" if level is None else level.value

    def __repr__(self) -> str:
        return "a processor's session"
