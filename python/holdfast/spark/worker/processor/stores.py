"""A processor's stores: the classes of `holdfast`, over the state host instead of a database."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from holdfast._stores.key_value import KeyValueStore
from holdfast._stores.serdes import Serdes
from holdfast._stores.session import SessionStore
from holdfast._stores.timestamped import TimestampedKeyValueStore
from holdfast._stores.versioned import VersionedKeyValueStore
from holdfast._stores.window import TimestampedWindowStore, WindowStore
from holdfast.errors import HoldfastError, UnsupportedOperationError
from holdfast.serde import BYTES, TypedSerde
from holdfast.serde._struct import StructSerde
from holdfast.spark.worker.processor.key_value import KeyValue, TimestampedKeyValue
from holdfast.spark.worker.processor.session import Session
from holdfast.spark.worker.processor.versioned import Versioned
from holdfast.spark.worker.processor.window import Window

if TYPE_CHECKING:
    from holdfast import _core
    from holdfast._database import Database
    from holdfast._options import IsolationLevel
    from holdfast.spark.worker.processor.remote import Remote
    from holdfast.stores import StoreBuilder

_KINDS: Final[dict[str, tuple[Any, Any]]] = {
    "key_value": (KeyValueStore, KeyValue),
    "timestamped_key_value": (TimestampedKeyValueStore, TimestampedKeyValue),
    "versioned": (VersionedKeyValueStore, Versioned),
    "window": (WindowStore, Window),
    "timestamped_window": (TimestampedWindowStore, Window),
    "session": (SessionStore, Session),
}


class Stores:
    """The stores of one session, by name."""

    def __init__(
        self, calls: "_core.HostCalls", builders: "list[StoreBuilder]", by: list[str]
    ) -> None:
        """`by`: the columns of a batch whose keys are fetched ahead."""
        self._by = by
        self._builders = builders
        self._remote: dict[str, Remote] = {}
        self._stores: dict[str, Any] = {}
        session = cast("Database", _Session())
        for builder in builders:
            face, remote = _KINDS[builder.kind]
            self._remote[builder.name] = remote(calls, builder.name)
            self._stores[builder.name] = face(session, builder, self._remote[builder.name])

    def __getitem__(self, name: str) -> Any:
        """A store."""
        try:
            return self._stores[name]
        except KeyError:
            raise KeyError(
                f"no store {name!r} in this processor; it has {list(self._stores)}"
            ) from None

    def begin_batch(self, batch: pa.RecordBatch) -> None:
        """A batch begins: what waits of the one before is sent."""
        for builder in self._builders:
            self._remote[builder.name].begin_batch(self._ahead(builder, batch))

    def flush(self) -> None:
        """Send all writes that wait."""
        for remote in self._remote.values():
            remote.flush()

    def _ahead(self, builder: "StoreBuilder", batch: pa.RecordBatch) -> Callable[[], list[bytes]]:
        return lambda: _keys(builder, batch.select(self._by).drop_null())


def _keys(builder: "StoreBuilder", rows: pa.RecordBatch) -> list[bytes]:
    """The batch's keys as the store keeps them; none where its keys are of another kind than the
    batch's.
    """
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


class _Session:
    """What the stores ask of their task."""

    is_open = True

    def commit(self, _: object = None) -> None:
        """A store cannot end the epoch."""
        raise UnsupportedOperationError(
            "a store's commit inside a processor: the epoch commits as a whole when Spark has it; "
            "ctx.commit() asks for one"
        )

    def store_offset(self, _store: str, _partition: tuple[str, int]) -> int | None:
        """A processor's stores stand at the epoch before."""
        return None

    def isolation(self, level: "IsolationLevel | None") -> str:
        """A level's name."""
        return "read_uncommitted" if level is None else level.value

    def __repr__(self) -> str:
        return "a processor's session"
