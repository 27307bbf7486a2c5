"""Converts keys to Arrow columns, from Python values, pandas or pyarrow."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from holdfast._reader.arrow import arrow
from holdfast._reader.exact_column import exact_column
from holdfast._time import timestamp_micros
from holdfast.serde._row import named_fields
from holdfast.serde._unsliced import unsliced_batch

if TYPE_CHECKING:
    import pyarrow


_PLAIN: Final = (bool, int, float, str, bytes)
"""Types of values that are no keys of several columns."""


def one_key(columns: "pyarrow.Schema", key: Any, *, argument: str = "key") -> "pyarrow.RecordBatch":
    """Returns a batch with one row: a key of these columns.

    A key of one column is its value. A key of several is a tuple, or a dict by column; a tuple that
    names its fields, such as a `NamedTuple`, is taken as a dict. A bound of a scan may have only
    the key's first columns; the first column alone needs no tuple.

    Raises `TypeError` or `ValueError` for a key that does not fit.
    """
    values = key_values(columns, key, argument)
    names = columns.names[: len(values)]
    given = [
        exact_column([value], columns.field(name).type, name)
        for name, value in zip(names, values, strict=True)
    ]
    return arrow().RecordBatch.from_arrays(given, names=names)


def many_keys(columns: "pyarrow.Schema", keys: Any) -> "pyarrow.RecordBatch":
    """Returns a batch with a row for each key.

    Keys of one column are a list, a pandas Series, or an Arrow array. Keys of several are a list of
    tuples, a dict of columns, a pandas DataFrame, or an Arrow table; there the columns are found by
    name.

    Raises `TypeError` or `ValueError` for keys that do not fit.
    """
    pa = arrow()
    names = columns.names
    frame = _columns_by_name(keys, names)
    if frame is None and len(names) == 1:
        frame = {names[0]: keys}
    elif frame is None:
        rows = [key_values(columns, key, "keys") for key in keys]
        if any(len(row) != len(names) for row in rows):
            raise ValueError(f"keys: each key has the columns {names}")
        frame = {name: [row[index] for row in rows] for index, name in enumerate(names)}
    given = [exact_column(frame[name], columns.field(name).type, name) for name in names]
    return unsliced_batch(pa.RecordBatch.from_arrays(given, names=names))


def key_values(columns: "pyarrow.Schema", key: Any, argument: str) -> list[Any]:
    """Returns the values of a key's columns, in order; `argument` is its name in errors.

    Raises `TypeError` or `ValueError` for a key that does not fit.
    """
    if type(key) in _PLAIN and len(columns) == 1:
        # The names and types below would take a tenth of the time of a read of one key.
        return [key]
    names = columns.names
    if len(names) == 1 and arrow().types.is_struct(columns.field(0).type):
        # The dict is the value of the only column.
        return [key]
    if isinstance(key, tuple):
        named = named_fields(key)
        key = key if named is None else named
    if isinstance(key, Mapping):
        unknown = [name for name in key if name not in names]
        if unknown:
            raise ValueError(
                f"{argument}: {unknown[0]!r} is no key column; the key columns are {names}"
            )
        leading = names[: len(key)]
        missing = [name for name in leading if name not in key]
        if missing:
            raise ValueError(f"{argument}: key column {missing[0]!r} is missing")
        return [key[name] for name in leading]
    if len(names) == 1 and not isinstance(key, tuple):
        return [key]
    if argument not in ("key", "keys") and not isinstance(key, tuple):
        return [key]
    if not isinstance(key, tuple) or not 1 <= len(key) <= len(names):
        raise ValueError(f"{argument}={key!r}: give a tuple of the key columns {names}")
    return list(key)


def no_keys() -> "pyarrow.RecordBatch":
    """Returns a batch without rows and columns."""
    pa = arrow()
    return pa.RecordBatch.from_arrays([], schema=pa.schema([]))


def with_columns(
    batch: "pyarrow.RecordBatch", more: "Mapping[str, pyarrow.Array]"
) -> "pyarrow.RecordBatch":
    """Returns the batch with more columns after its columns."""
    names = [*batch.schema.names, *more]
    return arrow().RecordBatch.from_arrays([*batch.columns, *more.values()], names=names)


def time_column(times: Any, rows: int, name: str) -> "pyarrow.Array":
    """Returns times as a column: one time for all rows, or a time for each.

    Raises `TypeError` or `ValueError` for times that cannot be converted.
    """
    pa = arrow()
    kind = pa.timestamp("us", tz="UTC")
    if _is_column(times):
        return exact_column(times, kind, name)
    if isinstance(times, list | tuple):
        micros = [timestamp_micros(time, name) for time in times]
    else:
        micros = [timestamp_micros(times, name)] * rows
    return pa.array(micros, pa.int64()).cast(kind)


def _columns_by_name(keys: Any, names: Sequence[str]) -> Mapping[str, Any] | None:
    """Returns the columns of a frame, a table or a dict of columns; None for other keys."""
    if isinstance(keys, Mapping):
        found = list(keys)
    elif hasattr(keys, "column_names"):
        found = list(keys.column_names)
    elif hasattr(keys, "columns") and hasattr(keys, "iloc"):
        found = [str(name) for name in keys.columns]
    else:
        return None
    missing = [name for name in names if name not in found]
    if missing:
        raise ValueError(f"keys: column {missing[0]!r} is missing; there are {found}")
    return {name: keys[name] for name in names}


def _is_column(value: Any) -> bool:
    """Whether the value is an Arrow array, or a pandas Series or numpy array."""
    return (
        hasattr(value, "__arrow_c_array__")
        or hasattr(value, "__arrow_c_stream__")
        or (hasattr(value, "dtype") and hasattr(value, "__len__"))
    )
