"""The session store: a key's values over periods whose length is not fixed.

A click at 25, with a gap of 10, extends the session that ended at 20:

>>> import holdfast as hf
>>> import tempfile
>>> visits = hf.stores.session("visits", retention=3_600_000_000)
>>> db = hf.open(tempfile.mkdtemp() + "/db", [visits])
>>> visits = db["visits"]
>>> visits.put(hf.WindowedKey(b"customer 7", 10, 20), b"3 clicks")
>>> for session, clicks in visits.find_sessions(b"customer 7", 25 - 10, 25 + 10):
...     visits.remove(session)
...     visits.put(hf.WindowedKey(b"customer 7", session.start, 25), b"4 clicks")
>>> list(visits.fetch(b"customer 7"))
[(WindowedKey(key=b'customer 7', start=10, end=25), b'4 clicks')]
>>> db.close()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar

from holdfast._stores.base import StateStore, StoreReads
from holdfast._stores.bounds import MAX_TIME, MIN_TIME, key_bounds
from holdfast._stores.iterator import StoreIterator
from holdfast._stores.records import WindowedKey
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


class ReadOnlySessionStore(StoreReads[K, V, "_core.SessionStore"]):
    """The reads of a session store at one isolation level, from any thread.

    They raise what `StateStore` lists.
    """

    @property
    def stream_time(self) -> int | None:
        """The greatest session end of a write of any key, in epoch microseconds.

        None before the first write.
        """
        return self._core.stream_time()

    def fetch_session(self, key: K, start: Timestamp, end: Timestamp) -> V | None:
        """Returns the value of the session from `start` to `end`, None if there is none."""
        data = self._core.fetch_session(
            found := self._serdes.to_key(key),
            timestamp_micros(start, "start"),
            timestamp_micros(end, "end"),
        )
        return None if data is None else self._serdes.from_value(data, found)

    def fetch(
        self, key_from: K, key_to: K | None = None, *, reverse: bool = False
    ) -> StoreIterator[WindowedKey[K], V]:
        """Returns all sessions of a key or a range of keys, by (end, key, start).

        With `key_to`, the range is from `key_from` to `key_to`, both included.
        """
        self._serdes.to_key(key_from)  # raises for None: only `find_sessions` has an open lower end
        to = key_from if key_to is None else key_to
        return self._iterator(self._selection(key_from, to, MIN_TIME, MAX_TIME, reverse=reverse))

    def find_sessions(
        self,
        key_from: K | None,
        earliest_end: Timestamp,
        latest_start: Timestamp,
        *,
        key_to: K | Literal["same"] | None = "same",
        reverse: bool = False,
    ) -> StoreIterator[WindowedKey[K], V]:
        """Returns sessions that overlap a time range, by (end, key, start).

        They end at `earliest_end` or later and start at `latest_start` or earlier. Their keys
        are those from `key_from` to `key_to`, both included; None is an open end. The text "same",
        the default, stands for `key_from` and is never a key. To merge a record at `t` with gap
        `g`, search from `t - g` to `t + g`.
        """
        return self._iterator(
            self._query(key_from, earliest_end, latest_start, key_to, reverse=reverse)
        )

    def find_batches(
        self,
        key_from: K | None,
        earliest_end: Timestamp,
        latest_start: Timestamp,
        *,
        key_to: K | Literal["same"] | None = "same",
        reverse: bool = False,
        batch_rows: int = 10_000,
    ) -> _core.ArrowReader:
        """Returns the sessions of `find_sessions` in batches of `key`, `start`, `end`, `value`."""
        query = self._query(key_from, earliest_end, latest_start, key_to, reverse=reverse)
        return self._serdes.decode_reader(self._core.find_batches(query, batch_rows))

    def find_batch(self, keys: Any, earliest_ends: Any, latest_starts: Any) -> _core.ArrowBatch:
        """Finds the sessions of one key per row, ordered by row, then by (end, start).

        Returns a batch of `row` (the index into `keys`), `start`, `end`, `value`.
        """
        found = self._core.find_batch(self._serdes.encode_keys(keys), earliest_ends, latest_starts)
        return self._serdes.decode_batch(found)

    def fetch_session_batch(self, keys: Any, starts: Any, ends: Any) -> _core.ArrowArray:
        """Returns one value per row, null where there is no such session."""
        encoded = self._serdes.encode_keys(keys)
        return self._serdes.decode_values(
            self._core.fetch_session_batch(encoded, starts, ends), encoded
        )

    def _query(
        self,
        key_from: K | None,
        earliest_end: Timestamp,
        latest_start: Timestamp,
        key_to: K | Literal["same"] | None,
        *,
        reverse: bool,
    ) -> _core._Selection:
        end, start = (
            timestamp_micros(earliest_end, "earliest_end"),
            timestamp_micros(latest_start, "latest_start"),
        )
        if isinstance(key_to, str) and key_to == "same":
            key = self._serdes.to_key(key_from)  # type: ignore[arg-type]  # None is an error
            return (key, key, end, start, reverse)
        return self._selection(key_from, key_to, end, start, reverse=reverse)

    def _selection(
        self,
        key_from: K | None,
        key_to: K | None,
        earliest_end: int,
        latest_start: int,
        *,
        reverse: bool,
    ) -> _core._Selection:
        low, high = key_bounds(self._serdes, key_from, key_to)
        return (low, high, earliest_end, latest_start, reverse)

    def _iterator(self, selection: _core._Selection) -> StoreIterator[WindowedKey[K], V]:
        from_key, from_value = self._serdes.from_key, self._serdes.from_value

        def key(row: tuple[bytes, int, int]) -> WindowedKey[K]:
            return WindowedKey(from_key(row[0]), row[1], row[2])

        return StoreIterator(
            self._core.find_sessions(selection),
            key,
            lambda row: (key(row[0]), from_value(row[1], row[0][0])),
        )


class SessionStore(StateStore, ReadOnlySessionStore[K, V]):
    """A session store of a database: `db[name]`.

    A session lasts from its start to its end, both included. Sessions that end `retention` or more
    before the greatest end are dropped; puts of them are skipped and counted
    (`dropped-records-total`). Puts and removals of a session that ends before it starts raise
    `ValueError`.
    """

    def __init__(self, owner: StoreOwner, builder: StoreBuilder, core: _core.SessionStore) -> None:
        """Called by the owner."""
        StateStore.__init__(self, owner, builder)
        ReadOnlySessionStore.__init__(self, core, Serdes(builder))

    @property
    def retention(self) -> int:
        """A session is dropped if its end is this many microseconds or more behind stream time."""
        retention = self._builder.retention
        assert retention is not None  # noqa: S101  # the builder of a session store always has one
        return retention

    def put(self, session: WindowedKey[K], value: V | None) -> None:
        """Sets a session's value; None removes the session."""
        key, start, end = session
        times = timestamp_micros(start, "start"), timestamp_micros(end, "end")
        self._core.put(self._serdes.to_key(key), *times, self._serdes.to_value(value))

    def remove(self, session: WindowedKey[K]) -> None:
        """Removes a session if it exists."""
        self.put(session, None)

    def put_batch(self, keys: Any, starts: Any, ends: Any, values: Any) -> None:
        """Puts one session per row, in order; null removes it."""
        self._core.put_batch(
            self._serdes.encode_keys(keys), starts, ends, self._serdes.encode_values(values)
        )

    def remove_batch(self, keys: Any, starts: Any, ends: Any) -> None:
        """Removes one session per row."""
        self._core.remove_batch(self._serdes.encode_keys(keys), starts, ends)

    def read_only(
        self,
        isolation_level: IsolationLevel | None = None,
        *,
        position_bound: PositionBound | None = None,
    ) -> ReadOnlySessionStore[K, V]:
        """Returns the reads at an isolation level, as `StateStore.read_only` describes."""
        return ReadOnlySessionStore(
            self._core.read_only(*self._view(isolation_level, position_bound)), self._serdes
        )
