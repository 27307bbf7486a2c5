"""What the stores of a processor share: calls to the state host, and buffered writes."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from holdfast.errors import StoreClosedError, UnsupportedOperationError

if TYPE_CHECKING:
    from holdfast import _core

WRITES: Final = 10_000
"""The number of buffered scalar writes at which they are sent before the batch ends."""

BYTES: Final = 16 << 20
"""The approximate size of a message, of buffered writes or of prefetched entries.

A message can have up to 1 GiB.
"""

_LARGEST: Final = 1 << 30
"""Bytes of the largest key or value that a store accepts."""

_SCAN_ROWS: Final = 1_000


class RemoteStore:
    """A store of the state host, with the methods that `holdfast` calls on an extension's store."""

    def __init__(self, calls: "_core.HostCalls", name: str) -> None:
        """Creates a store of a session."""
        self._calls = calls
        self._name = name
        self._bytes = 0

    def _check_size(self, key: bytes, value: bytes | None) -> None:
        """Raises `ValueError` for a key or value that the store does not accept.

        It is called before the write is buffered. An error when it is sent would be that of all
        buffered writes.
        """
        size = max(len(key), len(value or b""))
        if size > _LARGEST:
            raise ValueError(
                f"store {self._name}, key {key[:32]!r}: a key or value has {size} bytes, and a "
                f"store accepts at most {_LARGEST}; keep large objects elsewhere"
            )

    def _wait(self, count: int, size: int) -> None:
        """Counts a buffered write of `size` bytes; sends all if they are many or large."""
        self._bytes += size
        if count >= WRITES or self._bytes >= BYTES:
            self.flush()

    def flush(self) -> None:
        """Sends the buffered writes."""

    def uncommitted_bytes(self) -> int:
        """Returns the memory of the session's writes to the store, and sends the buffered ones."""
        size: int = self._number("uncommitted_bytes")
        return size

    def begin_batch(self, _keys: Callable[[], list[bytes]]) -> None:
        """Sends the writes of the previous batch; `_keys` returns the keys of the new one."""
        self.flush()

    def read_only(self, _level: str, _bound: object) -> "RemoteStore":
        """Raises: within a session only the processor reads the store, with its own writes."""
        raise UnsupportedOperationError(
            f"store {self._name}: read_only is for readers beside the job; in a processor use the "
            "store's own reads"
        )

    def _ask(self, method: str, *given: "_core._Argument") -> "_core.ArrowBatch":
        self.flush()
        return self._calls.call(self._name, method, given)

    def _scan(
        self, method: str, *given: "_core._Argument", batch_rows: int = _SCAN_ROWS
    ) -> "_core.ArrowReader":
        self.flush()
        return self._calls.scan(self._name, method, given, batch_rows)

    def _number(self, method: str) -> Any:
        return columns(self._ask(method))[0][0]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r}>"


class RemoteRows:
    """The rows of a scan, with the methods of the extension's iterators."""

    def __init__(
        self, pages: "_core.ArrowReader", rows: Callable[[list[list[Any]]], Iterator[Any]]
    ) -> None:
        """`rows` turns the columns of a page into rows."""
        self._pages: Iterator[_core.ArrowBatch] | None = iter(pages)
        self._rows = rows
        self._page: Iterator[Any] = iter(())
        self._peeked: list[Any] = []

    def __iter__(self) -> Iterator[Any]:
        """Returns the iterator itself."""
        return self

    def __next__(self) -> Any:
        """Returns the next row."""
        if self._peeked:
            return self._peeked.pop()
        for row in self._page:
            return row
        if self._pages is None:
            raise StoreClosedError("this iterator is closed; open another")
        self._page = self._rows(columns(next(self._pages)))
        return next(self)

    def peek_next_key(self) -> Any:
        """Returns the key of the next row without advancing."""
        if not self._peeked:
            self._peeked.append(next(self))
        return self._peeked[0][0]

    def close(self) -> None:
        """Closes the scan, which releases its view."""
        self._pages, self._page, self._peeked = None, iter(()), []


def tuples(page: list[list[Any]]) -> Iterator[Any]:
    """Returns the rows of a page as tuples of all columns."""
    return zip(*page, strict=True)


def columns(batch: "_core.ArrowBatch") -> list[list[Any]]:
    """Returns a batch's columns as Python values."""
    return [column.to_pylist() for column in pa.record_batch(batch).columns]


def column(batch: "_core.ArrowBatch", name: str) -> Any:
    """Returns a batch's column, with the Arrow PyCapsule interface."""
    return pa.record_batch(batch).column(name)
