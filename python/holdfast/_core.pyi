"""The extension: what `rust/python` exports. Every call into the engine releases the GIL.

Keys and values are bytes, moments and durations microseconds. The classes in `holdfast` wrap these,
and say what they raise: an error of the engine becomes the class of its kind in `holdfast.errors`,
wrong values and types `ValueError` and `TypeError` (`rust/python/src/error.rs`), a panic
`HoldfastError`.
"""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Self, TypeAlias, TypedDict, final

from holdfast.stores import StoreBuilder

__all__ = [
    "ArrowArray",
    "ArrowBatch",
    "ArrowReader",
    "Database",
    "HostCalls",
    "HostClient",
    "HostOutput",
    "KeyValueIterator",
    "KeyValueStore",
    "Serde",
    "SessionIterator",
    "SessionStore",
    "TimestampedIterator",
    "TimestampedKeyValueStore",
    "VersionIterator",
    "VersionedKeyValueStore",
    "WindowIterator",
    "WindowStore",
    "__version__",
    "check_root",
    "check_store_name",
    "check_topic",
    "decode_batch",
    "decode_reader",
    "default_segment_interval",
    "drop_epoch",
    "host_main",
    "open_database",
    "read_offsets",
    "remove_offsets",
    "rewind",
    "write_offsets",
]

__version__: str

_Figure: TypeAlias = tuple[str, int | float, str, str]
"""A name, its value, its unit and what it means."""
_Value: TypeAlias = tuple[bytes, int]
"""A value and its timestamp."""
_WindowedKey: TypeAlias = tuple[bytes, int, int]
"""A key, a start and an end."""
_Selection: TypeAlias = tuple[bytes | None, bytes | None, int, int, bool]
"""First and last key; first and last start of a window, or a session's earliest end and latest
start; backward.
"""

class _Settings(TypedDict):
    """How a database is opened, enums by their values."""

    durability: str
    guarantee: str
    mechanism: str
    uncommitted_max_bytes: int
    metrics_level: str
    older_layout: bool
    rocksdb_options: Sequence[tuple[str, str]]

def open_database(
    path: str | PathLike[str] | None, stores: Sequence[StoreBuilder], settings: _Settings
) -> Database:
    """Opens the database in a directory, or makes it; without a path it is in memory."""

def read_offsets(path: str | PathLike[str]) -> list[tuple[str, int, int]] | None:
    """The offsets in a text file of older layouts; None if there is no file."""

def write_offsets(path: str | PathLike[str], offsets: Sequence[tuple[str, int, int]]) -> None:
    """Writes such a file, all or nothing."""

def remove_offsets(path: str | PathLike[str]) -> None:
    """Removes such a file, if there is one, for good when it returns."""

def default_segment_interval(history_retention: int) -> int:
    """The segment interval that is the default for a history retention, both in microseconds."""

def check_store_name(name: str) -> None:
    """Raises `ValueError` for what cannot be a store's name: it is not 1 to 200 ASCII letters,
    digits, `_`, `-` or `.`.
    """

def check_topic(topic: str) -> None:
    """Raises `ValueError` for a topic that such a file has no place for."""

