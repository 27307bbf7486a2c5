"""Fixtures that all tests share."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tasks import Bench

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


@pytest.fixture
def place() -> str:
    """Where the stores are; the contract's tests run with all of them."""
    return "files"


@pytest.fixture
def bench(tmp_path: Path, place: str):
    bench = Bench(tmp_path / "db", place)
    yield bench
    bench.task.close()


@pytest.fixture
def open_bench(tmp_path: Path, place: str):
    """Opens tasks with options of the test's own; all are closed at its end."""
    opened: list[Bench] = []

    def opener(name: str = "db", **options: Any) -> Bench:
        opened.append(Bench(tmp_path / name, place, **options))
        return opened[-1]

    yield opener
    for bench in opened:
        bench.task.close()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory):
    """The one local session: who asks first would else decide the settings of all."""
    from pyspark.sql import SparkSession

    # Two slots, and three retries of a task: what a cluster does, a local master must be asked for.
    spark = (
        SparkSession.builder.master("local[2,4]")
        .appName("holdfast-tests")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        # The host must see micro-batches as fast as Spark can start them.
        .config("spark.sql.streaming.pollingDelay", "5ms")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    yield spark
    spark.stop()
