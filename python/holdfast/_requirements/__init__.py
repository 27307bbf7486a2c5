"""Checks that the machine has what Holdfast needs; the errors say what to install."""

from holdfast._requirements.extension import check_extension
from holdfast._requirements.extras import how_to_install
from holdfast._requirements.java import check_java
from holdfast._requirements.spark_packages import check_pyspark

__all__ = ["check_extension", "check_java", "check_pyspark", "how_to_install"]
