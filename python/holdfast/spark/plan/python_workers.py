"""Whether Spark's Python workers can import this package."""

import sys
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - the usual name

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_tried: Final[set[str]] = set()
"""The applications whose workers can import the package."""


def check_workers(spark: "SparkSession") -> None:
    """Imports the package in one Python worker, once for each application.

    Raises `HoldfastError`, with the worker's interpreter, if that fails. Without this check, the
    first task would fail while Spark unpickles the operator, and the error would not name the
    interpreter.
    """
    application = str(spark.conf.get("spark.app.id", ""))
    if application in _tried:
        return
    # The function does not use Arrow: the workers may lack that, too.
    attempt = F.udf(_import_package, "string", useArrow=False)
    failure = spark.range(1).select(attempt("id")).collect()[0][0]
    if failure:
        raise HoldfastError(
            f"Spark's Python workers cannot import holdfast: {failure}. Before the session starts, "
            "set the environment variable PYSPARK_PYTHON (without it workers run the python3 on "
            "their PATH) or the setting spark.pyspark.python to an interpreter that has holdfast "
            f"and its dependencies. This process runs {sys.executable}"
        )
    _tried.add(application)


def _import_package(_: Any) -> str:
    """Returns the interpreter and the error of the import; an empty text if it succeeds."""
    import sys
    from importlib import import_module

    try:
        import_module("holdfast._core")
        import_module("holdfast.spark.worker.task")
    except ImportError as error:
        return f"{sys.executable} says {type(error).__name__}: {error}"
    return ""


# A function of the module `__main__` is pickled with its code. Pickled by name, this one could be
# unpickled only by workers that have the package.
_import_package.__module__ = "__main__"
