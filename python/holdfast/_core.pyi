"""The extension module, exported by `rust/python`.

Calls into the engine release the GIL, except for work that takes less time than the release. Keys
and values are bytes. Times, and the durations of stores, are microseconds; timeouts are seconds.
The classes in `holdfast` wrap the ones here and document what they raise. An error of the engine
becomes the class of its kind in `holdfast.errors` (`rust/python/src/error.rs`). Wrong values and
types raise `ValueError` and `TypeError`, and a panic becomes a `HoldfastError`.
"""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Self, TypeAlias, TypedDict, final

from holdfast.stores import StoreBuilder

__all__ = [
    "ArrowArray",
    "ArrowBatch",
    "ArrowReader",
    "Database",
    "Gateway",
    "HostCalls",
    "HostClient",
    "HostOutput",
    "KeyValueIterator",
    "KeyValueStore",
    "Serde",
    "SessionIterator",
    "SessionStore",
    "StateReader",
    "TimestampedIterator",
    "TimestampedKeyValueStore",
    "VersionIterator",
    "VersionedKeyValueStore",
    "WindowIterator",
    "WindowStore",
    "__version__",
    "check_evaluated",
    "check_rocksdb_options",
    "check_root",
    "check_store",
    "check_store_name",
    "checkpoint_query",
    "decode_batch",
    "decode_reader",
    "default_segment_interval",
    "drop_epoch",
    "end_scans",
    "host_main",
    "open_database",
    "put_follower",
    "read_epochs",
    "read_followers",
    "read_offsets",
    "remove_follower",
    "remove_offsets",
    "rewind",
    "verify_root",
    "write_offsets",
]

__version__: str

_Figure: TypeAlias = tuple[str, int | float, str, str]
"""A name, its value, its unit and its meaning."""
_Value: TypeAlias = tuple[bytes, int]
"""A value and its timestamp."""
_WindowedKey: TypeAlias = tuple[bytes, int, int]
"""A key, a start and an end."""
_Selection: TypeAlias = tuple[bytes | None, bytes | None, int, int, bool]
"""First and last key; two times; whether backward.

The times of windows are first and last start, those of sessions earliest end and latest start.
"""

class _Settings(TypedDict):
    """The settings of a database; enums by their values."""

    durability: str
    guarantee: str
    mechanism: str
    uncommitted_max_bytes: int
    metrics_level: str
    rocksdb_options: Sequence[tuple[str, str]]
    serdes: Sequence[tuple[str, bool, Serde]]
    """(store, whether the serde is for keys, serde)"""

def open_database(
    path: str | PathLike[str] | None, stores: Sequence[StoreBuilder], settings: _Settings
) -> Database:
    """Opens the database in a directory, or creates it; without a path it is in memory."""

def read_offsets(path: str | PathLike[str]) -> list[tuple[str, int, int]] | None:
    """Returns the offsets in a text file; None if there is no file."""

def write_offsets(path: str | PathLike[str], offsets: Sequence[tuple[str, int, int]]) -> None:
    """Writes the text file of offsets, atomically and durably."""

def remove_offsets(path: str | PathLike[str]) -> None:
    """Removes the text file of offsets, if it exists; the removal is durable when this returns."""

def default_segment_interval(history_retention: int) -> int:
    """Returns the default segment interval for a history retention, both in microseconds."""

def check_rocksdb_options(options: Sequence[tuple[str, str]]) -> None:
    """Raises `ValueError` for options that a database would refuse."""

def check_store_name(name: str) -> None:
    """Raises `ValueError` if a store cannot have this name.

    A name has 1 to 200 ASCII letters, digits, `_`, `-` or `.`.
    """

