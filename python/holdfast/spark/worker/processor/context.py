"""The context that a processor is called with."""

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from holdfast.spark.worker.processor.stores import ProcessorStores
from holdfast.spark.worker.processor.timers import Timers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast import _core
    from holdfast._time import Timestamp
    from holdfast.stores import StoreBuilder


class ProcessorContext:
    """A processor's stores, timers, epoch and partition, for one session.

    `ctx[name]` is a store, with the same methods as a store of a database. A name that is not among
    the processor's `stores` raises `KeyError`. A store's `commit` and `read_only` raise
    `UnsupportedOperationError`. Scalar writes, except those of versioned stores, are buffered,
    mostly until the end of the batch. The error of a write may therefore be raised by a later call.
    """

    def __init__(
        self,
        calls: "_core.HostCalls",
        builders: "list[StoreBuilder]",
        *,
        epoch: int | None,
        partition: int,
        keys: pa.Schema,
        timed: bool,
        fires: bool,
    ) -> None:
        """Created by the operator.

        `keys`: the columns `by`; `timed`: the rows have a time; `fires`: there is an `on_timer`.
        """
        self.epoch: Final = epoch or 0
        """The micro-batch's number; 0 if a static frame has none."""
        self.partition: Final = partition
        self.commits = 0
        """The number of calls of `commit`."""
        self._stores: Final = ProcessorStores(
            calls,
            builders,
            keys.names,
            partition=partition,
            state_epoch=epoch - 1 if epoch else None,
        )
        self._timers: Final = Timers(calls, keys) if timed else None
        self._fires: Final = fires

    @property
    def stream_time(self) -> int | None:
        """The greatest event time of this partition, this batch included, in epoch microseconds.

        A heartbeat may raise it further. None before the first time, and if rows have no time.
        """
        return None if self._timers is None else self._timers.stream_time

    def __getitem__(self, store: str) -> Any:
        """Returns a store, with the same methods as a store of a database."""
        return self._stores[store]

    def set_timer(self, key: Any, at: "Timestamp") -> None:
        """Requests a call of `on_timer(key, at, ctx)` when the stream time reaches `at`.

        `at` is epoch microseconds or an aware datetime. `key` is a value of the column `by`, or a
        tuple of the values of several columns. A timer that is set twice fires once. A timer for a
        time that is not in the future fires after this batch.

        Raises `ValueError` without an event time or an `on_timer`; `TypeError`, `ValueError` or
        `SerializationError` for a key that does not fit the columns `by`; `TypeError` or
        `ValueError` for an invalid `at`.
        """
        if self._timers is None:
            raise ValueError("set_timer needs an event time: name its column, process(..., on=...)")
        if not self._fires:
            raise ValueError(
                "set_timer needs a method of the processor that it calls: on_timer(key, at, ctx)"
            )
        self._timers.set(key, at)

    def commit(self) -> None:
        """Counts a request for a commit, and has no other effect.

        An epoch commits as a whole, under exactly-once and under at-least-once: Spark's checkpoint
        has the input offsets of whole micro-batches only. Changes that exceed the memory of an
        epoch spill to files.
        """
        self.commits += 1

    def begin_batch(self, batch: pa.RecordBatch, time: int | None) -> None:
        """Called by the operator before it passes this batch.

        `time` is the greatest time of the batch, or of a heartbeat after the last batch.
        """
        self._stores.begin_batch(batch)
        if self._timers is not None:
            self._timers.store.flush()
            self._timers.advance(time)

    def due(self) -> "Iterator[tuple[Any, int]]":
        """Returns the timers that fire now."""
        return iter(()) if self._timers is None else self._timers.fire()

    def flush(self) -> None:
        """Sends all buffered writes."""
        self._stores.flush()
        if self._timers is not None:
            self._timers.store.flush()

    def __repr__(self) -> str:
        return (
            f"ProcessorContext(epoch={self.epoch}, partition={self.partition}, "
            f"stores={self._stores.names})"
        )
