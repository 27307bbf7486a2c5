"""Fixtures of all tests, including those in the documentation."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
# Tests and Spark's Python workers import the helpers in support/ by name, and workers also import
# the tests whose classes they get.
_SPARK = Path(__file__).parent / "tests" / "spark"
_ROOMS = sorted({str(file.parent) for file in _SPARK.glob("*/**/*.py")})
sys.path.insert(0, str(_SPARK / "support"))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (*_ROOMS, os.environ.get("PYTHONPATH"))))


# The reasons of all skips. Another one is a failure in CI, where nothing may be left out unseen.
_SKIPS = (
    "a store in memory is empty after a reopen",
    "long: make oracles",
    # Also root in a container without the right to mount.
    "only root may mount a disk",
    "this test cannot fill the disk of an S3 server",
)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Fails a test that is skipped in CI for a reason that is not in `_SKIPS`."""
    report = yield
    is_skip = report.skipped and not hasattr(report, "wasxfail")
    if is_skip and os.environ.get("CI") and not any(why in str(report.longrepr) for why in _SKIPS):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped in CI: {report.longrepr[-1]}"
    return report


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory):
    """The only local session, with the settings of all tests."""
    from pyspark.sql import SparkSession

    # Two slots, and three retries of a task, as on a cluster.
    spark = (
        SparkSession.builder.master("local[2,4]")
        .appName("holdfast-tests")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        # After a fetch failure, which some tests provoke, a local executor cannot register its
        # blocks again. Each heartbeat then fails, and with the default of 60 failures the JVM ends
        # ten minutes later.
        .config("spark.executor.heartbeat.maxFailures", "1000000")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.local.dir", str(tmp_path_factory.mktemp("shuffles")))
        .config("spark.python.daemon.module", "preloaded_daemon")
        # Micro-batches start as fast as Spark can start them.
        .config("spark.sql.streaming.pollingDelay", "5ms")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    yield spark
    spark.stop()


@pytest.fixture(autouse=True)
def _examples(request: pytest.FixtureRequest, doctest_namespace: dict[str, Any]) -> None:
    """Gives examples of the pages on Spark a session named `spark`, as in PySpark's shell.

    Those of `reading.md` and `roots.md` also have the name of a `folder`.
    """
    if "docs/spark" in request.path.as_posix():
        doctest_namespace["spark"] = request.getfixturevalue("spark")
    if request.path.name in ("reading.md", "roots.md"):
        doctest_namespace["folder"] = str(request.getfixturevalue("tmp_path"))
