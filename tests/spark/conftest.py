"""Fixtures of the tests on Spark: streams on the one Spark session."""

from __future__ import annotations

from pathlib import Path

import pytest
from streams import Stream


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(autouse=True)
def _same_settings(request: pytest.FixtureRequest):
    """Stops queries and resets settings after each test."""
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
