"""The window stores: a key's value in a window of time, with a timestamp or without.

>>> from datetime import timedelta
>>> import holdfast as hf
>>> import tempfile
>>> hour, minute = timedelta(hours=1), timedelta(minutes=1)
>>> minutes = hf.stores.window("minutes", retention=hour, window_size=minute)
>>> db = hf.open(tempfile.mkdtemp() + "/db", [minutes])
>>> counts = db["minutes"]
>>> counts.put(b"EUR", b"17", 0)
>>> counts.put(b"EUR", b"21", 60_000_000)
>>> counts.fetch(b"EUR", 60_000_000)
b'21'
>>> for window, count in counts.fetch(b"EUR", 0, 60_000_000):
...     print(window, count)
WindowedKey(key=b'EUR', start=0, end=60000000) b'17'
WindowedKey(key=b'EUR', start=60000000, end=120000000) b'21'
>>> db.close()
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from holdfast._stores.base import StateStore, StoreReads
from holdfast._stores.bounds import MAX_TIME, MIN_TIME, key_bounds
from holdfast._stores.iterator import StoreIterator
from holdfast._stores.records import ValueAndTimestamp, WindowedKey
from holdfast._stores.serdes import Serdes
from holdfast._time import Timestamp, timestamp_micros

if TYPE_CHECKING:
    from holdfast import _core
    from holdfast._options import IsolationLevel
    from holdfast._position import PositionBound
    from holdfast._stores.owner import StoreOwner
    from holdfast.stores import StoreBuilder

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")


class _WindowReads(StoreReads[K, V, "_core.WindowStore"], ABC, Generic[K, V, R]):
    """The reads that both kinds of window store share.

    R is the type of a result: V, or V with its timestamp.
    """

    _timestamps: bool

    @abstractmethod
    def _result(self, value: bytes, timestamp: int, key: bytes) -> R: ...

    @property
    def stream_time(self) -> int | None:
        """The greatest window start of a write of any key, in epoch microseconds.

        None before the first write.
        """
        return self._core.stream_time()

    @overload
    def fetch(
        self, key: K, start: Timestamp, end: None = None, *, reverse: bool = False
    ) -> R | None: ...
    @overload
    def fetch(
        self, key: K, start: Timestamp, end: Timestamp, *, reverse: bool = False
    ) -> StoreIterator[WindowedKey[K], R]: ...
    def fetch(
        self, key: K, start: Timestamp, end: Timestamp | None = None, *, reverse: bool = False
    ) -> R | StoreIterator[WindowedKey[K], R] | None:
        """Returns the key's value in the window that starts at `start`, None if it has none.

        With `end`, returns the key's windows that start from `start` to `end`, both included, by
        start. Without `end`, a store that retains duplicates raises `UnsupportedOperationError`.
        """
        low = self._serdes.to_key(key)
        if end is None:
            found = self._core.fetch(low, timestamp_micros(start, "start"))
            return None if found is None else self._result(*found, low)
        return self._iterator(
            (low, low, timestamp_micros(start, "start"), timestamp_micros(end, "end"), reverse)
        )

    def fetch_range(
        self,
        key_from: K | None,
        key_to: K | None,
        start: Timestamp,
        end: Timestamp,
        *,
        reverse: bool = False,
    ) -> StoreIterator[WindowedKey[K], R]:
        """Returns the windows of a range of keys and of starts, by (start, key).

        Both ends of both ranges are included; a key of None is an open end. If a start is above its
        end, the result is empty.
        """
        return self._iterator(self._selection(key_from, key_to, start, end, reverse=reverse))

    def all(self, *, reverse: bool = False) -> StoreIterator[WindowedKey[K], R]:
        """Returns all windows, by (start, key)."""
        return self._iterator((None, None, MIN_TIME, MAX_TIME, reverse))

    @overload
    def fetch_batch(self, keys: Any, window_starts: Any, window_starts_to: None = None) -> Any: ...
    @overload
    def fetch_batch(
        self, keys: Any, window_starts: Any, window_starts_to: Any
    ) -> _core.ArrowBatch: ...
    def fetch_batch(self, keys: Any, window_starts: Any, window_starts_to: Any = None) -> Any:
        """Returns one value per row, of the window that starts at the row's `window_starts`.

        The result is a column of values; in a timestamped store, a batch of `value` and
        `timestamp`. It is null where there is no such window. A store that retains duplicates
        raises `UnsupportedOperationError`.

        With `window_starts_to`, returns the windows of each row's key that start from the row's
        `window_starts` to its `window_starts_to`, both included. The result is a batch of `row`
        (the index into `keys`), `window_start`, `window_end`, `value` and, in a timestamped store,
        `timestamp`, by row and start.
        """
        encoded = self._serdes.encode_keys(keys)
        if window_starts_to is not None:
            found = self._core.fetch_ranges(
                encoded, window_starts, window_starts_to, self._timestamps
            )
            return self._serdes.decode_batch(found)
        if self._timestamps:
            return self._serdes.decode_batch(
                self._core.fetch_stamped_batch(encoded, window_starts), encoded
            )
        return self._serdes.decode_values(self._core.fetch_batch(encoded, window_starts), encoded)

    def fetch_range_batches(
        self,
        key_from: K | None,
        key_to: K | None,
        start: Timestamp,
        end: Timestamp,
        *,
        reverse: bool = False,
        batch_rows: int = 10_000,
    ) -> _core.ArrowReader:
        """As `fetch_range`, in batches.

        Their columns are `key`, `window_start`, `window_end`, `value` and, in a timestamped store,
        `timestamp`.
        """
        selection = self._selection(key_from, key_to, start, end, reverse=reverse)
        return self._batches(selection, batch_rows)

    def all_batches(self, *, reverse: bool = False, batch_rows: int = 10_000) -> _core.ArrowReader:
        """As `all`, in batches with the columns of `fetch_range_batches`."""
        return self._batches((None, None, MIN_TIME, MAX_TIME, reverse), batch_rows)

    def _selection(
        self,
        key_from: K | None,
        key_to: K | None,
        start: Timestamp,
        end: Timestamp,
        *,
        reverse: bool,
    ) -> _core._Selection:
        low, high = key_bounds(self._serdes, key_from, key_to)
        return (low, high, timestamp_micros(start, "start"), timestamp_micros(end, "end"), reverse)

    def _batches(self, selection: _core._Selection, batch_rows: int) -> _core.ArrowReader:
        return self._serdes.decode_reader(
            self._core.fetch_range_batches(selection, batch_rows, self._timestamps)
        )

    def _iterator(self, selection: _core._Selection) -> StoreIterator[WindowedKey[K], R]:
        from_key, result = self._serdes.from_key, self._result

        def key(row: tuple[bytes, int, int]) -> WindowedKey[K]:
            return WindowedKey(from_key(row[0]), row[1], row[2])

        return StoreIterator(
            self._core.fetch_range(selection),
            key,
            lambda row: (key(row[0]), result(row[1], row[2], row[0][0])),
        )


class _WindowStore(StateStore):
    """The properties that both kinds of window store share."""

    @property
    def retention(self) -> int:
        """A window is dropped if its start is this many microseconds or more behind stream time."""
        retention = self._builder.retention
        assert retention is not None  # noqa: S101  # the builder of a window store always has one
        return retention

    @property
    def window_size(self) -> int:
        """The time from a window's start to its end, in microseconds."""
        size = self._builder.window_size
        assert size is not None  # noqa: S101  # the builder of a window store always has one
        return size

    @property
    def retain_duplicates(self) -> bool:
        """Whether every put of the same key and window is retained."""
        return self._builder.retain_duplicates


