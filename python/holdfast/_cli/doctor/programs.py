"""Checks Java, the packages, and the Python of Spark's workers."""

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from typing import Any, Final

from holdfast._cli.doctor.finding import Finding
from holdfast._core import __version__
from holdfast._requirements import check_java, check_pyspark
from holdfast.errors import RequirementError

_ASK: Final = """
import json, sys
found = {"executable": sys.executable, "python": list(sys.version_info[:2])}
for name in ("holdfast", "pyspark", "pyarrow"):
    try:
        found[name] = __import__(name).__version__
    except ImportError as error:
        found[name] = None
        found["error"] = str(error)
print(json.dumps(found))
"""
_SECONDS: Final = 60


def check_programs() -> list[Finding]:
    """Checks the programs and packages that a Spark job with state needs."""
    return [_spark(), _java(), _workers()]


def _spark() -> Finding:
    try:
        check_pyspark()
    except RequirementError as error:
        found, _, change = str(error).partition(": ")
        return Finding("PySpark", "problem", found, change)
    names = ("pyspark", "pyarrow", "pandas")
    found = ", ".join(f"{name} {_version(name)}" for name in names)
    return Finding("PySpark", "ok", found)


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "missing"


def _java() -> Finding:
    try:
        check_java(is_needed=True)
    except RequirementError as error:
        found, _, change = str(error).partition(": ")
        return Finding("Java", "problem", found, change)
    return Finding("Java", "ok", os.environ.get("JAVA_HOME") or shutil.which("java") or "found")


def _workers() -> Finding:
    """Asks the Python that Spark starts for workers what it can import."""
    title = "Python of Spark's workers"
    asked = os.environ.get("PYSPARK_PYTHON")
    python = asked or "python3"
    by = "PYSPARK_PYTHON" if asked else "PYSPARK_PYTHON is not set, so the PATH"
    change = (
        f"set the environment variable PYSPARK_PYTHON={sys.executable}, or the setting "
        "spark.pyspark.python, before the session starts. On a cluster each executor needs such an "
        "interpreter"
    )
    try:
        printed = subprocess.run(
            [python, "-c", _ASK],
            capture_output=True,
            text=True,
            check=True,
            timeout=_SECONDS,
            cwd="/",
        )
        found: dict[str, Any] = json.loads(printed.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return Finding(title, "problem", f"{by} names {python}, which fails: {error}", change)
    runs = f"{by} names {found['executable']}"
    missing = [name for name in ("holdfast", "pyspark", "pyarrow") if found[name] is None]
    if missing:
        text = f"{runs}, which cannot import {', '.join(missing)} ({found['error']})"
        return Finding(title, "problem", text, change)
    driver = list(sys.version_info[:2])
    if found["python"] != driver or found["holdfast"] != __version__:
        theirs = f"Python {_dotted(found['python'])} with holdfast {found['holdfast']}"
        ours = f"Python {_dotted(driver)} with holdfast {__version__}"
        return Finding(title, "problem", f"{runs}, {theirs}; the driver has {ours}", change)
    return Finding(title, "ok", f"{found['executable']}, as the driver's")


def _dotted(version: list[int]) -> str:
    return ".".join(map(str, version))
