"""A table of a query's state as a `pyarrow.dataset.Dataset`.

pyarrow is optional, so the class is created with the first dataset.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from holdfast._reader.arrow import arrow, arrow_dataset, batch_reader, fields
from holdfast._reader.dataset.domain import Domain
from holdfast._reader.dataset.expression import columns as names_of
from holdfast._reader.dataset.expression import tree
from holdfast._reader.dataset.key_filter import selection
from holdfast._reader.dataset.table_file import file_dataset

if TYPE_CHECKING:
    import pyarrow

Read = Callable[[Mapping[str, Domain], list[str]], "pyarrow.RecordBatchReader"]
"""Reads these columns of all rows with values in the domains, and maybe of other rows."""


def dataset(schema: "pyarrow.Schema", read: Read) -> Any:
    """Returns a dataset of these columns.

    `read` gets the values that a filter may select of each column. Columns that are not needed are
    not read. Arrow applies the whole filter to the rows that were read.
    """
    return _dataset_class()(schema, read)


@cache
def _dataset_class() -> Any:
    datasets = arrow_dataset()

    class StateDataset(datasets.UnionDataset):  # type: ignore[name-defined,misc]
        """Reads the table anew in each scan.

        The methods that are not defined here, and datasets that this one is joined to, read the
        whole table through the dataset in C++.
        """

        def __init__(self, schema: "pyarrow.Schema", read: Read) -> None:
            def whole() -> "pyarrow.RecordBatchReader":
                return read({}, list(schema.names))

            super().__init__(schema, [file_dataset(schema, whole)])
            self._schema = schema
            self._read = read

        @property
        def schema(self) -> "pyarrow.Schema":
            """The columns."""
            return self._schema

        def __reduce__(self) -> Any:
            raise TypeError(
                "the dataset of a table cannot be pickled: pickle the table, or the rows that "
                "to_table() returns"
            )

        def filter(self, expression: Any) -> Any:
            """Returns a dataset whose scans also apply this filter."""
            filtered = super().filter(expression)
            filtered._schema, filtered._read = self._schema, self._read
            return filtered

        def scanner(
            self,
            columns: Any = None,
            filter: Any = None,  # noqa: A002 - the name of pyarrow's argument
            **_: Any,
        ) -> Any:
            """Returns a scanner over the rows that a filter selects."""
            filter = self._scanner_options({"filter": filter})["filter"]  # noqa: A001
            names = _needed(self._schema, columns, filter)
            filter_ = None if filter is None else tree(filter)
            selected = {} if filter_ is None else selection(filter_, self._schema)
            if selected is None:
                rows = arrow().RecordBatchReader.from_batches(fields(self._schema, names), [])
            else:
                rows = self._read(selected, names)
            # The rows may come through Python iterators, so Arrow's thread can be in Python here,
            # too.
            stream = batch_reader(rows.schema, rows)
            return datasets.Scanner.from_batches(stream, columns=columns, filter=filter)

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


def _needed(schema: "pyarrow.Schema", columns: Any, filter_: Any) -> list[str]:
    """Returns the columns that a scan needs; all if they cannot be determined."""
    if columns is None:
        return list(schema.names)
    used: set[str] = set()
    expressions = [] if filter_ is None else [filter_]
    if isinstance(columns, Mapping):
        expressions.extend(columns.values())
    else:
        used.update(columns)
    for expression in expressions:
        parsed = tree(expression)
        if parsed is None:
            return list(schema.names)
        used.update(names_of(parsed))
    unknown = used.difference(schema.names)
    # At least one column is read: pyarrow counts no rows in a batch without columns. If a name is
    # unknown, all columns are read, and pyarrow raises the error.
    needed = [name for name in schema.names if name in used and not unknown]
    return needed or list(schema.names if unknown else schema.names[:1])
