"""The versioned store, whose calls all go to the state host."""

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from holdfast._core import decode_batch
from holdfast.spark.worker.processor.remote import RemoteRows, RemoteStore, columns, tuples

if TYPE_CHECKING:
    from holdfast import _core


class RemoteVersioned(RemoteStore):
    """A versioned store."""

    def stream_time(self) -> int | None:
        """Returns the greatest timestamp of an accepted write so far."""
        time: int | None = self._number("time")
        return time

    def put(self, key: bytes, value: bytes | None, timestamp: int) -> tuple[bool, int | None]:
        """Puts a version; returns (accepted, valid_to)."""
        self._check_size(key, value)
        put = self._ask(
            "apply",
            ("keys", "key", [key]),
            ("values", "bytes", [value]),
            ("timestamps", "time", [timestamp]),
        )
        (accepted,), _, _, (valid_to,) = columns(put)
        return accepted, valid_to

    def delete(self, key: bytes, timestamp: int) -> tuple[bytes, int, int | None] | None:
        """Ends the value at a time; returns the version that was in force."""
        return _record(
            self._ask("delete", ("key", "key", [key]), ("timestamp", "time", [timestamp]))
        )

    def get(self, key: bytes, as_of: int | None) -> tuple[bytes, int, int | None] | None:
        """Returns the newest version, or the one in force at a time."""
        return _record(self._ask("get", ("keys", "key", [key]), *_as_of(as_of)))

    def versions(self, key: bytes, start: int, end: int, descending: bool) -> RemoteRows:
        """Returns the versions of a key that were in force in `[start, end]`."""
        order: _core._Argument = ("descending", "flag", [descending])
        return RemoteRows(
            self._scan("versions", ("key", "key", [key]), *_times(start, end), order), tuples
        )

    def versions_range(
        self, key_from: bytes | None, key_to: bytes | None, start: int, end: int
    ) -> RemoteRows:
        """Returns the versions of a range of keys, ordered by (key, timestamp)."""
        return RemoteRows(
            self._scan("range", *_keys(key_from, key_to), *_times(start, end)), tuples
        )

    def scan(self, as_of: int | None) -> RemoteRows:
        """Returns the table as of a time, or as it is now."""
        return RemoteRows(self._scan("scan", *_as_of(as_of)), tuples)

    def put_batch(self, keys: Any, values: Any, timestamps: Any) -> Any:
        """Puts one version per row, in order; returns `accepted` and `valid_to` of each row."""
        put = self._ask(
            "apply",
            ("keys", "key", keys),
            ("values", "bytes", values),
            ("timestamps", "time", timestamps),
        )
        return pa.record_batch(put).select(["accepted", "valid_to"])

    def get_batch(self, keys: Any, as_of: Any) -> "_core.ArrowBatch":
        """Returns one version per row."""
        times: list[_core._Argument] = [] if as_of is None else [("as_of", "time", as_of)]
        return self._ask("get", ("keys", "key", keys), *times)

    def apply_batch(
        self,
        is_put: Any,
        keys: Any,
        values: Any,
        timestamps: Any,
        value_serde: "_core.Serde | None" = None,
    ) -> "_core.ArrowBatch":
        """Applies one put or get per row, in order.

        An error of the host, or in deserializing a stored value, ends the session: the task fails,
        even if the processor catches the error, and none of its writes are committed.
        """
        rows: list[_core._Argument] = [
            ("keys", "key", keys),
            ("values", "bytes", values),
            ("timestamps", "time", timestamps),
        ]
        applied = self._ask("apply", ("is_put", "flag", is_put), *rows)
        if value_serde is None:
            return applied
        try:
            return decode_batch(applied, None, value_serde, self._name, keys)
        except BaseException:
            self._calls.close()  # the host has the batch's puts
            raise

    def versions_batches(
        self, key_from: bytes | None, key_to: bytes | None, start: int, end: int, batch_rows: int
    ) -> "_core.ArrowReader":
        """Returns the rows of `versions_range` in batches."""
        return self._scan(
            "range", *_keys(key_from, key_to), *_times(start, end), batch_rows=batch_rows
        )

    def scan_batches(self, as_of: int | None, batch_rows: int) -> "_core.ArrowReader":
        """Returns the rows of `scan` in batches."""
        return self._scan("scan", *_as_of(as_of), batch_rows=batch_rows)


def _record(batch: "_core.ArrowBatch") -> tuple[bytes, int, int | None] | None:
    (value,), (timestamp,), (valid_to,) = columns(batch)
    return None if value is None else (value, timestamp, valid_to)


def _as_of(time: int | None) -> "list[_core._Argument]":
    return [] if time is None else [("as_of", "time", [time])]


def _keys(start: bytes | None, end: bytes | None) -> "list[_core._Argument]":
    return [("start_key", "bytes", [start]), ("end_key", "bytes", [end])]


def _times(start: int, end: int) -> "list[_core._Argument]":
    return [("start", "time", [start]), ("end", "time", [end])]
