"""Transactional, versioned, queryable state: an embedded database for any Python process.

A database has many stores and one transaction. This one has a versioned table of exchange rates,
which can be read as of any time, and a key-value store; both commit together:

>>> from datetime import UTC, datetime, timedelta
>>> import holdfast as hf
>>> import tempfile
>>> path = tempfile.mkdtemp() + "/rates.db"
>>> stores = [
...     hf.stores.versioned("rates", history_retention=timedelta(days=30)),
...     hf.stores.key_value("totals"),
... ]
>>> with hf.open(path, stores) as db:
...     rates, totals = db["rates"], db["totals"]
...     monday, tuesday = datetime(2026, 11, 16, tzinfo=UTC), datetime(2026, 11, 17, tzinfo=UTC)
...     _ = rates.put(b"USD", b"1.0921", monday)
...     _ = rates.put(b"USD", b"1.0898", tuesday)
...     rates.get(b"USD", as_of=monday + timedelta(hours=7)).value
...     totals.put(b"customer 7", b"120.50")
...     db.commit({("orders", 3): 41})
b'1.0921'

Another process, or the same one after a crash, reads the last commit:

>>> with hf.open(path, stores) as db:
...     db["rates"].get(b"USD").value, db["totals"].get(b"customer 7")
...     db.committed_offset(("orders", 3))
(b'1.0898', b'120.50')
41

- `stores`: builders of stores
- `open` and `Database`
- `KeyValueStore`, `TimestampedKeyValueStore`, `VersionedKeyValueStore`, `WindowStore`,
  `TimestampedWindowStore`, `SessionStore`, and the interfaces of user stores, `UserStateStore` and
  `TransactionalUserStore`
- `serde`: typed keys and values
- `errors`, `metrics`
- `holdfast.spark`: operators for PySpark jobs
- `connect`, `StateReader` and `StateTable`: read the state of a PySpark job from anywhere
"""

from holdfast._requirements import check_extension

check_extension()  # before the imports that need it

from holdfast import errors, metrics, serde, stores
from holdfast._core import __version__
from holdfast._database import Database, open  # noqa: A004
from holdfast._offsets import TopicPartition
from holdfast._options import (
    Durability,
    IsolationLevel,
    MetricsLevel,
    ProcessingGuarantee,
    TransactionMechanism,
)
from holdfast._position import Position, PositionBound
from holdfast._reader.read_source import ReadSource
from holdfast._reader.state_reader import StateReader, connect
from holdfast._reader.state_table import StateTable
from holdfast._stores.base import StateStore
from holdfast._stores.iterator import StoreIterator
from holdfast._stores.key_value import KeyValueStore, ReadOnlyKeyValueStore
from holdfast._stores.records import PutResult, ValueAndTimestamp, VersionedRecord, WindowedKey
from holdfast._stores.session import ReadOnlySessionStore, SessionStore
from holdfast._stores.timestamped import (
    ReadOnlyTimestampedKeyValueStore,
    TimestampedKeyValueStore,
)
from holdfast._stores.versioned import ReadOnlyVersionedKeyValueStore, VersionedKeyValueStore
from holdfast._stores.window import (
    ReadOnlyTimestampedWindowStore,
    ReadOnlyWindowStore,
    TimestampedWindowStore,
    WindowStore,
)
from holdfast._user_store.protocol import TransactionalUserStore, UserStateStore
from holdfast.serde import Serde
from holdfast.stores import StoreBuilder

__all__ = [
    "Database",
    "Durability",
    "IsolationLevel",
    "KeyValueStore",
    "MetricsLevel",
    "Position",
    "PositionBound",
    "ProcessingGuarantee",
    "PutResult",
    "ReadOnlyKeyValueStore",
    "ReadOnlySessionStore",
    "ReadOnlyTimestampedKeyValueStore",
    "ReadOnlyTimestampedWindowStore",
    "ReadOnlyVersionedKeyValueStore",
    "ReadOnlyWindowStore",
    "ReadSource",
    "Serde",
    "SessionStore",
    "StateReader",
    "StateStore",
    "StateTable",
    "StoreBuilder",
    "StoreIterator",
    "TimestampedKeyValueStore",
    "TimestampedWindowStore",
    "TopicPartition",
    "TransactionMechanism",
    "TransactionalUserStore",
    "UserStateStore",
    "ValueAndTimestamp",
    "VersionedKeyValueStore",
    "VersionedRecord",
    "WindowStore",
    "WindowedKey",
    "__version__",
    "connect",
    "errors",
    "metrics",
    "open",
    "serde",
    "stores",
]
