"""The operator names of a state that are in use in this process."""

import re
import threading
from collections.abc import Sequence
from typing import Final

from holdfast.spark.epoch import Epoch

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")


class OperatorNames:
    """The names in use: those of a plan permanently, those in `foreachBatch` for one epoch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._epoch: Epoch | None = None
        self._of_plans: set[str] = set()
        self._of_epoch: set[str] = set()

    def claim(self, names: Sequence[str], epoch: Epoch | None, root: str | None) -> None:
        """Takes all names or none.

        Raises `ValueError` if a plan has one of them or, for a name in `foreachBatch`, if the epoch
        has it.
        """
        with self._lock:
            if epoch is not None and epoch != self._epoch:
                self._epoch, self._of_epoch = epoch, set()
            for name in names:
                if name in self._of_plans or (epoch is not None and name in self._of_epoch):
                    raise ValueError(
                        f"the state at {root} has an operator named {name!r} already: give this "
                        "one another name=, or make a new State for a new query"
                    )
            (self._of_plans if epoch is None else self._of_epoch).update(names)

    def in_use(self) -> list[str]:
        """Returns the names in use, sorted."""
        with self._lock:
            return sorted(self._of_plans | self._of_epoch)

    def __reduce__(self) -> tuple[type["OperatorNames"], tuple[()]]:
        # A state pickled into foreachBatch's function is unpickled in another process, where no
        # operator has a name yet.
        return OperatorNames, ()


def is_name_part(name: str) -> bool:
    """Returns whether a name can be part of file names: 1 to 100 ASCII letters, digits, _ or -."""
    return _NAME.fullmatch(name) is not None


def check_name(name: str) -> None:
    """Raises `ValueError` for a name that cannot be part of file names."""
    if not is_name_part(name):
        raise ValueError(
            f"name={name!r}: an operator's name is part of file names; "
            "give 1 to 100 ASCII letters, digits, '_' or '-'"
        )
