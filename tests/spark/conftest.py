"""One local Spark session for all tests here."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from streams import Stream

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
# Functions of `streams` run in Python workers, too.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(Path(__file__).parent), os.environ.get("PYTHONPATH"))))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory):
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


@pytest.fixture(autouse=True)
def _same_settings(request: pytest.FixtureRequest):
    """No test leaves a setting behind."""
    if "spark" not in request.fixturenames:
        yield
        return
    session = request.getfixturevalue("spark")
    yield
    for query in session.streams.active:
        query.stop()
    session.conf.set("spark.sql.adaptive.enabled", "false")
    session.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.fixture
def stream(spark, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)
