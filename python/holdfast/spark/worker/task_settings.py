"""Checks the settings of a Spark task's job."""

from collections.abc import Callable
from typing import Final

from holdfast.errors import HoldfastError
from holdfast.spark.spark_session import ADAPTIVE

_EXECUTION: Final = "spark.sql.execution.id"


def check_settings(get: Callable[[str], str | None], operator: str) -> None:
    """Checks the session that started the job; `get` returns a local property of the task.

    The call of the operator has checked its session, too. But a setting may change after the call,
    and another session may evaluate the result. Raises `HoldfastError` for adaptive execution.
    """
    # The settings of a session are properties of its jobs. Jobs over RDDs have neither these nor
    # adaptive execution.
    default = None if get(_EXECUTION) is None else "true"
    if (get(ADAPTIVE) or default or "").strip().lower() == "true":
        raise HoldfastError(
            f"operator {operator!r} is evaluated with {ADAPTIVE}, which could split or drop its "
            f'tasks: set spark.conf.set("{ADAPTIVE}", "false") in the session that evaluates it, '
            "and do not switch it on again; inside foreachBatch, this session is frame.sparkSession"
        )