@final
class Database:
    """An open database."""

    def path(self) -> PathLike[str]:
        """Where the files are."""
    def is_open(self) -> bool:
        """Whether `close` has not been called."""
    def keep_serdes(self, serdes: Sequence[tuple[str, bool, Serde]]) -> None:
        """Checks a store's serde (name, whether it is the key's, serde) against the one it was
        written with.
        """
    def key_value(self, name: str) -> KeyValueStore:
        """The writer's handle to a key-value store."""
    def timestamped_key_value(self, name: str) -> TimestampedKeyValueStore:
        """The writer's handle to a timestamped key-value store."""
    def versioned(self, name: str) -> VersionedKeyValueStore:
        """The writer's handle to a versioned store."""
    def window(self, name: str) -> WindowStore:
        """The writer's handle to a window store, with timestamps or without."""
    def session(self, name: str) -> SessionStore:
        """The writer's handle to a session store."""
    def check_commit(
        self, changelog_offsets: Sequence[tuple[str, int, int | None]] | None, in_text_files: bool
    ) -> None:
        """Raises what a commit would before it begins; also for topics that text files cannot hold,
        if they go there.
        """
    def commit(self, changelog_offsets: Sequence[tuple[str, int, int | None]] | None) -> None:
        """Commits; None keeps the offsets, an empty list forgets them."""
    def rollback(self) -> None:
        """Drops the open transaction."""
    def recover(self) -> list[tuple[str, int, int]]:
        """Drops the open transaction, ends an interrupted commit; the offsets of the state: topic,
        partition, offset.
        """
    def restore_batch(
        self,
        store: str,
        keys: Any,
        values: Any,
        timestamps: Any,
        changelog_offsets: Sequence[tuple[str, int, int | None]],
    ) -> None:
        """Applies changelog records past the transaction."""
    def committed_offset(self, topic: str, partition: int) -> int | None:
        """The last committed offset."""
    def store_offset(self, store: str, topic: str, partition: int) -> int | None:
        """The last committed offset of one store."""
    def committed_offsets(self) -> list[tuple[str, int, int]]:
        """All of them: topic, partition, offset."""
    def observe(self, topic: str, partition: int, offset: int) -> None:
        """Notes the input record that the following writes come from."""
    def position(self, level: str) -> list[tuple[str, int, int]]:
        """The input position at an isolation level: topic, partition, offset."""
    def checkpoint(self, directory: str | PathLike[str]) -> None:
        """A consistent copy of the last commit in a new directory."""
    def uncommitted_bytes(self) -> int:
        """Memory that a commit would free."""
    def commit_requested(self) -> bool:
        """Whether the limit is reached, or would be with as much again as was written since the
        last call.
        """
    def metrics(self) -> tuple[list[_Figure], list[tuple[str, list[_Figure]]]]:
        """The figures of the database, and those of each store by its name."""
    def close(self) -> None:
        """Flushes and closes; again: nothing."""

