"""Spark's hash sends each number to the partition that it was computed for."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from holdfast.spark.plan.murmur3 import murmur3, numbers_by_partition


def test_the_hash_equals_sparks(spark):
    numbers = [0, 1, 2, 41, 65_535, 1 << 30, (1 << 31) - 1]
    frame = spark.createDataFrame([(number,) for number in numbers], "n int").select(F.hash("n"))
    assert [murmur3(number) for number in numbers] == [row[0] for row in frame.collect()]


@pytest.mark.parametrize("partitions", [1, 2, 7, 200])
def test_each_partition_has_a_number(partitions: int):
    found = numbers_by_partition(partitions)
    assert [murmur3(number) % partitions for number in found] == list(range(partitions))
