"""Transactional, versioned, queryable state: an embedded store for any Python process.

A database is one database with many stores and one transaction. Here is a table of exchange rates
that knows what each rate was at any time, with a key-value store beside it, both in one commit:

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

Another process, or the same after a crash, finds the last commit:

>>> with hf.open(path, stores) as db:
...     db["rates"].get(b"USD").value, db["totals"].get(b"customer 7")
...     db.committed_offset(("orders", 3))
(b'1.0898', b'120.50', 41)

`stores` builders · `open`, `Database` · `KeyValueStore`, `TimestampedKeyValueStore`,
`VersionedKeyValueStore`, `WindowStore`, `TimestampedWindowStore`, `SessionStore` · `serde` ·
`errors` · `metrics` · `holdfast.spark` for PySpark jobs.
"""

from holdfast import errors, metrics, serde, stores
from holdfast._core import __version__
from holdfast._database import Database, open  # noqa: A004
from holdfast._iterator import StoreIterator
from holdfast._key_value import KeyValueStore, ReadOnlyKeyValueStore
from holdfast._options import (
    Durability,
    IsolationLevel,
    MetricsLevel,
    ProcessingGuarantee,
    TransactionMechanism,
)
from holdfast._position import Position, PositionBound
from holdfast._records import (
    PutResult,
    TopicPartition,
    ValueAndTimestamp,
    VersionedRecord,
    WindowedKey,
)
from holdfast._session import ReadOnlySessionStore, SessionStore
from holdfast._store import StateStore
from holdfast._timestamped import ReadOnlyTimestampedKeyValueStore, TimestampedKeyValueStore
from holdfast._user_store import UserStateStore
from holdfast._versioned import ReadOnlyVersionedKeyValueStore, VersionedKeyValueStore
from holdfast._window import (
    ReadOnlyTimestampedWindowStore,
    ReadOnlyWindowStore,
    TimestampedWindowStore,
    WindowStore,
)
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
    "Serde",
    "SessionStore",
    "StateStore",
    "StoreBuilder",
    "StoreIterator",
    "TimestampedKeyValueStore",
    "TimestampedWindowStore",
    "TopicPartition",
    "TransactionMechanism",
    "UserStateStore",
    "ValueAndTimestamp",
    "VersionedKeyValueStore",
    "VersionedRecord",
    "WindowStore",
    "WindowedKey",
    "__version__",
    "errors",
    "metrics",
    "open",
    "serde",
    "stores",
]
