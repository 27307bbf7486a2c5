"""The output of a processor that is not deterministic: kept in a store of the operator's own, to be
given again.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from holdfast.spark.worker.processor.key_value import KeyValue

if TYPE_CHECKING:
    from holdfast import _core

OUTPUT_STORE: Final = "holdfast.output"
"""The store; it has the batches of the last epoch, by number."""


class Output:
    """The output of one session."""

    def __init__(self, calls: "_core.HostCalls") -> None:
        """The output of a partition."""
        self._calls: Final = calls
        self._store: Final = KeyValue(calls, OUTPUT_STORE)

    def kept(
        self,
        given: Callable[[], Iterator[pa.RecordBatch]],
        again: Callable[[pa.RecordBatch], pa.RecordBatch],
    ) -> Iterator[pa.RecordBatch]:
        """What an earlier session gave for the same input, by way of `again`; else what is given
        now, and it is kept.
        """
        if self._calls.is_repeated():
            for _, data in self._store.range(None, None, False):
                yield from map(again, pa.ipc.open_stream(data))
            return
        self._store.delete_range(None, None)  # the epoch before
        for number, batch in enumerate(given()):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            self._store.put(number.to_bytes(8, "big"), sink.getvalue().to_pybytes())
            # Not held until the end: the batches of a partition may be many.
            self._store.flush()
            yield batch
