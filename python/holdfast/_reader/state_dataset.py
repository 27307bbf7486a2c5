"""A table of a query's state as a `pyarrow.dataset.Dataset`.

pyarrow is optional, so the class is made when a dataset is first asked for.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from holdfast._reader.arrow import arrow_dataset

if TYPE_CHECKING:
    import pyarrow

Read = Callable[[dict[str, Any], list[str]], "pyarrow.RecordBatchReader"]
"""Reads the rows whose first key columns have these values, and these columns of them."""


def dataset(schema: "pyarrow.Schema", key: tuple[str, ...], read: Read) -> Any:
    """Returns a dataset of these columns.

    A filter that sets the first columns of the key to values reads only these keys. Columns that
    are not needed are not read. Arrow applies the rest of the filter.
    """
    return _dataset_class()(schema, key, read)


@cache
def _dataset_class() -> Any:
    datasets = arrow_dataset()

    class StateDataset(datasets.Dataset):  # type: ignore[name-defined,misc]
        """Reads the table anew in each scan."""

        def __init__(self, schema: "pyarrow.Schema", key: tuple[str, ...], read: Read) -> None:
            self._schema = schema
            self._key = key
            self._read = read

        @property
        def schema(self) -> "pyarrow.Schema":
            """The columns."""
            return self._schema

        def scanner(
            self,
            columns: Any = None,
            filter: Any = None,  # noqa: A002 - the name of pyarrow's argument
            **_: Any,
        ) -> Any:
            """Returns a scanner over the rows that a filter selects."""
            keys = _leading_keys(self._key, filter)
            names = _needed(self._schema, columns, filter)
            return datasets.Scanner.from_batches(
                self._read(keys, names), columns=columns, filter=filter
            )

        def to_table(self, *args: Any, **options: Any) -> "pyarrow.Table":
            """Returns all rows of a scan."""
            return self.scanner(*args, **options).to_table()

        def to_batches(self, *args: Any, **options: Any) -> "Iterator[pyarrow.RecordBatch]":
            """Returns the rows of a scan, a batch at a time."""
            batches: Iterator[pyarrow.RecordBatch] = self.scanner(*args, **options).to_batches()
            return batches

        def head(self, num_rows: int, *args: Any, **options: Any) -> "pyarrow.Table":
            """Returns the first rows of a scan."""
            return self.scanner(*args, **options).head(num_rows)

        def count_rows(self, *args: Any, **options: Any) -> int:
            """Returns the number of rows of a scan."""
            return int(self.scanner(*args, **options).count_rows())

        def __repr__(self) -> str:
            return f"<dataset of {', '.join(self._schema.names)}>"

    return StateDataset


def _leading_keys(key: tuple[str, ...], filter_: Any) -> dict[str, Any]:
    """Returns the values that a filter sets the key's first columns to."""
    if filter_ is None:
        return {}
    equal = arrow_dataset().get_partition_keys(filter_)
    found = {}
    for name in key:
        if equal.get(name) is None:
            break
        found[name] = equal[name]
    return found


def _needed(schema: "pyarrow.Schema", columns: Any, filter_: Any) -> list[str]:
    """Returns the columns that a scan needs; all if that cannot be told."""
    if columns is None or not all(isinstance(name, str) for name in columns):
        return list(schema.names)
    if isinstance(columns, dict):
        return list(schema.names)
    text = str(filter_) if filter_ is not None else ""
    needed = [name for name in schema.names if name in columns or name in text]
    # A batch without columns has no rows for pyarrow.
    return needed or list(schema.names[:1])
