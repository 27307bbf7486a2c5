"""Imports pyarrow when a reader first needs it: the package itself does not depend on it."""

import importlib
from typing import TYPE_CHECKING, Any

from holdfast.errors import RequirementError

if TYPE_CHECKING:
    import pyarrow


def arrow() -> Any:
    """Returns the module `pyarrow`.

    Raises `RequirementError` if it is not installed.
    """
    return _module("pyarrow")


def arrow_dataset() -> Any:
    """Returns the module `pyarrow.dataset`.

    Raises `RequirementError` if pyarrow is not installed.
    """
    return _module("pyarrow.dataset")


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise RequirementError(
            "reading a query's state needs pyarrow: pip install 'holdfast[reader]'"
        ) from error


def fields(schema: "pyarrow.Schema", names: list[str]) -> "pyarrow.Schema":
    """Returns the named fields, in this order."""
    return arrow().schema([schema.field(name) for name in names])
