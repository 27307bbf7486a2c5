"""The end of a task's input."""

import sys
from io import BufferedReader
from typing import TYPE_CHECKING, Final

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from types import FrameType

_MAIN: Final = "main"
_INPUT: Final = "infile"


def check_input_ended() -> None:
    """Checks that Spark has sent all of the task's input; call it after the last batch.

    Raises `HoldfastError` if Spark broke off the input: a part of it could not be read, or the task
    is being cancelled. The batches so far are then only a part of the input. Also raises
    `HoldfastError` if PySpark's worker does not run this task: the end cannot be checked then.

    If a socket is closed between two batches, pyarrow treats it as the end of the stream. PySpark
    reads its own end mark only after the function under `mapInArrow` has returned.
    """
    if not _infile().peek(1):
        raise HoldfastError(
            "Spark broke off the input of this task before its end: a part of the input could not "
            "be read, or the task is being cancelled. This attempt stages nothing"
        )


def _infile() -> BufferedReader:
    """Returns the stream from Spark, a variable of the `worker.main` that runs this task."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == _MAIN and _INPUT in frame.f_locals:
            stream: BufferedReader = frame.f_locals[_INPUT]
            return stream
        frame = frame.f_back
    raise HoldfastError(
        "the end of the input cannot be checked: this task is not called by `pyspark.worker.main`. "
        "Run it with PySpark 4.0 to 4.3 and Spark's own Python worker"
    )
