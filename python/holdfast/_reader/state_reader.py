"""Connects to the root of a query's state."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final, Unpack, cast

from holdfast._reader.connection import Connection
from holdfast._reader.read_source import Offline, ReadSource
from holdfast._reader.sql import database
from holdfast._reader.state_table import StateTable, list_tables, shown
from holdfast._time import Timestamp
from holdfast.errors import NotUpToBoundError, StateMismatchError

if TYPE_CHECKING:
    import duckdb


def connect(
    root: str | PathLike[str],
    *,
    storage_options: Mapping[str, str] | None = None,
    offline: Offline = "auto",
    cache_dir: str | PathLike[str] | None = None,
    cache_bytes: int | None = None,
) -> "StateReader":
    """Returns a reader of the state of a query, running or stopped, from any process.

    `root` is the root that `State` was given: a folder, or an address such as `s3://bucket/prefix`
    with its `storage_options`. The reader never writes to it.

    While the query runs, its state hosts answer. If none answers, the reader makes copies of the
    partitions that it reads, from snapshots and log, in a private folder below `cache_dir` (by
    default the temporary folder). The folder is removed when the reader is closed. Hosts and copies
    give the same rows. `offline="never"` makes no copies, and waits for a host; `offline="only"`
    does not ask hosts.

    The copies that are not being read take at most `cache_bytes` of the disk, by default 16 GiB:
    the least recently used copy is deleted first. A copy that is larger than `cache_bytes` is
    deleted after each read, and the next read makes it again.

    Needs pyarrow.

    Raises `StateMismatchError` if the root holds no state, `FormatVersionError` for another format,
    `HoldfastError` if it cannot be read, `ValueError` if `cache_bytes` is negative.
    """
    return StateReader(
        Connection(
            fspath(root),
            dict(storage_options or {}),
            offline,
            (None if cache_dir is None else fspath(cache_dir), cache_bytes),
        )
    )


class Tables(Mapping[tuple[str, str], StateTable]):
    """The tables of a root, by operator and store. It prints as a table."""

    def __init__(self, tables: "list[StateTable]") -> None:
        self._tables: Final = {(table.operator, table.store): table for table in tables}

    def __getitem__(self, key: tuple[str, str]) -> StateTable:
        return self._tables[key]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def __repr__(self) -> str:
        """Shows a line for each table."""
        return shown(self._tables.values())


class OperatorTables(Mapping[str, StateTable]):
    """The tables of an operator with several stores, by store."""

    def __init__(self, tables: "list[StateTable]") -> None:
        self._tables: Final = {table.store: table for table in tables}

    def __getitem__(self, store: str) -> StateTable:
        return self._tables[store]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def __repr__(self) -> str:
        """Shows a line for each table."""
        return shown(self._tables.values())


class StateReader(AbstractContextManager["StateReader"]):
    """Reads the tables of a root; `connect` makes one.

    `reader["rates"]` is the table of the operator `rates`. If the operator has several stores,
    `reader["visits"]["counts"]` is one of them. A reader is a context manager. It can be pickled: a
    process that unpickles it opens a connection of its own, which all its unpickled readers share.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection: Final = connection

    @property
    def root(self) -> str:
        """The root's folder or address."""
        return self._connection.root

    @property
    def root_id(self) -> str:
        """The random id of the root. A root that is deleted and made again has another one."""
        return self._connection.root_id

    @property
    def epoch(self) -> int | None:
        """The newest final epoch: the newest micro-batch that Spark has committed, or None."""
        return self._connection.core.epoch()

    def final_epoch(self) -> int:
        """Returns the newest final epoch.

        Raises `NotUpToBoundError` before the first.
        """
        epoch = self.epoch
        if epoch is None:
            raise NotUpToBoundError(
                f"{self.root}: no epoch is final yet: the query has not committed its first "
                "micro-batch"
            )
        return epoch

    def newest_rewind_of(self, epoch: int) -> int:
        """Returns the run of the newest rewind that took an epoch back; 0 if there is none.

        A program that copies changes stores this number before it reads the changes of the epoch.
        If the number is different later, the epoch was taken back, and the rows that were read no
        longer count.
        """
        return self._connection.core.newest_rewind_of(epoch)

    @property
    def partitions(self) -> int:
        """How many partitions the state has."""
        return self._connection.core.partitions()

    @property
    def tables(self) -> Tables:
        """All tables. Stores that only an operator's code can interpret are left out."""
        return Tables(self._list())

    def metrics(self) -> list[dict[str, Any]]:
        """Returns the figures of each state host that serves the root and answers.

        docs/metrics.md explains them. Without a running query there are no hosts. Raises
        `HoldfastError` if the addresses of the hosts, below `readers/`, cannot be read.
        """
        return cast("list[dict[str, Any]]", json.loads(self._connection.core.metrics()))

    def report(self) -> dict[str, Any]:
        """Returns the activity and the condition of each partition.

        `epoch` is the newest final epoch, or None. `partitions` is a list of dicts, by operator and
        number: `operator`, `partition`, the id of its `host`, its `condition`, and `figures`, which
        are the partition's part of `metrics`. If no host answers for the partition, `host` and
        `figures` are None. A partition that two hosts have open is in the list twice.

        A condition has a `name` (`in_order`, `uploading`, `behind`, `opening`, `closed`,
        `rebuilt`, `no_snapshots`, `unserved`, `unknown`), a `severity` (`good`, `warn`, `bad`), a
        `text` for people, and `epochs_behind`. It is `unknown` if the addresses of the hosts, below
        `readers/`, cannot be read.
        """
        return cast("dict[str, Any]", json.loads(self._connection.core.report()))

    def table(self, operator: str, store: str | None = None) -> StateTable:
        """Returns a table of an operator; `store` may be left out if it has only one.

        Raises `StateMismatchError` if there is no such table, or if `store` is left out and there
        are several.
        """
        of_operator = [table for table in self._list() if table.operator == operator]
        found = [table for table in of_operator if store in (None, table.store)]
        if len(found) == 1:
            return found[0]
        if of_operator:
            stores = [table.store for table in of_operator]
            raise StateMismatchError(
                f"operator {operator!r} has the tables {stores}: name one of them"
            )
        names = sorted({table.operator for table in self._list()})
        raise StateMismatchError(
            f"the state in {self.root} has no table of an operator {operator!r}; the operators "
            f"are {names}"
        )

    def __getitem__(self, operator: str) -> Any:
        """Returns the operator's table, or its tables by store if there are several.

        Raises `StateMismatchError` if there is none.
        """
        found = [table for table in self._list() if table.operator == operator]
        return OperatorTables(found) if len(found) > 1 else self.table(operator)

    def sql(
        self,
        statement: str,
        *,
        parameters: Sequence[Any] | Mapping[str, Any] | None = None,
        as_of: Timestamp | None = None,
        **source: Unpack[ReadSource],
    ) -> "duckdb.DuckDBPyRelation":
        """Returns the rows of an SQL statement over the tables, as a DuckDB relation.

        A relation prints as a table; `to_arrow_table()`, `to_arrow_reader()`, `df()`, `pl()` and
        `write_parquet(path)` run the statement. All tables are of one epoch, by default the newest
        final one when this method is called, even if the relation is read later. If a rewind has
        taken that epoch back, the read raises `duckdb.Error`: call the method again. A statement
        that is no query, such as `COPY`, runs at once.

        `parameters` are the values of `?` or `$name`. The names of the tables, `as_of` and `source`
        are as in `duckdb`.
        """
        return self.duckdb(as_of=as_of, **source).sql(statement, params=parameters)

    def duckdb(
        self, *, as_of: Timestamp | None = None, **source: Unpack[ReadSource]
    ) -> "duckdb.DuckDBPyConnection":
        """Returns a new connection to a DuckDB in memory, with a view of each table.

        All views are of one epoch, by default the newest final one when this method is called. If
        a rewind has taken that epoch back, reads raise `duckdb.Error`: call the method again. The
        names of the views:

        - `rates` is the table of an operator, and `visits.hits` one of several;
        - `versions.rates` are all versions of a versioned table;
        - `as_of('rates', moment)` is a versioned table as of a moment.

        With `as_of` all versioned tables are as of that moment. `source` has the options of every
        read; the isolation level is always `READ_COMMITTED`. The time zone is UTC. Needs duckdb.

        Raises `NotUpToBoundError` if no epoch is final yet, `UnsupportedOperationError` for
        `READ_UNCOMMITTED`.
        """
        return database(self._list(), as_of=as_of, source=source)

    def close(self) -> None:
        """Closes the reader. Open scans continue.

        An unpickled reader shares its connection with all others of its process and root, so that
        connection stays open.
        """
        self._connection.close()

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        """Shows the root."""
        return f"<reader of the state in {self.root}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the address."""
        return StateReader, (self._connection,)

    def _list(self) -> list[StateTable]:
        return list_tables(self._connection)
