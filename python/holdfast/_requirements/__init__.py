"""What the machine must have, checked before it is used; the error says what to install."""

from holdfast._requirements.extension import check_extension
from holdfast._requirements.extras import how_to_install
from holdfast._requirements.java import check_java
from holdfast._requirements.spark_packages import check_pyspark

__all__ = ["check_extension", "check_java", "check_pyspark", "how_to_install"]