class ReadOnlyWindowStore(_WindowReads[K, V, V]):
    """The reads of a window store at one isolation level, from any thread.

    They raise what `StateStore` lists.
    """

    _timestamps = False

    def _result(self, value: bytes, timestamp: int, key: bytes) -> V:  # noqa: ARG002
        return self._serdes.from_value(value, key)


class WindowStore(_WindowStore, ReadOnlyWindowStore[K, V]):
    """A window store of a database: `db[name]`.

    A window is identified by its start. It ends `window_size` later, the end excluded. Windows that
    start `retention` or more before the greatest start are dropped; puts into them are skipped and
    counted (`dropped-records-total`).
    """

    def __init__(self, owner: StoreOwner, builder: StoreBuilder, core: _core.WindowStore) -> None:
        """Called by the owner."""
        StateStore.__init__(self, owner, builder)
        ReadOnlyWindowStore.__init__(self, core, Serdes(builder))

    def put(self, key: K, value: V | None, window_start: Timestamp) -> None:
        """Sets the key's value in a window; None deletes it.

        If duplicates are retained, None is skipped.
        """
        at = timestamp_micros(window_start, "window_start")
        self._core.put(self._serdes.to_key(key), self._serdes.to_value(value), at, None)

    def put_batch(self, keys: Any, values: Any, window_starts: Any) -> None:
        """Puts one value per row, in order; null as in `put`."""
        self._core.put_batch(
            self._serdes.encode_keys(keys), self._serdes.encode_values(values), window_starts, None
        )

    def read_only(
        self,
        isolation_level: IsolationLevel | None = None,
        *,
        position_bound: PositionBound | None = None,
    ) -> ReadOnlyWindowStore[K, V]:
        """Returns the reads at an isolation level, as `StateStore.read_only` describes."""
        return ReadOnlyWindowStore(
            self._core.read_only(*self._view(isolation_level, position_bound)), self._serdes
        )


