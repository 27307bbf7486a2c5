"""What a processor is called with."""

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from holdfast.spark.worker.processor.stores import Stores
from holdfast.spark.worker.processor.timers import Timers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast import _core
    from holdfast._time import Timestamp
    from holdfast.stores import StoreBuilder


class ProcessorContext:
    """A processor's stores and timers, and where it stands. It is of one session, and its processor
    too.

    `ctx[name]` is a store, with the methods that it has in `holdfast`: `KeyError` for a name that
    is not among the processor's `stores`, `UnsupportedOperationError` from a store's `commit` and
    `read_only`. Scalar writes wait, mostly until the batch ends: one that fails ends the task,
    maybe in a later call than its own.
    """

    def __init__(
        self,
        calls: "_core.HostCalls",
        builders: "list[StoreBuilder]",
        *,
        epoch: int,
        partition: int,
        keys: pa.Schema,
        timed: bool,
        fires: bool,
    ) -> None:
        """Made by the operator. `keys`: the columns `by`; `timed`: rows have a time; `fires`: there
        is an `on_timer`.
        """
        self.epoch: Final = epoch
        """The micro-batch's number; 0 where a static frame has none."""
        self.partition: Final = partition
        self.commits = 0
        """How often a commit was asked for."""
        self._stores: Final = Stores(calls, builders, keys.names)
        self._timers: Final = Timers(calls, keys) if timed else None
        self._fires: Final = fires

    @property
    def stream_time(self) -> int | None:
        """The greatest event time so far in this partition, this batch's included, in epoch
        microseconds.

        None before the first, and where rows have no time.
        """
        return None if self._timers is None else self._timers.stream_time

    def __getitem__(self, store: str) -> Any:
        """A store, with the methods that it has in `holdfast`."""
        return self._stores[store]

    def set_timer(self, key: Any, at: "Timestamp") -> None:
        """Have `on_timer(key, at, ctx)` called once the stream time has reached `at` (epoch
        microseconds or a datetime).

        `key` is a value of the column `by`, or a tuple of several columns' values. A timer set
        twice fires once; one for a time that has been reached fires after this batch.

        Raises `ValueError` without an event time or an `on_timer`, `TypeError`, `ValueError` or
        `SerializationError` for a key that is none of `by`, `TypeError` or `ValueError` for an `at`
        that is no moment.
        """
        if self._timers is None:
            raise ValueError("set_timer needs an event time: name its column, process(..., on=...)")
        if not self._fires:
            raise ValueError(
                "set_timer needs a method of the processor that it calls: on_timer(key, at, ctx)"
            )
        self._timers.set(key, at)

    def commit(self) -> None:
        """Ask for a commit. An epoch cannot be split under exactly-once: it is counted, and that is
        all.
        """
        self.commits += 1

    def begin_batch(self, batch: pa.RecordBatch, time: int | None) -> None:
        """The operator is about to hand this batch over; `time` is its greatest."""
        self._stores.begin_batch(batch)
        if self._timers is not None:
            self._timers.store.flush()
            self._timers.advance(time)

    def due(self) -> "Iterator[tuple[Any, int]]":
        """The timers that fire now."""
        return iter(()) if self._timers is None else self._timers.fire()

    def flush(self) -> None:
        """Send all that waits."""
        self._stores.flush()
        if self._timers is not None:
            self._timers.store.flush()
