"""The settings of the session that evaluates an operator."""

from __future__ import annotations

import pytest

from holdfast.errors import HoldfastError
from holdfast.spark.worker.task_settings import check_settings

ADAPTIVE, EXECUTION = "spark.sql.adaptive.enabled", "spark.sql.execution.id"


@pytest.mark.parametrize("on", [{ADAPTIVE: "true"}, {ADAPTIVE: " TRUE ", EXECUTION: "3"}, {}])
def test_adaptive_execution_is_refused_in_the_task(on: dict[str, str]):
    # Adaptive execution is Spark's default.
    with pytest.raises(HoldfastError, match=f"operator 'op' is evaluated with {ADAPTIVE}"):
        check_settings({EXECUTION: "3", **on}.get, "op")


@pytest.mark.parametrize("off", [{ADAPTIVE: "false", EXECUTION: "3"}, {ADAPTIVE: "False"}, {}])
def test_a_session_without_adaptive_execution_is_accepted(off: dict[str, str]):
    check_settings(off.get, "op")
