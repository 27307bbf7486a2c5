"""How an operator's stores are kept."""

from typing import TYPE_CHECKING, Final

from holdfast.errors import UnsupportedOperationError
from holdfast.spark.span import micros

if TYPE_CHECKING:
    from holdfast.spark.span import Span


class Materialized:
    """How an operator's stores are kept; every operator takes `materialized=`.

    `name` is the operator's name in the state, as its own `name=`. `persistent=False` keeps the
    stores in the memory of the state host: whatever a host loses at its end is made anew from the
    log, which therefore stays whole, of all operators of the query, and there are no snapshots.
    `history_retention` is how far back a versioned table reaches, for operators that keep one.

    Raises `UnsupportedOperationError` for `transactional=False`, `ValueError` or `TypeError` for
    arguments that cannot be.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        transactional: bool = True,
        persistent: bool = True,
        history_retention: "Span | None" = None,
    ) -> None:
        for argument, given in (("transactional", transactional), ("persistent", persistent)):
            if not isinstance(given, bool):
                raise TypeError(f"Materialized({argument}={given!r}): give True or False")
        if not transactional:
            raise UnsupportedOperationError(
                "Materialized(transactional=False): writes that go straight through would be seen "
                "by a retry of the task, "
                "and under exactly-once a retry must find the state of the micro-batch before: "
                "leave transactional=False out"
            )
        if name is not None and not isinstance(name, str):
            raise TypeError(f"Materialized(name={name!r}): give a string")
        if history_retention is not None:
            micros(history_retention, "history_retention")
        self.name: Final = name
        self.transactional: Final = transactional
        self.persistent: Final = persistent
        self.history_retention: Final = history_retention

    def __repr__(self) -> str:
        return (
            f"Materialized({self.name!r}, persistent={self.persistent}, "
            f"history_retention={self.history_retention!r})"
        )


def operator_name(name: str | None, materialized: Materialized | None, default: str) -> str:
    """The name that the operator is given, in whichever way."""
    _check(materialized)
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


def history_of(
    given: "Span | None", materialized: Materialized | None, *, kept: str | None = None
) -> "Span | None":
    """The history that the operator is asked to keep, in whichever way; `kept` says why it keeps
    none.
    """
    _check(materialized)
    stored = None if materialized is None else materialized.history_retention
    if stored is not None and kept is not None:
        raise UnsupportedOperationError(
            f"materialized={materialized!r}: {kept}, so it has no history: leave it out"
        )
    if (
        given is not None
        and stored is not None
        and micros(given, "history_retention") != micros(stored, "history_retention")
    ):
        raise ValueError(
            f"history_retention={given!r} and materialized={materialized!r} differ: give one of "
            "them"
        )
    return stored if given is None else given


def _check(materialized: object) -> None:
    if materialized is not None and not isinstance(materialized, Materialized):
        raise TypeError(
            f"materialized is a {type(materialized).__name__}: give hfs.Materialized(...)"
        )
