"""The arguments that all operators share: the state, the operator's name, the stores' options."""

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from holdfast._time import Duration, duration_micros
from holdfast.errors import HoldfastError, UnsupportedOperationError
from holdfast.spark.epoch import Epoch
from holdfast.spark.foreach_batch import current_epoch, note_operators
from holdfast.spark.materialized import Materialized
from holdfast.spark.plan.python_workers import check_workers
from holdfast.spark.spark_session import ADAPTIVE, is_adaptive, is_true
from holdfast.spark.state import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

_SPECULATION: Final = "spark.speculation"


@dataclass(frozen=True)
class OperatorCall:
    """The arguments that all operators have in common, checked."""

    state: State
    epoch: Epoch | None
    """The epoch around the call; None for streaming frames and with a scratch state."""
    name: str
    max_ahead: int | None
    """In microseconds."""
    is_persistent: bool

    def take_names(self, *names: str) -> None:
        """Takes these operators' names in the state. Call it last, when nothing else can fail.

        Raises `ValueError` for a name that another call has taken, or that is not a valid name.
        """
        self.state.claim(names, self.epoch)
        if self.epoch is not None and self.state.root is not None:
            note_operators(
                self.epoch,
                self.state.root,
                storage_options=self.state.storage_options,
                partitions=self.state.partitions,
                names=names,
            )


def checked_call(
    frames: "Sequence[DataFrame]",
    *,
    state: State,
    name: str | None,
    default_name: str,
    materialized: Materialized | None,
    max_ahead: Duration | None,
    is_timed: bool = True,
) -> OperatorCall:
    """Checks the arguments that all operators have in common.

    `is_timed`: the rows have a time, which `max_ahead` needs. Raises `TypeError` or `ValueError`
    for invalid arguments, `UnsupportedOperationError` for a stream with `State.scratch()`,
    `HoldfastError` if Spark's Python workers lack this package. With `State(root)`, also raises
    `ValueError` while adaptive execution is on, `HoldfastError` for a static frame outside of a
    micro-batch.
    """
    epoch = _checked_epoch(frames, state)
    name = _operator_name(name, materialized, default_name)
    if max_ahead is not None and not is_timed:
        raise ValueError("max_ahead needs a time: name the rows' timestamp column with on=...")
    check_workers(frames[0].sparkSession)
    return OperatorCall(
        state=state,
        epoch=epoch,
        name=name,
        max_ahead=None if max_ahead is None else duration_micros(max_ahead, "max_ahead"),
        is_persistent=materialized is None or materialized.persistent,
    )


def checked_history(
    history_retention: Duration | None, materialized: Materialized | None
) -> Duration | None:
    """Returns the history retention of a versioned table, which either argument may give."""
    _check_materialized(materialized)
    stored = None if materialized is None else materialized.history_retention
    if (
        history_retention is not None
        and stored is not None
        and duration_micros(history_retention, "history_retention")
        != duration_micros(stored, "history_retention")
    ):
        raise ValueError(
            f"history_retention={history_retention!r} and materialized={materialized!r} differ: "
            "give one of them"
        )
    return stored if history_retention is None else history_retention


def refuse_history(materialized: Materialized | None, why: str) -> None:
    """Raises `UnsupportedOperationError` if `materialized` sets a history retention.

    `why` says in the message why the operator has no history.
    """
    _check_materialized(materialized)
    if materialized is not None and materialized.history_retention is not None:
        raise UnsupportedOperationError(
            f"materialized={materialized!r}: {why}, so the operator has no history: leave "
            "history_retention out"
        )


def _checked_epoch(frames: "Sequence[DataFrame]", state: State) -> Epoch | None:
    if not isinstance(state, State):
        raise TypeError(
            f"state is a {type(state).__name__}: give hfs.State(root) or hfs.State.scratch()"
        )
    is_streaming = any(frame.isStreaming for frame in frames)
    if state.is_scratch:
        if is_streaming:
            raise UnsupportedOperationError(
                "State.scratch() keeps nothing from one micro-batch to the next: give State(root) "
                "for streaming frames"
            )
        return None
    spark = frames[0].sparkSession
    if is_adaptive(spark):
        raise ValueError(
            f"{ADAPTIVE} is on, and could split or drop an operator's tasks: "
            f'set spark.conf.set("{ADAPTIVE}", "false") before the operator is called'
        )
    if is_true(spark, _SPECULATION, default="false"):
        warnings.warn(
            f"{_SPECULATION} is on: Spark may run a task twice at the same time. The state counts "
            "its rows once, but a sink that is not idempotent (Kafka, foreach, a function that "
            "writes from its tasks) may get them twice",
            stacklevel=5,
        )
    if is_streaming:
        return None
    epoch = current_epoch(spark, state.checkpoint_location)
    if epoch is None:
        raise HoldfastError(
            f"{state!r} needs an epoch, and a static frame outside a micro-batch has none: read "
            "with spark.readStream, call the operator inside "
            "foreachBatch(hfs.foreach_batch(fn)), or give State.scratch()"
        )
    return epoch


def _operator_name(name: str | None, materialized: Materialized | None, default: str) -> str:
    _check_materialized(materialized)
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name={name!r}: give a string")
    stored = None if materialized is None else materialized.name
    if name is not None and stored is not None and name != stored:
        raise ValueError(
            f"name={name!r} and materialized={materialized!r} name one operator differently: give "
            "one name"
        )
    given = stored if name is None else name
    return default if given is None else given


def _check_materialized(materialized: object) -> None:
    if materialized is not None and not isinstance(materialized, Materialized):
        raise TypeError(
            f"materialized is a {type(materialized).__name__}: give hfs.Materialized(...)"
        )
