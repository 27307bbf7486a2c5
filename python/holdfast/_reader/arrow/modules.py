"""Imports pyarrow and DuckDB when a reader first needs them: the package works without them."""

import importlib
from functools import cache
from typing import Any

from holdfast._requirements import how_to_install
from holdfast.errors import RequirementError


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


def arrow_compute() -> Any:
    """Returns the module `pyarrow.compute`.

    Raises `RequirementError` if pyarrow is not installed.
    """
    return _module("pyarrow.compute")


def arrow_fs() -> Any:
    """Returns the module `pyarrow.fs`.

    Raises `RequirementError` if pyarrow is not installed.
    """
    return _module("pyarrow.fs")


def duckdb() -> Any:
    """Returns the module `duckdb`.

    Raises `RequirementError` if it is not installed.
    """
    return _module("duckdb", "reading a query's state by SQL needs duckdb", extra="sql")


@cache
def _module(
    name: str, what: str = "reading a query's state needs pyarrow", extra: str = "reader"
) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise RequirementError(f"{what}: {how_to_install(extra)}") from error
