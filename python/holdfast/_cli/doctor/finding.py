"""What a check has found."""

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warning", "problem"]


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    check: str
    """What was checked."""
    status: Status
    """`warning`: may be intended. `problem`: queries fail, or lose their guarantees."""
    found: str
    """What the check found."""
    change: str | None = None
    """What to change; None if nothing."""
