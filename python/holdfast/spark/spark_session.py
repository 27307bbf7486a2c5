"""Properties of a Spark session."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ADAPTIVE: Final = "spark.sql.adaptive.enabled"


def is_connect(spark: "SparkSession") -> bool:
    """Returns whether this is a Spark Connect session, which has no SparkContext."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def needs_java() -> bool:
    """Returns whether this process must still start Java for Spark.

    A client of Spark Connect needs no Java. If a session is active, Java has been started.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.utils import is_remote

    gateway = getattr(SparkContext, "_gateway", None)  # absent in pyspark-client
    return gateway is None and not is_remote() and SparkSession.getActiveSession() is None


def is_true(spark: "SparkSession", setting: str, *, default: str) -> bool:
    """Returns whether a setting is true, in upper or lower case."""
    return str(spark.conf.get(setting, default)).strip().lower() == "true"


def is_adaptive(spark: "SparkSession") -> bool:
    """Returns whether adaptive execution is on."""
    return is_true(spark, ADAPTIVE, default="true")
