"""The query of these tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from sequence_query import SequenceQuery


@pytest.fixture
def query(spark, tmp_path: Path) -> SequenceQuery:
    return SequenceQuery(spark, tmp_path)
