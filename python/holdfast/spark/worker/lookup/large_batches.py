"""Reads many keys at once, while Spark prepares the next ones."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow

_ROWS: Final = 25_000
_BYTES: Final = 16 << 20
_GROWTH: Final = 4
"""A batch has at most about this many times the rows of the last result.

The growth is limited because the rows of later results may be larger.
"""

Work = Callable[["pyarrow.RecordBatch"], "pyarrow.RecordBatch"]


class LargeBatches:
    """Combines Spark's batches into larger ones, and works on these one after the other.

    A host finds many keys at once faster than few: neighbours are in one block of a file. A large
    batch has about 25,000 rows, or 16 MiB of rows, or 16 MiB of results, which are estimated from
    the last result. Spark's batches are not split.
    """

    def __init__(self, work: Work) -> None:
        self._work: Final = work
        # The result of Spark's first batch shows how large results are.
        self._most_rows = 1

    def results(self, batches: "Iterator[pyarrow.RecordBatch]") -> "Iterator[pyarrow.RecordBatch]":
        """Returns the results in order. The next batch is read from Spark during the work."""
        with ThreadPoolExecutor(1, "holdfast-lookup") as worker:
            running = None
            for batch in self._put_together(batches):
                if running is not None:
                    yield self._learned(running.result())
                running = worker.submit(self._work, batch)
            if running is not None:
                yield self._learned(running.result())

    def _put_together(
        self, batches: "Iterator[pyarrow.RecordBatch]"
    ) -> "Iterator[pyarrow.RecordBatch]":
        waiting: list[pyarrow.RecordBatch] = []
        for batch in batches:
            waiting.append(batch)
            rows = sum(one.num_rows for one in waiting)
            if rows >= self._most_rows or sum(one.nbytes for one in waiting) >= _BYTES:
                yield from _together(waiting)
                waiting = []
        yield from _together(waiting)

    def _learned(self, result: "pyarrow.RecordBatch") -> "pyarrow.RecordBatch":
        if result.num_rows:
            fitting = _BYTES * result.num_rows // max(1, result.nbytes)
            self._most_rows = min(_ROWS, max(1, fitting), _GROWTH * result.num_rows)
        return result


def _together(batches: "list[pyarrow.RecordBatch]") -> "list[pyarrow.RecordBatch]":
    """Returns the rows as one batch, or as several if a column cannot hold all of them."""
    if len(batches) < 2:
        return batches
    import pyarrow as pa

    return pa.Table.from_batches(batches).combine_chunks().to_batches() or batches[:1]
