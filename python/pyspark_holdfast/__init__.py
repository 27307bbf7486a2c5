"""Registers the data source `holdfast` with Spark, which looks for modules named `pyspark_…`.

```python
spark.read.format("holdfast").option("table", "rates").load("/var/lib/enrich")
```
"""

from holdfast.spark.source.data_source import HoldfastDataSource as DefaultSource

__all__ = ["DefaultSource"]
