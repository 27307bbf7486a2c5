"""Options of an operator's stores."""

from typing import Final

from holdfast._time import Duration, duration_micros
from holdfast.errors import UnsupportedOperationError


class Materialized:
    """The options of an operator's stores; every operator takes `materialized=`.

    `name` is the operator's name in the state, like the operator's own `name=`.
    `persistent=False` puts the stores into the memory of the state host: a new host rebuilds them
    from the log. The log of all operators of the query is therefore never trimmed, and the operator
    has no snapshots. `history_retention` is how far back the history of a versioned table goes, for
    operators that have one.

    Raises `UnsupportedOperationError` for `transactional=False`, `ValueError` or `TypeError` for
    invalid arguments.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        transactional: bool = True,
        persistent: bool = True,
        history_retention: Duration | None = None,
    ) -> None:
        for argument, given in (("transactional", transactional), ("persistent", persistent)):
            if not isinstance(given, bool):
                raise TypeError(f"Materialized({argument}={given!r}): give True or False")
        if not transactional:
            raise UnsupportedOperationError(
                "Materialized(transactional=False): a retry of the task must start from the state "
                "after the previous micro-batch, but it would see the writes of the previous "
                "attempt: leave transactional=False out"
            )
        if name is not None and not isinstance(name, str):
            raise TypeError(f"Materialized(name={name!r}): give a string")
        if history_retention is not None:
            duration_micros(history_retention, "history_retention")
        self.name: Final = name
        self.transactional: Final = transactional
        self.persistent: Final = persistent
        self.history_retention: Final = history_retention

    def __repr__(self) -> str:
        return (
            f"Materialized({self.name!r}, persistent={self.persistent}, "
            f"history_retention={self.history_retention!r})"
        )