@final
class KeyValueStore:
    """A key-value store as one view sees it."""

    def read_only(self, level: str, bound: Sequence[tuple[str, int, int]] | None) -> KeyValueStore:
        """The same store as a reader at an isolation level sees it, once the input position has
        reached the bound.
        """
    def get(self, key: bytes) -> bytes | None:
        """The key's value."""
    def put(self, key: bytes, value: bytes | None) -> None:
        """Sets it; None deletes."""
    def put_if_absent(self, key: bytes, value: bytes | None) -> bytes | None:
        """Sets it where there is none; returns what was there."""
    def put_all(self, entries: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Sets all, in order, as one unit."""
    def delete(self, key: bytes) -> bytes | None:
        """Removes it; returns what was there."""
    def range(self, start: bytes | None, end: bytes | None, reverse: bool) -> KeyValueIterator:
        """From `start` to `end`, both included."""
    def prefix_scan(self, prefix: bytes, end: bytes | None) -> KeyValueIterator:
        """Keys that start with `prefix`, and lie below `end`."""
    def approximate_num_entries(self) -> int:
        """About how many keys there are."""
    def put_batch(self, keys: Any, values: Any) -> None:
        """Sets a value a key, as one unit."""
    def get_batch(self, keys: Any) -> ArrowArray:
        """A value a key."""
    def delete_batch(self, keys: Any) -> None:
        """Removes the keys."""
    def delete_range(self, start: bytes | None, end: bytes | None) -> None:
        """Removes all keys from `start` to `end`, both included."""
    def range_batches(
        self, start: bytes | None, end: bytes | None, reverse: bool, batch_rows: int
    ) -> ArrowReader:
        """As `range`, in batches."""

@final
class KeyValueIterator:
    """Rows of key and value."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[bytes, bytes]: ...
    def peek_next_key(self) -> bytes:
        """The next row's key."""
    def close(self) -> None:
        """Lets the snapshot go."""

@final
class TimestampedKeyValueStore:
    """A timestamped key-value store as one view sees it."""

    def read_only(
        self, level: str, bound: Sequence[tuple[str, int, int]] | None
    ) -> TimestampedKeyValueStore:
        """The same store as a reader at an isolation level sees it, once the input position has
        reached the bound.
        """
    def get(self, key: bytes) -> _Value | None:
        """The key's value."""
    def put(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        """Sets it; None deletes."""
    def put_if_absent(self, key: bytes, new: bytes | None, timestamp: int) -> _Value | None:
        """Sets it where there is none; returns what was there."""
    def put_all(self, entries: Sequence[tuple[bytes, bytes | None, int]]) -> None:
        """Sets all, in order, as one unit."""
    def delete(self, key: bytes) -> _Value | None:
        """Removes it; returns what was there."""
    def range(self, start: bytes | None, end: bytes | None, reverse: bool) -> TimestampedIterator:
        """From `start` to `end`, both included."""
    def prefix_scan(self, prefix: bytes, end: bytes | None) -> TimestampedIterator:
        """Keys that start with `prefix`, and lie below `end`."""
    def approximate_num_entries(self) -> int:
        """About how many keys there are."""
    def put_batch(self, keys: Any, values: Any, timestamps: Any) -> None:
        """Sets a value a key, as one unit."""
    def get_batch(self, keys: Any) -> ArrowBatch:
        """A value and its timestamp a key."""
    def delete_batch(self, keys: Any) -> None:
        """Removes the keys."""
    def delete_range(self, start: bytes | None, end: bytes | None) -> None:
        """Removes all keys from `start` to `end`, both included."""
    def range_batches(
        self, start: bytes | None, end: bytes | None, reverse: bool, batch_rows: int
    ) -> ArrowReader:
        """As `range`, in batches."""

@final
class TimestampedIterator:
    """Rows of key, value and timestamp."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[bytes, bytes, int]: ...
    def peek_next_key(self) -> bytes:
        """The next row's key."""
    def close(self) -> None:
        """Lets the snapshot go."""

@final
class WindowStore:
    """A window store as one view sees it, with timestamps or without (they are -1 then, and None in
    puts).
    """

    def read_only(self, level: str, bound: Sequence[tuple[str, int, int]] | None) -> WindowStore:
        """The same store as a reader at an isolation level sees it, once the input position has
        reached the bound.
        """
    def stream_time(self) -> int | None:
        """The greatest start of a write."""
    def put(self, key: bytes, value: bytes | None, start: int, timestamp: int | None) -> None:
        """Sets a window's value; None deletes."""
    def fetch(self, key: bytes, start: int) -> _Value | None:
        """A window's value."""
    def fetch_range(self, wanted: _Selection) -> WindowIterator:
        """Windows by (start, key)."""
    def put_batch(self, keys: Any, values: Any, window_starts: Any, timestamps: Any | None) -> None:
        """A put a row, as one unit; with timestamps in a store that has them."""
    def fetch_batch(self, keys: Any, window_starts: Any) -> ArrowArray:
        """A value a row."""
    def fetch_stamped_batch(self, keys: Any, window_starts: Any) -> ArrowBatch:
        """A value and its timestamp a row."""
    def fetch_ranges(self, keys: Any, starts: Any, ends: Any, timestamps: bool) -> ArrowBatch:
        """The windows of a key between two starts, a row of input each."""
    def fetch_range_batches(
        self, wanted: _Selection, batch_rows: int, timestamps: bool
    ) -> ArrowReader:
        """As `fetch_range`, in batches."""

@final
class WindowIterator:
    """Rows of windowed key, value and timestamp."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[_WindowedKey, bytes, int]: ...
    def peek_next_key(self) -> _WindowedKey:
        """The next row's key."""
    def close(self) -> None:
        """Lets the snapshot go."""

@final
class SessionStore:
    """A session store as one view sees it."""

    def read_only(self, level: str, bound: Sequence[tuple[str, int, int]] | None) -> SessionStore:
        """The same store as a reader at an isolation level sees it, once the input position has
        reached the bound.
        """
    def stream_time(self) -> int | None:
        """The greatest end of a write."""
    def put(self, key: bytes, start: int, end: int, value: bytes | None) -> None:
        """Sets a session's value; None removes."""
    def fetch_session(self, key: bytes, start: int, end: int) -> bytes | None:
        """A session's value."""
    def find_sessions(self, wanted: _Selection) -> SessionIterator:
        """Sessions by (end, key, start)."""
    def put_batch(self, keys: Any, starts: Any, ends: Any, values: Any) -> None:
        """A put a row, as one unit."""
    def remove_batch(self, keys: Any, starts: Any, ends: Any) -> None:
        """Removes a session a row, as one unit."""
    def fetch_session_batch(self, keys: Any, starts: Any, ends: Any) -> ArrowArray:
        """A value a row."""
    def find_batch(self, keys: Any, earliest_ends: Any, latest_starts: Any) -> ArrowBatch:
        """The sessions of a key, a row of input each."""
    def find_batches(self, wanted: _Selection, batch_rows: int) -> ArrowReader:
        """As `find_sessions`, in batches."""

@final
class SessionIterator:
    """Rows of session and value."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[_WindowedKey, bytes]: ...
    def peek_next_key(self) -> _WindowedKey:
        """The next row's key."""
    def close(self) -> None:
        """Lets the snapshot go."""

@final
class VersionedKeyValueStore:
    """A versioned store as one view sees it. A version is (value, timestamp, valid_to)."""

    def read_only(
        self, level: str, bound: Sequence[tuple[str, int, int]] | None
    ) -> VersionedKeyValueStore:
        """The same store as a reader at an isolation level sees it, once the input position has
        reached the bound.
        """
    def stream_time(self) -> int | None:
        """The greatest timestamp of an accepted write."""
    def put(self, key: bytes, value: bytes | None, timestamp: int) -> tuple[bool, int | None]:
        """Puts a version; returns (accepted, valid_to)."""
    def delete(self, key: bytes, timestamp: int) -> tuple[bytes, int, int | None] | None:
        """Ends the value at a time; returns the version that was in force."""
    def get(self, key: bytes, as_of: int | None) -> tuple[bytes, int, int | None] | None:
        """The newest version, or the one in force at a time."""
    def versions(self, key: bytes, start: int, end: int, descending: bool) -> VersionIterator:
        """The versions of a key that were in force in `[start, end]`."""
    def versions_range(
        self, key_from: bytes | None, key_to: bytes | None, start: int, end: int
    ) -> VersionIterator:
        """The same of a range of keys, by (key, timestamp)."""
    def scan(self, as_of: int | None) -> VersionIterator:
        """The table as it is or was."""
    def put_batch(self, keys: Any, values: Any, timestamps: Any) -> ArrowBatch:
        """A put a row, as one unit."""
    def get_batch(self, keys: Any, as_of: Any) -> ArrowBatch:
        """A version a row."""
    def apply_batch(
        self, is_put: Any, keys: Any, values: Any, timestamps: Any, value_serde: Serde | None = None
    ) -> ArrowBatch:
        """A put or a get a row, in order; values that cannot be decoded fail it as one unit."""
    def versions_batches(
        self, key_from: bytes | None, key_to: bytes | None, start: int, end: int, batch_rows: int
    ) -> ArrowReader:
        """As `versions_range`, in batches."""
    def scan_batches(self, as_of: int | None, batch_rows: int) -> ArrowReader:
        """As `scan`, in batches."""

@final
class VersionIterator:
    """Rows of key, value, timestamp and valid_to."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[bytes, bytes, int, int | None]: ...
    def peek_next_key(self) -> bytes:
        """The next row's key."""
    def close(self) -> None:
        """Lets the snapshot go."""

@final
class ArrowArray:
    """A column, for anything that speaks the Arrow PyCapsule interface: `pyarrow.array(it)`,
    `polars.Series(it)`.
    """

    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...

@final
class ArrowBatch:
    """Columns of one length: `pyarrow.record_batch(it)`, `polars.DataFrame(it)`."""

    @property
    def column_names(self) -> list[str]:
        """The columns' names."""
    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class ArrowReader:
    """Batches that are made as they are asked for, once:
    `pyarrow.RecordBatchReader.from_stream(it)`, or `for`.

    Raises, as it is read, what the scan meets: `StoreClosedError` once its database is closed,
    `SerializationError` for a value that the serde cannot convert; `HoldfastError` where it was
    handed on before. Who takes it as a stream has errors of its own for these, with the same words.
    """

    def __iter__(self) -> Self: ...
    def __next__(self) -> ArrowBatch: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Serde:
    """How keys or values of one type become bytes; one implementation for rows and columns."""

    @staticmethod
    def named(name: str) -> Serde:
        """`string`, `int64`, `float64`, `bool`, `timestamp` or `json`."""
    @staticmethod
    def of_struct(schema: Any) -> Serde:
        """Structs with the fields of anything with `__arrow_c_schema__`."""
    def check_key(self) -> None:
        """`TypeError` names the field that cannot be part of a key."""
    def descriptor(self) -> bytes:
        """What a store keeps about its serde: equal for equal serdes."""
    def serialize(self, value: Any, as_key: bool) -> bytes:
        """The bytes of a value without fields; a moment is an int, a JSON text a str."""
    def deserialize(self, data: bytes) -> Any:
        """The value of such bytes."""
    def serialize_row(self, row: Any, as_key: bool) -> bytes:
        """The bytes of a struct, which is a column of one row."""
    def serialize_fields(self, value: Any, as_key: bool) -> bytes | None:
        """The bytes of a tuple or dict, the same as `serialize_row` gives; None if that must be
        asked: for other types.
        """
    def deserialize_fields(self, data: bytes, as_key: bool) -> tuple[Any, ...] | None:
        """The fields of such bytes; None if `deserialize_row` must be asked."""
    def deserialize_row(self, data: bytes, as_key: bool) -> ArrowArray:
        """The struct of such bytes, as a column of one row."""
    def serialize_prefix(self, row: Any) -> bytes:
        """The bytes with which keys begin whose first fields are those of a column of one row."""
    def encode(self, column: Any, as_key: bool, store: str | None = None) -> ArrowArray:
        """A typed column as bytes; errors name the store."""
    def decode(
        self, column: Any, as_key: bool, store: str | None = None, keys: Any = None
    ) -> ArrowArray:
        """Bytes as a typed column; errors name the store, and the row's key where `keys` are
        columns of `encode`.
        """

def decode_batch(
    stored: ArrowBatch, key: Serde | None, value: Serde | None, store: str, keys: Any = None
) -> ArrowBatch:
    """The batch with its columns `key` and `value` typed."""

def decode_reader(
    stored: ArrowReader, key: Serde | None, value: Serde | None, store: str
) -> ArrowReader:
    """The same of a reader, which is handed on."""

def check_root(root: str, storage_options: Mapping[str, str]) -> None:
    """Proves that a state's root can be reached and written, and that its store lets nothing be
    created twice.

    `ValueError` for what is no root or an option that there is not, `UnsupportedOperationError` for
    another scheme or a store that lets an object be created twice, `HoldfastError` for what the
    store refuses.
    """

def drop_epoch(root: str, epoch: int, storage_options: Mapping[str, str]) -> tuple[int, int] | None:
    """Take away what was staged of an epoch that Spark has not committed: the run claimed, how many
    objects, or None.

    `HoldfastError` for one that it has, `StateMismatchError` for a root without state,
    `FormatVersionError` or `RestoreError` for one that cannot be read; else as `check_root`.
    """

def rewind(root: str, epoch: int, storage_options: Mapping[str, str]) -> tuple[int, int]:
    """Take state and checkpoint back to where an epoch is computed next: the run claimed for it,
    how many objects.

    `RestoreError` where snapshots and log do not reach back as far, `HoldfastError` where Spark's
    checkpoint does not, else as `drop_epoch`.
    """

def host_main(argv: Sequence[str]) -> int:
    """The state host's process: `--socket S --token-file F --executor-pid P --idle-seconds N`.

    On a cluster also `--name HOST` and, where it listens at another address, `--bind ADDRESS`.
    Returns its exit code when its executor is gone or no session has been open for that long.
    """

@final
class HostClient:
    """One connection to a state host, which is one session.

    Methods raise what the host says, by its kind, and `HoldfastError` once the session is finished
    or closed.
    """

    @staticmethod
    def connect(socket: str | PathLike[str], token: str, timeout: float) -> HostClient:
        """Connects within `timeout` seconds.

        `OSError` where no host listens or the token is wrong, `ValueError` for a `timeout` below
        zero.
        """
    def open_session(self, request: str) -> str:
        """Opens the session: JSON in, JSON out."""
    def push(self, batch: Any) -> None:
        """Sends one batch of input."""
    def end_input(self) -> HostCalls:
        """Ends the input of an operator whose code runs here; the session goes on as what answers
        its calls.
        """
    def finish(self) -> HostOutput:
        """Ends the input; the session goes on as its output."""
    def close(self) -> None:
        """Gives the session up, unless it is finished."""

@final
class HostOutput:
    """A session's output; it ends only after the host has acknowledged the stage."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> ArrowBatch: ...
    def staged(self) -> str | None:
        """What the host said about the stage (JSON), once the iterator has ended."""

_Argument: TypeAlias = tuple[str, str, Any]
"""A column of a call: its name; `key`, `bytes`, `time` or `flag`; a list, or what has the Arrow
PyCapsule interface.
"""

@final
class HostCalls:
    """What answers the calls of a processor: a session whose input has ended. It raises as
    `HostClient` does.
    """

    def rows(self) -> tuple[ArrowBatch, int | None]:
        """The next rows in order and their greatest time; no rows at the end."""
    def is_repeated(self) -> bool:
        """Whether the stores have what an earlier session came to with the same input."""
    def next_task(self, given: Any) -> tuple[str, int | None, ArrowBatch]:
        """Says what the last database of an aggregation came to, and hears the next: its name,
        whose it is, its batch.
        """
    def call(self, store: str, method: str, given: Sequence[_Argument]) -> ArrowBatch:
        """Asks a store."""
    def scan(
        self, store: str, method: str, given: Sequence[_Argument], batch_rows: int
    ) -> ArrowReader:
        """Asks a store for rows that may be many: they come in batches."""
    def digest(self, batch: Any) -> None:
        """Takes a batch of output into the session's digest."""
    def done(self) -> str:
        """Ends the session: its changes are staged, and JSON says how."""
    def close(self) -> None:
        """Gives the session up, unless it is done."""
