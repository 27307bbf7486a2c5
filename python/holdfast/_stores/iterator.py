"""Scans, each over the state at the moment it was opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Generic, Protocol, TypeVar

K = TypeVar("K")
V = TypeVar("V")
Row = TypeVar("Row", covariant=True)


class RowIterator(Protocol[Row]):
    """The interface of the extension's iterators."""

    def __iter__(self) -> Iterator[Row]:
        """Returns the iterator itself."""
        ...

    def __next__(self) -> Row:
        """Returns the next row."""
        ...

    def peek_next_key(self) -> Any:
        """Returns the key of the next row without advancing: bytes, or bytes with two times."""
        ...

    def close(self) -> None:
        """Releases the pinned view."""
        ...


class StoreIterator(Iterator[tuple[K, V]], AbstractContextManager[Any], Generic[K, V]):
    """Rows as they were when the iterator was opened.

    Later writes, commits and rollbacks do not change them. The method that returns the iterator
    describes their order. The iterator pins a view of the database until it is exhausted or closed:
    close it, or use it in `with`. Closing the database closes its iterators, too.

    Iteration raises `SerializationError` for a row that the store's serdes cannot convert.
    """

    def __init__(
        self,
        rows: RowIterator[Any],
        key: Callable[[Any], K],
        record: Callable[[Any], tuple[K, V]] | None,
    ) -> None:
        """Called by the stores; without `record`, the extension's rows are returned as they are."""
        self._rows = rows
        self._key = key
        self._record = record

    def __iter__(self) -> Iterator[tuple[K, V]]:  # noqa: PYI034
        # Returns the rows, not itself: a loop then calls no Python method per row.
        return iter(self._rows) if self._record is None else map(self._record, self._rows)

    def __next__(self) -> tuple[K, V]:
        row = next(self._rows)
        return row if self._record is None else self._record(row)

    def peek_next_key(self) -> K:
        """Returns the key of the next row without advancing; `StopIteration` at the end."""
        return self._key(self._rows.peek_next_key())

    def close(self) -> None:
        """Releases the pinned view; using the iterator afterwards raises `StoreClosedError`."""
        self._rows.close()

    def __exit__(self, *exc: object) -> None:
        self.close()