@final
class Database:
    """An open database."""

    def path(self) -> PathLike[str]:
        """Returns the directory of the files."""
    def is_open(self) -> bool:
        """Whether `close` has not been called."""
    def key_value(self, name: str) -> KeyValueStore:
        """Returns the writer's handle of a key-value store."""
    def timestamped_key_value(self, name: str) -> TimestampedKeyValueStore:
        """Returns the writer's handle of a timestamped key-value store."""
    def versioned(self, name: str) -> VersionedKeyValueStore:
        """Returns the writer's handle of a versioned store."""
    def window(self, name: str) -> WindowStore:
        """Returns the writer's handle of a window store, with timestamps or without."""
    def session(self, name: str) -> SessionStore:
        """Returns the writer's handle of a session store."""
    def check_commit(
        self, changelog_offsets: Sequence[tuple[str, int, int | None]] | None, in_text_files: bool
    ) -> None:
        """Raises what a commit would raise before it writes anything.

        With `in_text_files` it also raises for topics that text files cannot hold.
        """
    def commit(
        self,
        changelog_offsets: Sequence[tuple[str, int, int | None]] | None,
        user_store_offsets: bytes | None,
    ) -> None:
        """Commits; None leaves the offsets, an empty list removes all."""
    def user_store_offsets(self) -> bytes | None:
        """Returns the `user_store_offsets` of the last commit that had any."""
    def rollback(self) -> None:
        """Drops the open transaction."""
    def restore_batch(
        self,
        store: str,
        keys: Any,
        values: Any,
        timestamps: Any,
        changelog_offsets: Sequence[tuple[str, int, int | None]],
        user_store_offsets: bytes | None,
        position: Sequence[tuple[str, int, int]],
    ) -> None:
        """Applies changelog records outside the transaction."""
    def committed_offset(self, topic: str, partition: int) -> int | None:
        """Returns the last committed offset."""
    def store_offset(self, store: str, topic: str, partition: int) -> int | None:
        """Returns the last committed offset of one store."""
    def committed_offsets(self) -> list[tuple[str, int, int]]:
        """Returns all committed offsets: topic, partition, offset."""
    def observe(self, topic: str, partition: int, offset: int) -> None:
        """Records the offset of the input record that the following writes come from."""
    def position(self, level: str) -> list[tuple[str, int, int]]:
        """Returns the input position at an isolation level: topic, partition, offset."""
    def checkpoint(self, directory: str | PathLike[str]) -> None:
        """Creates a consistent copy of the last commit in a new directory."""
    def uncommitted_bytes(self) -> int:
        """Returns the memory that a commit would free."""
    def store_uncommitted_bytes(self, store: str) -> int:
        """Returns the memory that a commit would free for one store."""
    def commit_requested(self, more_bytes: int) -> bool:
        """Whether the transaction is at its limit, or would be after a step like the last.

        `more_bytes` is memory outside the transaction that counts, too. A step has all writes
        between two calls of this method.
        """
    def metrics(self) -> tuple[list[_Figure], list[tuple[str, list[_Figure]]]]:
        """Returns the figures of the database, and those of each store by its name."""
    def flush(self) -> None:
        """Writes the last commit to files."""
    def close(self) -> None:
        """Flushes and closes; further calls do nothing."""

