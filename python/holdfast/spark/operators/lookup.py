"""Joins the rows of a frame with a table of another query's state."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import chain
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as sql
from pyspark.sql.functions import broadcast

from holdfast._reader.arrow import arrow_compute
from holdfast._reader.pinned_epoch import PinnedEpoch, checked
from holdfast._reader.read_source import Offline
from holdfast._reader.state_reader import StateReader, connect
from holdfast._reader.state_table import StateTable
from holdfast._time import Timestamp, timestamp_micros
from holdfast.errors import StateMismatchError
from holdfast.spark.plan.epoch_chooser import chosen_epoch, epoch_of_call
from holdfast.spark.plan.schema import contains, is_collated, nullable
from holdfast.spark.source.spark_types import spark_schema
from holdfast.spark.spark_session import is_connect
from holdfast.spark.worker.garbage import leave_out_modules
from holdfast.spark.worker.lookup.chosen_epoch import ChosenEpoch
from holdfast.spark.worker.lookup.large_batches import LargeBatches

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

_EPOCH: Final = "__holdfast_epoch"
_REWIND: Final = "__holdfast_rewind"
"""The last two columns of the rows that give each task the epoch that it reads."""

_WIDENING: Final = (
    (sql.ByteType, sql.ShortType, sql.IntegerType, sql.LongType),
    (sql.FloatType, sql.DoubleType),
)
"""In each group, the values of a type are also values of the types after it."""


def lookup(
    df: "DataFrame",
    root: str | PathLike[str],
    table: str,
    *,
    on: str | Sequence[str] | Mapping[str, str],
    store: str | None = None,
    as_of: str | Timestamp | None = None,
    columns: Sequence[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    offline: Offline = "auto",
    epoch: int | None = None,
) -> "DataFrame":
    """Returns each row of a frame with the row of its key in the state of another query.

    `root` is the root of that query's state, `table` the operator, `store` one of its tables if it
    has several. `on` names the columns of the key: in the order of the table's key, or as a dict
    from the table's key columns to the frame's. In a versioned table `as_of` is the column with the
    time as of which a row is looked up, or one time for all rows. A row whose key is not found, or
    has a null, has nulls.

    `columns` are the table's columns that are added, by default all but the key's. The frame may be
    static or a stream. All rows of a micro-batch read one epoch: `epoch`, or the newest final one
    when the micro-batch begins, also if the call is inside `foreachBatch`. Call it there in
    every micro-batch: a result that is kept reads the epoch of its first one. A thread that the
    function starts needs `hfs.foreach_batch` for this. Outside of a micro-batch, and under Spark
    Connect, each evaluation of a static frame reads one epoch, which may be newer than that of an
    earlier evaluation. A recomputed micro-batch may find newer rows. For a join that gives the same
    rows again, read the other query's changes as a stream and join them with `join_asof`.

    `offline` is as in `holdfast.connect`. State hosts have only the newest epoch. If that is newer
    than the epoch to read, a Python worker makes copies of the partitions that it reads, and
    updates them in each micro-batch. With `offline="never"` there are no copies: without `epoch`,
    each batch of about 25,000 rows reads the epoch that is newest then. Except under Spark Connect,
    the driver chooses the epoch of a stream's micro-batch, so executors connect to the driver's
    host.

    The columns `on` must have the types of the table's key; a smaller integer, or a float for a
    double, also fits. A column `as_of` has the type of the table's time. Spark's cast of a date or
    a `timestamp_ntz` to a timestamp uses the session's time zone.

    Raises `StateMismatchError` if there is no such table, `ValueError` or `TypeError` for an
    argument that does not fit the frame or the table. A task raises `StateMismatchError` if a
    rewind of the other query takes back the epoch while it is read, or if the table has other key
    columns since a rewind.
    """
    options = dict(storage_options or {})
    pinned: PinnedEpoch | ChosenEpoch | None = None
    with connect(root, storage_options=options, offline=offline) as reader:
        found = reader.table(table, store)
        session = df.sparkSession
        if epoch is not None:
            pinned = PinnedEpoch.of(reader, epoch)
        elif offline != "never" and not is_connect(session):
            # A broadcast would cost a Spark job in each micro-batch, and each evaluation inside
            # foreachBatch would choose again.
            pinned = (
                chosen_epoch(session.sparkContext, reader, options)
                if df.isStreaming
                else epoch_of_call(session, reader, options)
            )
        look_up = _LookUp(
            df, reader, found, keys=_keys(on, found), as_of=as_of, columns=columns, epoch=pinned
        )
        if pinned is not None or offline == "never":
            return df.mapInArrow(look_up, look_up.output)
        # Spark evaluates a broadcast once in each execution, and gives it to all tasks.
        newest = session.range(0, 1, 1, 1)
        chosen = newest.mapInArrow(_NewestEpoch(reader), f"{_EPOCH} long, {_REWIND} long")
        return df.crossJoin(broadcast(chosen)).mapInArrow(look_up, look_up.output)


class _NewestEpoch:
    """Chooses the epoch, in a Python worker."""

    def __init__(self, reader: StateReader) -> None:
        self._reader: Final = reader

    def __call__(self, rows: "Iterator[pyarrow.RecordBatch]") -> "Iterator[pyarrow.RecordBatch]":
        """Returns, for each row, a row with the newest final epoch and its newest rewind."""
        import pyarrow as pa

        leave_out_modules()
        for batch in rows:
            epoch = PinnedEpoch.of(self._reader, self._reader.final_epoch())
            given = {_EPOCH: epoch.number, _REWIND: epoch.rewind}
            columns = [pa.array([value] * batch.num_rows, pa.int64()) for value in given.values()]
            yield pa.RecordBatch.from_arrays(columns, names=list(given))


class _LookUp:
    """The function that runs in Python workers."""

    def __init__(
        self,
        df: "DataFrame",
        reader: StateReader,
        table: StateTable,
        *,
        keys: Mapping[str, str],
        as_of: str | Timestamp | None,
        columns: Sequence[str] | None,
        epoch: PinnedEpoch | ChosenEpoch | None,
    ) -> None:
        from pyspark.sql.pandas.types import from_arrow_type

        if isinstance(columns, str):
            raise TypeError(f"columns={columns!r}: give a list of names")
        added = [name for name in table.schema.names if name not in table.key]
        added = list(columns) if columns is not None else added
        times = [as_of] if isinstance(as_of, str) else []
        for name in [*keys.values(), *times]:
            if name not in df.columns:
                raise ValueError(f"the frame has no column {name!r}; it has {df.columns}")
        for name in added:
            if name not in table.schema.names:
                raise ValueError(f"the table has no column {name!r}; it has {table.schema.names}")
            if name in df.columns:
                raise ValueError(
                    f"both the frame and the table have a column {name!r}: rename the frame's, or "
                    "leave it out of columns"
                )
        for key, name in keys.items():
            _check_key(df.schema[name], table.schema.field(key))
        if as_of is not None and table.kind != "versioned":
            raise ValueError(f"as_of: the table {table.operator}.{table.store} has no versions")
        if isinstance(as_of, str):
            _check_time(df.schema[as_of], table)
        self._reader: Final = reader
        self._table: Final = table
        self._keys: Final = keys
        self._as_of: Final = as_of if isinstance(as_of, str) else None
        self._moment: Final = (
            None if as_of is None or isinstance(as_of, str) else timestamp_micros(as_of, "as_of")
        )
        self._columns: Final = added
        self._adds_keys: Final = not set(table.key).isdisjoint(added)
        self._epoch: Final = epoch
        types = [table.schema.field(name).type for name in added]
        fields = [
            # By default PySpark 4.0 and 4.1 convert a time without a zone to an instant.
            sql.StructField(name, from_arrow_type(kind, prefer_timestamp_ntz=True))
            for name, kind in zip(added, types, strict=True)
        ]
        self.output: Final = sql.StructType([*df.schema.fields, *fields])

    def __call__(self, batches: "Iterator[pyarrow.RecordBatch]") -> "Iterator[pyarrow.RecordBatch]":
        """Adds the table's columns to batches of the frame's rows."""
        leave_out_modules()
        # After a rewind the other query may have started with other key columns.
        if set(self._keys) != set(self._table.key):
            raise StateMismatchError(
                f"the key columns of {self._table.operator}.{self._table.store} are "
                f"{list(self._table.key)} now, and were {list(self._keys)} when this query "
                "started: start it again"
            )
        first = []
        for batch in batches:
            first.append(batch)
            if batch.num_rows:
                break
        if not first:
            return iter(())
        # A call is a task, and all rows of a task read one epoch.
        epoch = self._epoch_of_task(first[-1])
        number = None if epoch is None else epoch.number
        results = LargeBatches(partial(self._look_up, number)).results(chain(first, batches))
        return results if epoch is None else checked(results, partial(epoch.check, self._reader))

    def _epoch_of_task(self, rows: "pyarrow.RecordBatch") -> PinnedEpoch | None:
        """Returns the epoch that this task reads; `rows` are its first ones."""
        if rows.schema.names[-2:] == [_EPOCH, _REWIND]:
            if rows.num_rows == 0:
                return None
            return PinnedEpoch(*(rows.column(name)[0].as_py() for name in (_EPOCH, _REWIND)))
        return self._epoch.of_task() if isinstance(self._epoch, ChosenEpoch) else self._epoch

    def _look_up(self, epoch: int | None, rows: "pyarrow.RecordBatch") -> "pyarrow.RecordBatch":
        import pyarrow as pa

        if rows.schema.names[-2:] == [_EPOCH, _REWIND]:
            rows = rows.drop_columns([_EPOCH, _REWIND])
        given = {key: rows.column(name) for key, name in self._keys.items()}
        moment: Any = self._moment
        if self._as_of is not None:
            # Times without a zone are stored as if they were in UTC.
            moment = rows.column(self._as_of).cast(pa.timestamp("us", tz="UTC"))
        found = self._table._get_batch(given, as_of=moment, columns=self._columns, epoch=epoch)
        *added, is_found = (column.combine_chunks() for column in found.columns)
        if self._adds_keys or any(column.null_count for column in given.values()):
            # A row that is not found has the given key in the key's columns. And as in Spark's
            # joins, null equals nothing: a table of an aggregate may have a null key.
            compute = arrow_compute()
            valid = (column.is_valid() for column in given.values())
            places = compute.if_else(
                reduce(compute.and_, valid, is_found),
                pa.array(range(rows.num_rows)),
                pa.scalar(None, pa.int64()),
            )
            added = [column.take(places) for column in added]
        names = [*rows.schema.names, *self._columns]
        return pa.RecordBatch.from_arrays([*rows.columns, *added], names=names)


def _keys(on: str | Sequence[str] | Mapping[str, str], table: StateTable) -> dict[str, str]:
    """Returns the frame's columns by the table's key columns."""
    if isinstance(on, str):
        on = [on]
    if not isinstance(on, Mapping):
        if len(on) != len(table.key):
            raise ValueError(f"on={list(on)!r}: the table's key is {list(table.key)}")
        on = dict(zip(table.key, on, strict=True))
    if set(on) != set(table.key):
        raise ValueError(f"on={dict(on)!r}: name the table's key columns, {list(table.key)}")
    return {name: on[name] for name in table.key}


def _check_key(column: sql.StructField, key: "pyarrow.Field") -> None:
    """Raises `ValueError` for a column whose values cannot all be values of the table's key.

    pyarrow would cast them. A double cast to a float finds the row of another number, and a number
    too large for an integer ends the stream.
    """
    given, wanted = nullable(column.dataType), nullable(_spark_type(key))
    is_wider = any(
        type(given) in kinds[: kinds.index(type(wanted)) + 1]
        for kinds in _WIDENING
        if type(wanted) in kinds
    )
    if contains(given, is_collated) or not (given == wanted or is_wider):
        raise ValueError(
            f"on: column {column.name!r} is {given.simpleString()}, and the table's key column "
            f"{key.name!r} is {wanted.simpleString()}: cast the frame's column to this type"
        )


def _check_time(column: sql.StructField, table: StateTable) -> None:
    """Raises `ValueError` for a column whose type differs from that of the versioned table's time.

    pyarrow would take a date or a time without a zone as a time in UTC, and an integer as
    microseconds. The look-up would then find the rows of another moment.
    """
    # A versioned table has its two times after the key.
    time = table.schema.field(len(table.key))
    wanted = _spark_type(time)
    if column.dataType != wanted:
        raise ValueError(
            f"as_of: column {column.name!r} is {column.dataType.simpleString()}, and the table's "
            f"{time.name} is {wanted.simpleString()}: cast the frame's column to this type"
        )


def _spark_type(field: "pyarrow.Field") -> sql.DataType:
    import pyarrow as pa

    return spark_schema(pa.schema([field]))[0].dataType