class ReadOnlyTimestampedWindowStore(_WindowReads[K, V, ValueAndTimestamp[V]]):
    """The reads of a timestamped window store at one isolation level, from any thread.

    They raise what `StateStore` lists.
    """

    _timestamps = True

    def _result(self, value: bytes, timestamp: int, key: bytes) -> ValueAndTimestamp[V]:
        return ValueAndTimestamp(self._serdes.from_value(value, key), timestamp)


class TimestampedWindowStore(_WindowStore, ReadOnlyTimestampedWindowStore[K, V]):
    """A window store of a database whose values have timestamps: `db[name]`.

    Otherwise it behaves as `WindowStore`. A value that was written when the store had no timestamps
    has timestamp -1.
    """

    def __init__(self, owner: StoreOwner, builder: StoreBuilder, core: _core.WindowStore) -> None:
        """Called by the owner."""
        StateStore.__init__(self, owner, builder)
        ReadOnlyTimestampedWindowStore.__init__(self, core, Serdes(builder))

    def put(self, key: K, value: V | None, window_start: Timestamp, timestamp: Timestamp) -> None:
        """Sets the key's value and timestamp in a window; None deletes it.

        If duplicates are retained, None is skipped.
        """
        start, at = (
            timestamp_micros(window_start, "window_start"),
            timestamp_micros(timestamp, "timestamp"),
        )
        self._core.put(self._serdes.to_key(key), self._serdes.to_value(value), start, at)

    def put_batch(self, keys: Any, values: Any, window_starts: Any, timestamps: Any) -> None:
        """Puts one value and timestamp per row, in order; null as in `put`."""
        if timestamps is None:
            raise TypeError("timestamps is None; wanted: an Arrow array, one timestamp per row")
        keys, values = self._serdes.encode_keys(keys), self._serdes.encode_values(values)
        self._core.put_batch(keys, values, window_starts, timestamps)

    def read_only(
        self,
        isolation_level: IsolationLevel | None = None,
        *,
        position_bound: PositionBound | None = None,
    ) -> ReadOnlyTimestampedWindowStore[K, V]:
        """Returns the reads at an isolation level, as `StateStore.read_only` describes."""
        return ReadOnlyTimestampedWindowStore(
            self._core.read_only(*self._view(isolation_level, position_bound)), self._serdes
        )