@final
class KeyValueStore:
    """A key-value store in one view."""

    def read_only(self, level: str, bound: Sequence[tuple[str, int, int]] | None) -> KeyValueStore:
        """Returns the store as a reader at an isolation level sees it.

        Reads fail while the store's input position is behind the bound.
        """
    def get(self, key: bytes) -> bytes | None:
        """Returns the key's value."""
    def put(self, key: bytes, value: bytes | None) -> None:
        """Sets the key's value; None deletes it."""
    def put_if_absent(self, key: bytes, value: bytes | None) -> bytes | None:
        """Sets the key's value if it has none; returns the value before."""
    def put_all(self, entries: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Sets all values, in order, as one unit."""
    def delete(self, key: bytes) -> bytes | None:
        """Deletes the key; returns the value before."""
    def range(self, start: bytes | None, end: bytes | None, reverse: bool) -> KeyValueIterator:
        """Returns the keys from `start` to `end`, both included, with their values."""
    def prefix_scan(self, prefix: bytes, end: bytes | None) -> KeyValueIterator:
        """Returns the keys that start with `prefix` and are below `end`, with their values."""
    def approximate_num_entries(self) -> int:
        """Estimates the number of keys."""
    def put_batch(self, keys: Any, values: Any) -> None:
        """Sets the value of each key, as one unit."""
    def get_batch(self, keys: Any) -> ArrowArray:
        """Returns the value of each key."""
    def delete_batch(self, keys: Any) -> None:
        """Deletes the keys, as one unit."""
    def delete_range(self, start: bytes | None, end: bytes | None) -> None:
        """Deletes all keys from `start` to `end`, both included."""
    def range_batches(
        self, start: bytes | None, end: bytes | None, reverse: bool, batch_rows: int
    ) -> ArrowReader:
        """Returns the rows of `range` in batches."""

@final
class KeyValueIterator:
    """Rows of key and value."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[bytes, bytes]: ...
    def peek_next_key(self) -> bytes:
        """Returns the next row's key."""
    def close(self) -> None:
        """Drops the scan and its pinned view."""

@final
class TimestampedKeyValueStore:
    """A timestamped key-value store in one view."""

    def read_only(
        self, level: str, bound: Sequence[tuple[str, int, int]] | None
    ) -> TimestampedKeyValueStore:
        """Returns the store as a reader at an isolation level sees it.

        Reads fail while the store's input position is behind the bound.
        """
    def get(self, key: bytes) -> _Value | None:
        """Returns the key's value."""
    def put(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        """Sets the key's value; None deletes it."""
    def put_if_absent(self, key: bytes, new: bytes | None, timestamp: int) -> _Value | None:
        """Sets the key's value if it has none; returns the value before."""
    def put_all(self, entries: Sequence[tuple[bytes, bytes | None, int]]) -> None:
        """Sets all values, in order, as one unit."""
    def delete(self, key: bytes) -> _Value | None:
        """Deletes the key; returns the value before."""
    def range(self, start: bytes | None, end: bytes | None, reverse: bool) -> TimestampedIterator:
        """Returns the keys from `start` to `end`, both included, with their values."""
    def prefix_scan(self, prefix: bytes, end: bytes | None) -> TimestampedIterator:
        """Returns the keys that start with `prefix` and are below `end`, with their values."""
    def approximate_num_entries(self) -> int:
        """Estimates the number of keys."""
    def put_batch(self, keys: Any, values: Any, timestamps: Any) -> None:
        """Sets the value of each key, as one unit."""
    def get_batch(self, keys: Any) -> ArrowBatch:
        """Returns the value of each key and its timestamp."""
    def delete_batch(self, keys: Any) -> None:
        """Deletes the keys, as one unit."""
    def delete_range(self, start: bytes | None, end: bytes | None) -> None:
        """Deletes all keys from `start` to `end`, both included."""
    def range_batches(
        self, start: bytes | None, end: bytes | None, reverse: bool, batch_rows: int
    ) -> ArrowReader:
        """Returns the rows of `range` in batches."""

@final
class TimestampedIterator:
    """Rows of key, value and timestamp."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[bytes, bytes, int]: ...
    def peek_next_key(self) -> bytes:
        """Returns the next row's key."""
    def close(self) -> None:
        """Drops the scan and its pinned view."""

@final
class WindowStore:
    """A window store in one view, with timestamps or without.

    A store without timestamps returns -1 as each timestamp, and its puts take None as timestamp.
    """

    def read_only(self, level: str, bound: Sequence[tuple[str, int, int]] | None) -> WindowStore:
        """Returns the store as a reader at an isolation level sees it.

        Reads fail while the store's input position is behind the bound.
        """
    def stream_time(self) -> int | None:
        """Returns the greatest start of a write."""
    def put(self, key: bytes, value: bytes | None, start: int, timestamp: int | None) -> None:
        """Sets a window's value; None deletes it."""
    def fetch(self, key: bytes, start: int) -> _Value | None:
        """Returns a window's value and its timestamp."""
    def fetch_range(self, wanted: _Selection) -> WindowIterator:
        """Returns windows by (start, key)."""
    def put_batch(self, keys: Any, values: Any, window_starts: Any, timestamps: Any | None) -> None:
        """Puts each row, as one unit; with timestamps if the store has them."""
    def fetch_batch(self, keys: Any, window_starts: Any) -> ArrowArray:
        """Returns the value of each row."""
    def fetch_stamped_batch(self, keys: Any, window_starts: Any) -> ArrowBatch:
        """Returns the value of each row and its timestamp."""
    def fetch_ranges(self, keys: Any, starts: Any, ends: Any, timestamps: bool) -> ArrowBatch:
        """Returns for each row the windows of a key between two starts."""
    def fetch_range_batches(
        self, wanted: _Selection, batch_rows: int, timestamps: bool
    ) -> ArrowReader:
        """Returns the rows of `fetch_range` in batches."""

@final
class WindowIterator:
    """Rows of windowed key, value and timestamp."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[_WindowedKey, bytes, int]: ...
    def peek_next_key(self) -> _WindowedKey:
        """Returns the next row's key."""
    def close(self) -> None:
        """Drops the scan and its pinned view."""

@final
class SessionStore:
    """A session store in one view."""

    def read_only(self, level: str, bound: Sequence[tuple[str, int, int]] | None) -> SessionStore:
        """Returns the store as a reader at an isolation level sees it.

        Reads fail while the store's input position is behind the bound.
        """
    def stream_time(self) -> int | None:
        """Returns the greatest end of a write."""
    def put(self, key: bytes, start: int, end: int, value: bytes | None) -> None:
        """Sets a session's value; None removes it."""
    def fetch_session(self, key: bytes, start: int, end: int) -> bytes | None:
        """Returns a session's value."""
    def find_sessions(self, wanted: _Selection) -> SessionIterator:
        """Returns sessions by (end, key, start)."""
    def put_batch(self, keys: Any, starts: Any, ends: Any, values: Any) -> None:
        """Puts each row, as one unit."""
    def remove_batch(self, keys: Any, starts: Any, ends: Any) -> None:
        """Removes the session of each row, as one unit."""
    def fetch_session_batch(self, keys: Any, starts: Any, ends: Any) -> ArrowArray:
        """Returns the value of each row."""
    def find_batch(self, keys: Any, earliest_ends: Any, latest_starts: Any) -> ArrowBatch:
        """Returns for each row the sessions of a key."""
    def find_batches(self, wanted: _Selection, batch_rows: int) -> ArrowReader:
        """Returns the rows of `find_sessions` in batches."""

@final
class SessionIterator:
    """Rows of session and value."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[_WindowedKey, bytes]: ...
    def peek_next_key(self) -> _WindowedKey:
        """Returns the next row's key."""
    def close(self) -> None:
        """Drops the scan and its pinned view."""

@final
class VersionedKeyValueStore:
    """A versioned store in one view. A version is (value, timestamp, valid_to)."""

    def read_only(
        self, level: str, bound: Sequence[tuple[str, int, int]] | None
    ) -> VersionedKeyValueStore:
        """Returns the store as a reader at an isolation level sees it.

        Reads fail while the store's input position is behind the bound.
        """
    def stream_time(self) -> int | None:
        """Returns the greatest timestamp of an accepted write."""
    def put(self, key: bytes, value: bytes | None, timestamp: int) -> tuple[bool, int | None]:
        """Puts a version; returns (accepted, valid_to)."""
    def delete(self, key: bytes, timestamp: int) -> tuple[bytes, int, int | None] | None:
        """Ends the value at a time; returns the version that was valid."""
    def get(self, key: bytes, as_of: int | None) -> tuple[bytes, int, int | None] | None:
        """Returns the newest version, or the one that is valid at a time."""
    def versions(self, key: bytes, start: int, end: int, descending: bool) -> VersionIterator:
        """Returns the versions of a key that are valid within `[start, end]`."""
    def versions_range(
        self, key_from: bytes | None, key_to: bytes | None, start: int, end: int
    ) -> VersionIterator:
        """Returns the `versions` of a range of keys, by (key, timestamp)."""
    def scan(self, as_of: int | None) -> VersionIterator:
        """Returns the newest versions of all keys, or those that are valid at a time."""
    def put_batch(self, keys: Any, values: Any, timestamps: Any) -> ArrowBatch:
        """Puts each row, as one unit."""
    def get_batch(self, keys: Any, as_of: Any) -> ArrowBatch:
        """Returns the version of each row."""
    def apply_batch(
        self, is_put: Any, keys: Any, values: Any, timestamps: Any, value_serde: Serde | None = None
    ) -> ArrowBatch:
        """Puts or gets each row, in order.

        A value that cannot be decoded fails all rows, as one unit.
        """
    def versions_batches(
        self, key_from: bytes | None, key_to: bytes | None, start: int, end: int, batch_rows: int
    ) -> ArrowReader:
        """Returns the rows of `versions_range` in batches."""
    def scan_batches(self, as_of: int | None, batch_rows: int) -> ArrowReader:
        """Returns the rows of `scan` in batches."""

@final
class VersionIterator:
    """Rows of key, value, timestamp and valid_to."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[bytes, bytes, int, int | None]: ...
    def peek_next_key(self) -> bytes:
        """Returns the next row's key."""
    def close(self) -> None:
        """Drops the scan and its pinned view."""

@final
class ArrowArray:
    """A column for the Arrow PyCapsule interface: `pyarrow.array(it)`, `polars.Series(it)`.

    Raises `ValueError` if a consumer requests another type: `pyarrow.array(it).cast(type)`.
    """

    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...

@final
class ArrowBatch:
    """Columns of one length: `pyarrow.record_batch(it)`, `polars.DataFrame(it)`.

    It is exported with its own types; `pyarrow.record_batch(it, schema)` casts it.
    """

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class ArrowReader:
    """Batches that are made when read: `pyarrow.RecordBatchReader.from_stream(it)`, or `for`.

    It can be read once. While it is read it raises the errors of the scan: `StoreClosedError` once
    the database is closed, `SerializationError` for a value that the serde cannot convert,
    `HoldfastError` if a stream has taken the batches before. It ends with its first error: later
    reads raise `HoldfastError`. A consumer of the stream raises its own classes of errors with the
    same messages. The stream has its own types; `pyarrow.table(it, schema)` casts them.
    """

    def __iter__(self) -> Self: ...
    def __next__(self) -> ArrowBatch: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Serde:
    """Encodes keys or values of one type as bytes; one implementation for rows and columns."""

    @staticmethod
    def named(name: str) -> Serde:
        """Returns the serde `string`, `int64`, `float64`, `bool`, `timestamp` or `json`."""
    @staticmethod
    def of_struct(schema: Any) -> Serde:
        """Returns the serde of structs with the fields of an object with `__arrow_c_schema__`."""
    def check_key(self) -> None:
        """Raises `TypeError` if the type cannot be a key; it names the field."""
    def descriptor(self) -> bytes:
        """Returns what a store records about its serde: equal for equal serdes."""
    def serialize(self, value: Any, as_key: bool) -> bytes:
        """Encodes a value that is not a struct; a time is given as an int, a JSON text as a str."""
    def deserialize(self, data: bytes) -> Any:
        """Decodes a value that is not a struct, as `serialize` takes it."""
    def serialize_row(self, row: Any, as_key: bool) -> bytes:
        """Encodes a struct, given as a column of one row."""
    def serialize_fields(self, value: Any, as_key: bool) -> bytes | None:
        """Encodes a tuple or dict; None for types that only `serialize_row` encodes."""
    def deserialize_fields(self, data: bytes, as_key: bool) -> tuple[Any, ...] | None:
        """Decodes the fields of a struct; None for types that only `deserialize_row` decodes."""
    def deserialize_row(self, data: bytes, as_key: bool) -> ArrowArray:
        """Decodes a struct, as a column of one row."""
    def serialize_prefix(self, row: Any) -> bytes:
        """Returns the bytes that all keys with these first fields begin with.

        The fields are those of a column of one row.
        """
    def encode(self, column: Any, as_key: bool, store: str | None = None) -> ArrowArray:
        """Encodes a typed column; errors name the store."""
    def decode(
        self, column: Any, as_key: bool, store: str | None = None, keys: Any = None
    ) -> ArrowArray:
        """Decodes a column of bytes as a typed column.

        Errors name the store, and the row's key if `keys` is a column that `encode` returned.
        """

def decode_batch(
    stored: ArrowBatch, key: Serde | None, value: Serde | None, store: str, keys: Any = None
) -> ArrowBatch:
    """Decodes the columns `key` and `value` of a batch."""

def decode_reader(
    stored: ArrowReader, key: Serde | None, value: Serde | None, store: str
) -> ArrowReader:
    """Decodes the columns `key` and `value` of a reader's batches.

    It takes the batches out of `stored`, which cannot be read afterwards.
    """

def check_evaluated(
    root: str,
    storage_options: Mapping[str, str],
    epoch: int,
    operators: Sequence[str],
    partitions: int,
) -> None:
    """Checks that operators have staged all their partitions in an epoch that is not committed.

    Raises `StateMismatchError` for an operator that has not, `ValueError` for an invalid operator
    name; otherwise as `check_root`.
    """

def check_root(root: str, storage_options: Mapping[str, str]) -> None:
    """Checks that a root can be read and written, and that no object can be created twice.

    Raises `ValueError` if it is not a root or an option does not exist, `UnsupportedOperationError`
    for another scheme or an object store that creates an object twice, `HoldfastError` for an error
    of the object store.
    """

def check_store(root: str, storage_options: Mapping[str, str]) -> tuple[bool, int | None]:
    """Puts an object of a random name into a root, and removes it.

    Returns whether a second create was refused, and the time of the put on the store's clock, in
    epoch milliseconds (None if the object was not found). Raises as `check_root`, and
    `StateMismatchError` for a missing folder. A second create that succeeds is not an error here.
    """

def checkpoint_query(root: str, storage_options: Mapping[str, str]) -> str | None:
    """Returns the id of the query whose checkpoint is in a root, None if there is no checkpoint.

    Raises `StateMismatchError` for a missing folder, `RestoreError` if Spark's metadata cannot be
    read; otherwise as `check_root`.
    """

def drop_epoch(root: str, epoch: int, storage_options: Mapping[str, str]) -> tuple[int, int] | None:
    """Removes what was staged of an epoch that Spark has not committed.

    Returns the claimed run and the number of removed objects, or None if nothing was staged. Raises
    `HoldfastError` if Spark has committed the epoch or a query starts meanwhile,
    `StateMismatchError` for a root without state, `FormatVersionError` or `RestoreError` for one
    that cannot be read; otherwise as `check_root`.
    """

def read_epochs(root: str, storage_options: Mapping[str, str], epoch: int | None, last: int) -> str:
    """Returns what happened in the newest `last` epochs, oldest first, as a JSON array.

    With `epoch`, only in that one. Raises `StateMismatchError` for a missing folder,
    `FormatVersionError` or `RestoreError` for objects that cannot be read; otherwise as
    `check_root`.
    """

def rewind(root: str, epoch: int, storage_options: Mapping[str, str]) -> tuple[int, int]:
    """Takes state and checkpoint back, so that Spark computes this epoch next.

    Returns the claimed run and the number of removed objects. Raises `RestoreError` if snapshots
    and log do not go back that far, `HoldfastError` if Spark's checkpoint does not; otherwise as
    `drop_epoch`.
    """

def put_follower(root: str, storage_options: Mapping[str, str], name: str, first: int) -> None:
    """Records that a follower needs the changes of the epoch `first` and of all later ones.

    Raises `ValueError` for a name that is not 1 to 100 ASCII letters, digits, `_` or `-`,
    `StateMismatchError` for a missing folder; otherwise as `check_root`.
    """

def read_followers(root: str, storage_options: Mapping[str, str]) -> list[tuple[str, int]]:
    """Returns the followers by name, each with the first epoch that it needs.

    Raises `StateMismatchError` for a folder without state; otherwise as `check_root`.
    """

def remove_follower(root: str, storage_options: Mapping[str, str], name: str) -> bool:
    """Removes a follower; returns false if there is none of this name.

    Raises as `put_follower`, and `StateMismatchError` for a folder without state.
    """

def verify_root(
    root: str, storage_options: Mapping[str, str], progress: Callable[[int, int, int], object]
) -> str:
    """Reads the objects in force of a root; returns JSON with `objects` and `damage`.

    `progress` is called with the number of steps that are done, of all steps, and of objects that
    were read. An exception in it ends the verification and is raised. Raises `StateMismatchError`
    for a folder without state, `HoldfastError` if there is damage and a rewind took epochs back
    meanwhile; otherwise as `check_root`.
    """

def host_main(argv: Sequence[str]) -> int:
    """Runs the state host: `--socket S --token-file F --executor-pid P --idle-seconds N`.

    On a cluster also `--name HOST` and, if it listens at another address, `--bind ADDRESS`. Returns
    the exit code: 0 when the executor has exited or no session was open for at least the idle time,
    1 after an error, which is in the log on stderr. Raises `ValueError` for invalid arguments,
    `HoldfastError` if the token cannot be read or the executor has exited before the start.
    """

@final
class HostClient:
    """One connection to a state host: one session.

    Methods raise the host's errors, by their kind, and `HoldfastError` once the session is finished
    or closed.
    """

    @staticmethod
    def connect(socket: str | PathLike[str], token: str, timeout: float) -> HostClient:
        """Connects within `timeout` seconds.

        Raises `OSError` if no host listens or the token is wrong, `ValueError` for a negative
        `timeout`.
        """
    def open_session(self, request: str) -> str:
        """Opens the session: JSON in, JSON out."""
    def push(self, batch: Any) -> None:
        """Sends one batch of input."""
    def end_input(self) -> HostCalls:
        """Ends the input of an operator whose code runs in this process.

        The session then answers the calls that the code makes.
        """
    def finish(self) -> HostOutput:
        """Ends the input; the session then returns its output."""
    def close(self) -> None:
        """Aborts the session unless it is finished."""

@final
class HostOutput:
    """A session's output; it ends only after the host has acknowledged the stage."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> ArrowBatch: ...
    def staged(self) -> str | None:
        """Returns the host's answer about the stage (JSON), once the iterator has ended."""

class _ReadSource(TypedDict):
    """Which state to read, and whether hosts or copies answer."""

    epoch: int | None
    at_least: int | None
    timeout: float
    offline: str
    isolation_level: str | None
    stale_ok: bool

_Cache: TypeAlias = tuple[str | PathLike[str] | None, int | None]
"""The folder of a reader's copies, and the limit of their bytes; None: the default."""

def end_scans() -> None:
    """Ends all scans of `StateReader`s in this process, and waits at most 8 s for their threads.

    Scans that are open, or that start later, raise `StoreClosedError`.
    """

@final
class StateReader:
    """Reads the tables of a root. `holdfast.StateReader` has the interface for users.

    Methods raise `StoreClosedError` once the reader is closed.
    """

    @staticmethod
    def connect(root: str, storage_options: dict[str, str], cache: _Cache) -> StateReader:
        """Raises `StateMismatchError` if the root holds no state."""
    def root_id(self) -> str:
        """Returns the random id of the root to which the reader connected."""
    def partitions(self) -> int:
        """Returns how many partitions the state has."""
    def epoch(self) -> int | None:
        """Returns the newest final epoch; None before the first."""
    def report(self) -> str:
        """Returns the activity and the condition of each partition, as a JSON object."""
    def newest_rewind_of(self, epoch: int) -> int:
        """Returns the run of the newest rewind that took an epoch back; 0 if there is none."""
    def metrics(self) -> str:
        """Returns the figures of each state host that answers, as a JSON array."""
    def echo(self, operator: str, partition: int, payload: bytes) -> bytes | None:
        """Sends bytes to the host of a partition, which returns them; None if no host answers.

        No read is faster: benchmarks compare reads with it.
        """
    def tables(self) -> list[tuple[str, str, str, str, list[str], ArrowBatch]]:
        """Returns the tables, by operator.

        Each is: operator, its kind, store, its kind, the key's columns, and a batch without rows
        that has all columns.
        """
    def get(
        self,
        table: tuple[str, str],
        read: str,
        keys: Any,
        source: _ReadSource,
        every_row: bool,
    ) -> list[ArrowBatch]:
        """Returns a row for each key, in order. `read`: a `ReadCall` as JSON.

        With `every_row`, a key of which several partitions have a row gives all these rows. Without
        `every_row`, such a key raises `UnsupportedOperationError`.

        The schema's metadata says which state the rows are of: `holdfast.epoch`,
        `holdfast.isolation_level`, `holdfast.behind`. The last column, `holdfast.found`, says which
        keys were found.
        """
    def get_row(
        self,
        table: tuple[str, str],
        key: list[tuple[str, Any]],
        as_of: int | None,
        columns: Sequence[str] | None,
        source: _ReadSource,
    ) -> tuple[dict[str, Any] | None] | None:
        """Returns the row of a key, or None, in a tuple.

        `key`: the names and values of its columns. `columns`: the columns of the result; by default
        all except those of the key. Returns None if only pyarrow can convert the key or a value, or
        if a column does not exist: `get` then reads the row or raises the error.
        """
    def places(self, table: tuple[str, str], keys: Any) -> list[int] | None:
        """Returns the partition of each key; None if the table's keys do not choose it."""
    def scan(
        self,
        table: tuple[str, str],
        read: str,
        bounds: Any,
        partition: int | None,
        source: _ReadSource,
    ) -> ArrowReader:
        """Returns the rows of a scan, of all partitions or of one, with the metadata of `get`."""
    def changes_schema(self, table: tuple[str, str]) -> ArrowBatch:
        """Returns the columns of a table's changes, as a batch without rows."""
    def oldest_changes(self, table: tuple[str, str]) -> int | None:
        """Returns the oldest epoch from which a table's changes can be read.

        None if no epoch is final.
        """
    def changes(
        self,
        table: tuple[str, str],
        epochs: tuple[int | None, int | None],
        partition: int | None,
    ) -> ArrowReader:
        """Returns the changes of a table between two epochs, both included."""
    def close(self) -> None:
        """Closes the reader. Open scans continue; the copies are removed after the last one."""

class _GatewaySettings(TypedDict):
    roots: list[tuple[str, str]]
    storage_options: dict[str, str]
    listen: str
    token_file: str | PathLike[str] | None
    tls: tuple[str, str] | None
    insecure: bool
    offline: str
    cache: _Cache
    max_requests: int
    timeout: float

@final
class Gateway:
    """Serves state over HTTP. `holdfast.gateway.Gateway` has the interface for users."""

    @staticmethod
    def start(settings: _GatewaySettings) -> Gateway:
        """Raises `ValueError` for settings that would open the state to a network by accident."""
    def url(self) -> str:
        """Returns the address that the gateway listens at."""
    def stop(self) -> None:
        """Ends the gateway, after a few seconds for requests that are being answered."""

_Argument: TypeAlias = tuple[str, str, Any]
"""A column of a call: its name; its kind; a list or an object with the Arrow PyCapsule interface.

The kind is `key`, `bytes`, `time` or `flag`.
"""

@final
class HostCalls:
    """A session whose input has ended; it answers the calls of a processor.

    It raises as `HostClient` does.
    """

    def rows(self) -> tuple[ArrowBatch, int | None]:
        """Returns the next rows in order and their greatest time.

        At the end there are no rows, and the time is that of a heartbeat, if there was one.
        """
    def is_repeated(self) -> bool:
        """Whether the stores have the results of an earlier session with the same input."""
    def next_task(self, given: Any) -> tuple[str, int | None, ArrowBatch]:
        """Sends the result of an aggregation's previous task, and returns its next task.

        A task is returned as its name, the aggregate that it is for, and its batch.
        """
    def call(self, store: str, method: str, given: Sequence[_Argument]) -> ArrowBatch:
        """Calls a method of a store."""
    def scan(
        self, store: str, method: str, given: Sequence[_Argument], batch_rows: int
    ) -> ArrowReader:
        """Calls a method of a store that returns many rows, in batches."""
    def digest(self, batch: Any) -> None:
        """Adds a batch of output to the session's digest."""
    def done(self) -> str:
        """Stages the changes and ends the session. Returns the host's answer (JSON)."""
    def close(self) -> None:
        """Aborts the session unless it is done."""
