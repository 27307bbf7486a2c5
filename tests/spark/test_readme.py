"""The README's example on Spark runs as it stands, apart from its folders."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

README = Path(__file__).parents[2] / "README.md"


def test_the_example_joins_an_order_with_the_rate_of_its_time(spark: SparkSession, tmp_path: Path):
    example = re.search(r"```python\n(import holdfast.spark.*?)```", README.read_text(), re.DOTALL)
    assert example is not None
    code = example[1].replace("/var/lib", str(tmp_path))
    frames = {
        "orders": ("currency string, ordered_at timestamp", "('USD', timestamp '2026-11-17')"),
        "rates": (
            "currency string, valid_from timestamp, rate double",
            "('USD', timestamp '2026-11-16', 1.5D), ('USD', timestamp '2026-11-18', 2.5D)",
        ),
    }
    names: dict[str, Any] = {"spark": spark}
    for name, (columns, rows) in frames.items():
        folder = str(tmp_path / name)
        spark.sql(f"select * from values {rows}").toDF(
            *(column.split()[0] for column in columns.split(", "))
        ).coalesce(1).write.parquet(folder)
        names[name] = spark.readStream.schema(columns).parquet(folder)
    before = {query.id for query in spark.streams.active}
    exec(code, names)
    [query] = [query for query in spark.streams.active if query.id not in before]
    query.processAllAvailable()
    query.stop()
    found = spark.read.parquet(str(tmp_path / "enriched")).collect()
    assert [(row.currency, row.rate) for row in found] == [("USD", 1.5)]
