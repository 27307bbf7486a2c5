"""Two queries on one Spark session."""

from __future__ import annotations

from pathlib import Path

from sequence_query import SequenceQuery


def test_two_queries_on_one_spark_do_not_interfere(spark, tmp_path: Path):
    both = [SequenceQuery(spark, tmp_path / name) for name in ("one", "other")]
    for query in both:
        query.base.mkdir()
        query.arrive(3)
    started = [query.start(query.collecting()) for query in both]
    for query in started:
        query.processAllAvailable()
        query.stop()
    for query in both:
        query.check()
