"""Scans: a snapshot of the moment in which they were opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Generic, Protocol, TypeVar

K = TypeVar("K")
V = TypeVar("V")
Row = TypeVar("Row", covariant=True)


class RowIterator(Protocol[Row]):
    """What the extension's iterators offer."""

    def __iter__(self) -> Iterator[Row]:
        """The iterator itself."""
        ...

    def __next__(self) -> Row:
        """The next row."""
        ...

    def peek_next_key(self) -> Any:
        """The key of the next row, which stays where it is: bytes, or a tuple of bytes and two
        times.
        """
        ...

    def close(self) -> None:
        """Lets the snapshot go."""
        ...


class StoreIterator(Iterator[tuple[K, V]], AbstractContextManager[Any], Generic[K, V]):
    """Rows in the order of their keys' bytes, unchanged by any commit, rollback or write after it
    was opened.

    Close it, use it in `with`, or read it to its end: until then it holds a snapshot. It is closed
    with its store.

    Raises, as it is read, `SerializationError` for a row that the store's serdes cannot convert.
    """

    def __init__(
        self,
        rows: RowIterator[Any],
        key: Callable[[Any], K],
        record: Callable[[Any], tuple[K, V]] | None,
    ) -> None:
        """Made by the stores; without a `record`, rows are what the extension makes of them."""
        self._rows = rows
        self._key = key
        self._record = record

    def __iter__(self) -> Iterator[tuple[K, V]]:  # noqa: PYI034
        # Not itself but what it reads, so that a loop calls no method of Python's for each row.
        return iter(self._rows) if self._record is None else map(self._record, self._rows)

    def __next__(self) -> tuple[K, V]:
        row = next(self._rows)
        return row if self._record is None else self._record(row)

    def peek_next_key(self) -> K:
        """The key that `next` would return; StopIteration at the end."""
        return self._key(self._rows.peek_next_key())

    def close(self) -> None:
        """Lets the snapshot go; using the iterator afterwards raises `StoreClosedError`."""
        self._rows.close()

    def __exit__(self, *exc: object) -> None:
        self.close()
