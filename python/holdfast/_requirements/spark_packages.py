"""The packages that `holdfast.spark` needs."""

from importlib import import_module
from typing import Final

from holdfast._requirements.extras import how_to_install
from holdfast.errors import RequirementError

_EXTRA: Final = how_to_install("spark")


def check_pyspark() -> None:
    """Raises `RequirementError` without PySpark 4.0 or newer, or without pyarrow."""
    try:
        import_module("pyarrow")
        import pyspark
    except ImportError as error:
        raise RequirementError(f"holdfast.spark needs {error.name}: {_EXTRA}") from error
    if int(pyspark.__version__.partition(".")[0]) < 4:
        raise RequirementError(
            f"holdfast.spark needs PySpark 4.0 or newer, and this is {pyspark.__version__}: "
            f"{_EXTRA}"
        )
