"""Stores the output of a processor that is not deterministic, for retries of its task."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from holdfast.spark.worker.processor.key_value import RemoteKeyValue

if TYPE_CHECKING:
    from holdfast import _core

OUTPUT_STORE: Final = "holdfast.output"
"""The name of the store, which has the batches of the last epoch by number."""


class StoredOutput:
    """The output of one session, in a store that the operator adds to the processor's stores."""

    def __init__(self, calls: "_core.HostCalls") -> None:
        """Opens the stored output of one partition."""
        self._calls: Final = calls
        self._store: Final = RemoteKeyValue(calls, OUTPUT_STORE)

    def batches(
        self,
        compute: Callable[[], Iterator[pa.RecordBatch]],
        check: Callable[[pa.RecordBatch], pa.RecordBatch],
    ) -> Iterator[pa.RecordBatch]:
        """Yields the batches that an earlier session stored for the same input, after `check`.

        If this input is new, computes, stores and yields its batches.
        """
        if self._calls.is_repeated():
            for _, data in self._store.range(None, None, False):
                yield from map(check, pa.ipc.open_stream(data))
            return
        self._store.delete_range(None, None)  # the batches of the previous epoch
        for number, batch in enumerate(compute()):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            self._store.put(number.to_bytes(8, "big"), sink.getvalue().to_pybytes())
            # Sent now: a partition may have many batches.
            self._store.flush()
            yield batch
