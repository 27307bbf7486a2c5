"""Stores with serdes, and a Spark session for the one test that asks Spark."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf


@pytest.fixture
def open_stores(tmp_path: Path):
    """Opens a task with a key-value store `kv` and a versioned store `rates` of the same serdes; again: reopens it."""
    opened: list[hf.Task] = []

    def opener(**serdes: Any) -> hf.Task:
        for task in opened:
            task.close()
        stores = [hf.stores.key_value("kv", **serdes), hf.stores.versioned("rates", history_retention=10**15, **serdes)]
        opened.append(hf.open_task(tmp_path / "db", stores))
        return opened[-1]

    yield opener
    for task in opened:
        task.close()


@pytest.fixture(scope="session")
def spark():
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.sql.session.timeZone", "UTC")
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    yield spark
    spark.stop()
