"""Questions to a Spark session."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_connect(spark: "SparkSession") -> bool:
    """Whether this is a Spark Connect session, which has no SparkContext."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def is_true(spark: "SparkSession", setting: str, *, default: str) -> bool:
    """Whether a setting is true, in any of the ways in which Spark writes that."""
    return str(spark.conf.get(setting, default)).strip().lower() == "true"
