"""Python workers that lack the package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
from pyspark.sql import SparkSession
import holdfast.spark as hfs
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.range(1).withColumnRenamed("id", "k")
hfs.aggregate(rows, by="k", aggs={"n": "count"}, state=hfs.State.scratch(partitions=1))
"""


@pytest.mark.parametrize("named", [True, False], ids=["PYSPARK_PYTHON", "on PATH"])
def test_workers_without_the_package_are_a_named_error_at_the_call(tmp_path: Path, named: bool):
    # A regression test: the call succeeded, and the first task failed with "No module named
    # 'holdfast'".
    folder = tmp_path / "other"
    folder.mkdir()
    other = folder / "python3"
    # Without the packages of its environment; Spark gives it PySpark.
    other.write_text(f'#!/bin/bash\nexec -a {other} {sys.executable} -S "$@"\n')
    other.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    environment.pop("PYSPARK_PYTHON", None)
    if named:
        environment["PYSPARK_PYTHON"] = str(other)
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        timeout=300,
    )
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert "HoldfastError: Spark's Python workers cannot import holdfast: " in last, done.stderr
    assert "says ModuleNotFoundError: No module named 'holdfast'" in last
    assert "PYSPARK_PYTHON" in last
    assert str(sys.executable) in last
