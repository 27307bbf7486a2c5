"""One table of a query's state."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Unpack

from holdfast._reader import keys as keys_
from holdfast._reader.arrow import arrow, fields
from holdfast._reader.connection import Connection
from holdfast._reader.dataset.selected_rows import SelectedRows
from holdfast._reader.dataset.state_dataset import dataset
from holdfast._reader.read_source import ReadSource
from holdfast._reader.table_calls import TableCalls, without_found
from holdfast._time import Timestamp, timestamp_micros
from holdfast.errors import StateMismatchError, UnsupportedOperationError

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.dataset

_WINDOWED: Final = ("window", "timestamped_window", "session")


class StateTable:
    """A table of an operator: reads its rows as Arrow, from any process.

    Each call reads one epoch, by default the newest final one. Arguments that the methods share:

    - `as_of`: in a versioned table, the moment whose versions are read, epoch microseconds or an
      aware datetime. By default the newest versions.
    - `columns`: the columns of the result, in this order. By default all of `schema`.
    - `limit`: the most rows of the result. By default all.
    - `partition`: the only partition whose rows are read, from 0. By default all.
    - `source`: the options of `holdfast.ReadSource`, such as `epoch` and `timeout`.

    The methods raise `NotUpToBoundError` if the epoch is not final in time, if no epoch is final
    yet, or with `offline="never"` if no host answers in time. They raise `RestoreError` if the root
    no longer holds the epoch's state, `ValueError` or `TypeError` for an argument that does not fit
    the table, `UnsupportedOperationError` for a read that the kind of store does not have, and
    `StoreClosedError` once the reader is closed.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        operator: str,
        operator_kind: str,
        store: str,
        kind: str,
        key: Sequence[str],
        schema: "pyarrow.Schema",
    ) -> None:
        self._connection: Final = connection
        self._operator: Final = operator
        self._operator_kind: Final = operator_kind
        self._store: Final = store
        self._kind: Final = kind
        self._key: Final = tuple(key)
        self._schema: Final = schema
        self._key_schema: Final = fields(schema, list(key))
        self._calls: Final = TableCalls(connection, operator, store)

    @property
    def operator(self) -> str:
        """The operator's name."""
        return self._operator

    @property
    def operator_kind(self) -> str:
        """The operator's kind: `join_asof`, `materialize`, …"""  # noqa: D400, D415
        return self._operator_kind

    @property
    def store(self) -> str:
        """The store's name."""
        return self._store

    @property
    def kind(self) -> str:
        """The store's kind: `key_value`, `versioned`, `window`, …"""  # noqa: D400, D415
        return self._kind

    @property
    def is_windowed(self) -> bool:
        """Whether a row has a key and a window or session."""
        return self._kind in _WINDOWED

    @property
    def key(self) -> tuple[str, ...]:
        """The names of the key's columns."""
        return self._key

    @property
    def schema(self) -> "pyarrow.Schema":
        """The columns of a row: the key's, its times, the value's."""
        return self._schema

    def get(
        self,
        key: Any,
        *,
        as_of: Timestamp | None = None,
        columns: Sequence[str] | None = None,
        **source: Unpack[ReadSource],
    ) -> dict[str, Any] | None:
        """Returns the row of a key, without the key's columns; None if there is none.

        A key of several columns is a tuple, or a dict by column. If several partitions have a row
        of the key, as they may in a processor's store, this raises `UnsupportedOperationError`.
        """
        self._refuse_windowed("get", "fetch")
        moment = self._moment(as_of)
        _refuse_text(columns)
        values = keys_.key_values(self._key_schema, key, "key")
        # Creating pyarrow's objects would cost more than the read.
        named = list(zip(self._key, values, strict=False))
        row = self._calls.get_row(named, moment, columns, source)
        if row is not None:
            return row[0]
        call = self._call(as_of=as_of)
        return self._one(keys_.one_key(self._key_schema, key), columns, call, source)

    def get_batch(
        self,
        keys: Any,
        *,
        as_of: Any = None,
        columns: Sequence[str] | None = None,
        **source: Unpack[ReadSource],
    ) -> "pyarrow.Table":
        """Returns a row for each key, in the order of the keys: nulls where there is none.

        The key's columns have the given keys in all rows.

        Keys of one column are a list, a pandas Series or an Arrow array. Keys of several are a list
        of tuples, a dict of columns, a pandas DataFrame or an Arrow table. `as_of` is one moment,
        or one for each key. If several partitions have a row of one key, as they may in a
        processor's store, this raises `UnsupportedOperationError`.
        """
        return without_found(self._get_batch(keys, as_of=as_of, columns=columns, **source))

    def _get_batch(
        self,
        keys: Any,
        *,
        as_of: Any = None,
        columns: Sequence[str] | None = None,
        **source: Unpack[ReadSource],
    ) -> "pyarrow.Table":
        """As `get_batch`, with a last column that says whether there is a row."""
        self._refuse_windowed("get_batch", "fetch_batch")
        batch = self._keys_as_of(keys, as_of)
        return self._calls.get(self._call(columns=columns), batch, source)

    def find(
        self,
        keys: Any,
        *,
        as_of: Any = None,
        columns: Sequence[str] | None = None,
        **source: Unpack[ReadSource],
    ) -> "pyarrow.Table":
        """Returns the rows of the keys that are found, in the order of the keys.

        `keys` and `as_of` are as in `get_batch`. If several partitions have a row of one key, as
        they may in a processor's store, all of them are returned.
        """
        self._refuse_windowed("find", "fetch_batch")
        batch = self._keys_as_of(keys, as_of)
        return self._calls.find(self._call(columns=columns), batch, source)

    def partitions_of(self, keys: Any) -> list[int] | None:
        """Returns the partition of each key; None if the table's keys do not choose it.

        The keys of a processor's store do not: a row is in the partition whose task put it.
        """
        batch = keys_.many_keys(self._key_schema, keys)
        return self._calls.partitions_of(batch)

    def fetch(
        self,
        key: Any,
        start: Timestamp,
        end: Timestamp | None = None,
        *,
        columns: Sequence[str] | None = None,
        **source: Unpack[ReadSource],
    ) -> dict[str, Any] | None:
        """Returns the row of a key's window or session that starts at `start`; None without one.

        A session also needs its `end`. The key's columns are left out.
        """
        self._refuse_unwindowed("fetch", "get")
        batch = keys_.one_key(self._key_schema, key)
        batch = keys_.with_columns(batch, self._moments(batch.num_rows, start, end))
        return self._one(batch, columns, self._call(), source)

    def fetch_batch(
        self,
        keys: Any,
        starts: Any,
        ends: Any = None,
        *,
        columns: Sequence[str] | None = None,
        **source: Unpack[ReadSource],
    ) -> "pyarrow.Table":
        """Returns a row for each window or session, in order: nulls where there is none.

        `keys` are as in `get_batch`. `starts` and, for sessions, `ends` are one time for all keys,
        or one for each key.
        """
        self._refuse_unwindowed("fetch_batch", "get_batch")
        batch = keys_.many_keys(self._key_schema, keys)
        batch = keys_.with_columns(batch, self._moments(batch.num_rows, starts, ends))
        found = self._calls.get(self._call(columns=columns), batch, source)
        return without_found(found)

    def scan(
        self,
        *,
        prefix: Any = None,
        start: Any = None,
        end: Any = None,
        as_of: Timestamp | None = None,
        time_from: Timestamp | None = None,
        time_to: Timestamp | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        partition: int | None = None,
        **source: Unpack[ReadSource],
    ) -> "pyarrow.RecordBatchReader":
        """Returns the rows of a range of keys; of all keys by default.

        `prefix` is a key, or the first columns of one: all keys that begin with them. `start` and
        `end` are keys or their first columns, both included. Partitions come one after the other:
        within one, rows are in the order of the keys, or in the order of time in a window or
        session table.

        `time_from` and `time_to` limit windows by their start. In a session table they find the
        sessions that end at or after `time_from` and start at or before `time_to`.
        """
        rows, bounds = self._bounds(prefix, start, end)
        if (time_from is not None or time_to is not None) and not self.is_windowed:
            raise UnsupportedOperationError(
                f"{self._name()} is a {self._kind} table: only window and session tables have times"
            )
        call = self._call(
            rows, as_of=as_of, start=time_from, end=time_to, columns=columns, limit=limit
        )
        return self._calls.scan(call, bounds, source, partition)[0]

    def versions(
        self,
        key: Any = None,
        *,
        start: Timestamp | None = None,
        end: Timestamp | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        partition: int | None = None,
        **source: Unpack[ReadSource],
    ) -> "pyarrow.RecordBatchReader":
        """Returns the versions of a key, or of all keys, that were valid between two times.

        The versions of a key come oldest first, each with `valid_from` and `valid_to`; a newest
        version has a null in `valid_to`.
        """
        self._refuse_unversioned()
        rows, bounds = "versions", keys_.no_keys()
        if key is not None:
            rows, bounds = "versions_of_key", keys_.one_key(self._key_schema, key)
        call = self._call(rows, start=start, end=end, columns=columns, limit=limit)
        return self._calls.scan(call, bounds, source, partition)[0]

    def changes(
        self,
        *,
        from_epoch: int | None = None,
        to_epoch: int | None = None,
        partition: int | None = None,
    ) -> "pyarrow.RecordBatchReader":
        """Returns the changes of the table in a range of epochs, from the log.

        Both ends are included. By default the first is the oldest epoch of the log, the last the
        newest final one. `partition` reads only one partition. The columns are those of
        `changes_schema`. A row is the last change of a key in the epoch, or of a version, a window
        or a session: its new value, or nulls and `deleted`. Applied in order to the table of the
        epoch before the range, the rows give the table of the last epoch.

        Rows come by epoch, then by partition. A batch has rows of one epoch. Only the log is read,
        never a host, and memory does not grow with the range. The expiry of a row by retention is
        not a change: it is not in the log.

        Raises `ChangesLostError`, at the call or during the read, if the log no longer holds an
        epoch of the range; its message names the oldest epoch that is there. Raises
        `NotUpToBoundError` if `to_epoch` is not final, `RestoreError` during the read for a damaged
        object or a rewind meanwhile, and `UnsupportedOperationError` for an aggregation with
        `collect_list` or `collect_set`, whose values the log does not have by group.
        """
        return self._calls.changes((from_epoch, to_epoch), partition)

    @property
    def changes_schema(self) -> "pyarrow.Schema":
        """The columns of `changes`: `epoch`, the key's, its times, the value's, `deleted`.

        A versioned table has `valid_from` only. If the table has a column `epoch` or `deleted`, the
        one that is added has an underscore before its name.
        """
        return self._calls.changes_schema()

    def oldest_changes(self) -> int | None:
        """Returns the oldest epoch from which `changes` can be read; None if no epoch is final.

        A running query removes old epochs: a later call of `changes` may raise `ChangesLostError`.
        """
        return self._calls.oldest_changes()

    def dataset(
        self,
        *,
        as_of: Timestamp | None = None,
        versions: bool = False,
        **source: Unpack[ReadSource],
    ) -> "pyarrow.dataset.Dataset":
        """Returns the table as a pyarrow dataset, which polars, DuckDB and pandas read.

        With `versions` its rows are those of the method `versions`. Each scan reads one epoch.

        A filter limits the read if it sets the key or its first columns to values, bounds the next
        key column, or bounds the start of windows or sessions. Columns that are not needed are not
        read. Arrow applies the whole filter to the rows that were read.
        """
        rows = self._selected_rows(as_of=as_of, versions=versions, source=source)
        return dataset(self._schema, rows.read)

    def __repr__(self) -> str:
        """Shows the table's name, kind and columns."""
        columns = ", ".join(f"{field.name}: {field.type}" for field in self._schema)
        return f"<{self._kind} table {self._name()} by {', '.join(self._key)}: {columns}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the address, so that a table can be used in a UDF."""
        return _open_table, (self._connection, self._operator, self._store)

    def _selected_rows(
        self, *, as_of: Timestamp | None = None, versions: bool = False, source: ReadSource
    ) -> SelectedRows:
        if versions:
            self._refuse_unversioned()
            if as_of is not None:
                raise ValueError("give as_of or versions, not both")
        return SelectedRows(
            calls=self._calls,
            schema=self._schema,
            key=self._key,
            kind=self._kind,
            # The key of a processor's store is one value, which is never null.
            has_null_keys=self._operator_kind != "process",
            call=self._call(as_of=as_of),
            versions=versions,
            source=source,
        )

    def _name(self) -> str:
        return f"{self._operator}.{self._store}"

    def _keys_as_of(self, keys: Any, as_of: Any) -> "pyarrow.RecordBatch":
        batch = keys_.many_keys(self._key_schema, keys)
        if as_of is None:
            return batch
        self._refuse_as_of()
        times = keys_.time_column(as_of, batch.num_rows, "as_of")
        return keys_.with_columns(batch, {"as_of": times})

    def _call(
        self,
        rows: str = "get",
        *,
        as_of: Timestamp | None = None,
        start: Timestamp | None = None,
        end: Timestamp | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> dict[str, Any]:
        moment = self._moment(as_of)
        _refuse_text(columns)
        if limit is not None and limit < 0:
            raise ValueError(f"limit is {limit}; it must not be negative")
        return {
            "rows": rows,
            "as_of": moment,
            "from": None if start is None else timestamp_micros(start, "start"),
            "to": None if end is None else timestamp_micros(end, "end"),
            "columns": None if columns is None else list(columns),
            "limit": limit,
        }

    def _moment(self, as_of: Timestamp | None) -> int | None:
        if as_of is None:
            return None
        self._refuse_as_of()
        return timestamp_micros(as_of, "as_of")

    def _moments(self, rows: int, start: Any, end: Any) -> Mapping[str, "pyarrow.Array"]:
        is_session = self._kind == "session"
        if is_session != (end is not None):
            needs = "start and end" if is_session else "start only"
            raise ValueError(f"{self._name()} is a {self._kind} table: give {needs}")
        times = {"start": keys_.time_column(start, rows, "start")}
        if is_session:
            times["end"] = keys_.time_column(end, rows, "end")
        return times

    def _bounds(self, prefix: Any, start: Any, end: Any) -> "tuple[str, pyarrow.RecordBatch]":
        key = self._key_schema
        if prefix is not None:
            if start is not None or end is not None:
                raise ValueError("give prefix, or start and end, not both")
            return "prefix", keys_.one_key(key, prefix, argument="prefix")
        if start is None and end is None:
            return "all", keys_.no_keys()
        if end is None:
            return "from", keys_.one_key(key, start, argument="start")
        upper = keys_.one_key(key, end, argument="end")
        if start is None:
            return "to", upper
        lower = keys_.one_key(key, start, argument="start")
        if lower.num_columns != upper.num_columns:
            raise ValueError("start and end must have the same key columns")
        both = arrow().Table.from_batches([lower, upper]).combine_chunks()
        return "between", both.to_batches()[0]

    def _one(
        self,
        batch: "pyarrow.RecordBatch",
        columns: Sequence[str] | None,
        call: dict[str, Any],
        source: ReadSource,
    ) -> dict[str, Any] | None:
        found = self._calls.get_batches(call, batch, source)[0]
        # The query may have been started with other columns since the table was opened.
        there = found.schema.names[:-1]
        names = [name for name in there if name not in self._key] if columns is None else columns
        unknown = [name for name in names if name not in there]
        if unknown:
            raise ValueError(f"the table has no column {unknown[0]!r}; it has {self._schema.names}")
        if not found.column(len(there))[0].as_py():
            return None
        # Converting the whole batch would also convert the key.
        return {name: found.column(there.index(name))[0].as_py() for name in names}

    def _refuse_unversioned(self) -> None:
        if self._kind != "versioned":
            raise UnsupportedOperationError(
                f"{self._name()} is a {self._kind} table: it keeps no versions"
            )

    def _refuse_as_of(self) -> None:
        if self._kind != "versioned":
            raise UnsupportedOperationError(
                f"{self._name()} is a {self._kind} table: only a versioned one can be read as of a "
                "time"
            )

    def _refuse_windowed(self, method: str, instead: str) -> None:
        if self.is_windowed:
            raise UnsupportedOperationError(
                f"{self._name()} is a {self._kind} table, whose rows have a key and a time: call "
                f"{instead} in place of {method}"
            )

    def _refuse_unwindowed(self, method: str, instead: str) -> None:
        if not self.is_windowed:
            raise UnsupportedOperationError(
                f"{self._name()} is a {self._kind} table, whose rows have no windows: call "
                f"{instead} in place of {method}"
            )


def _refuse_text(columns: Sequence[str] | None) -> None:
    if isinstance(columns, str):
        raise TypeError(f"columns={columns!r}: give a list of names")


def list_tables(connection: Connection) -> list[StateTable]:
    """Returns all tables of a root, by operator."""
    return [
        StateTable(
            connection,
            operator=operator,
            operator_kind=operator_kind,
            store=store,
            kind=kind,
            key=key,
            schema=arrow().schema(columns),
        )
        for operator, operator_kind, store, kind, key, columns in connection.core.tables()
    ]


def _open_table(connection: Connection, operator: str, store: str) -> StateTable:
    for table in list_tables(connection):
        if (table.operator, table.store) == (operator, store):
            return table
    raise StateMismatchError(
        f"the state in {connection.root} no longer has the table {store!r} of operator "
        f"{operator!r}, which was pickled: start its query with the operator again, or take a "
        "table of the current query from holdfast.connect"
    )


def shown(tables: Iterable[StateTable]) -> str:
    """Returns tables as lines of text, one a table, under a header."""
    rows = [("operator", "table", "kind", "key", "columns")]
    rows += [
        (
            table.operator,
            table.store,
            table.kind,
            ", ".join(table.key),
            ", ".join(name for name in table.schema.names if name not in table.key),
        )
        for table in tables
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(lines)
