"""The ways to read a table from Spark, against the rows of a query that runs or has ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd

import holdfast as hf
import holdfast.spark as hfs

if TYPE_CHECKING:
    import streams
    from pyspark.sql import DataFrame

KEYS = "abcdefgh"


def check(stream: streams.Stream) -> list[str]:
    """Reads the table of a query in every way; returns what is wrong."""
    wrong: list[str] = []

    def same(what: str, found: Any, wanted: Any) -> None:
        if found != wanted:
            wrong.append(f"{what}: wanted {wanted}, got {found}")

    reads = _Reads(stream)
    for epoch in range(2):
        stream.batch(left=[(key, epoch, 10 * epoch + n) for n, key in enumerate(KEYS)])
    query = reads.query()
    query.processAllAvailable()
    table = {key: 10 + n for n, key in enumerate(KEYS)}
    for offline in ("never", "only"):
        same(f"read, offline={offline}", reads.rows(offline=offline), table)
    same("read of a key", reads.rows(key="b"), {"b": 11})
    same("read of an epoch", reads.rows(epoch="0"), {key: n for n, key in enumerate(KEYS)})
    first = [(1, key, 10 + n) for n, key in enumerate(KEYS)]
    same("changes from the table on", reads.follow(), first)
    stream.batch(left=[("a", 2, 20), ("z", 2, 21)])
    query.processAllAvailable()
    query.stop()
    table |= {"a": 20, "z": 21}
    same("changes of a stopped query", reads.follow(), [*first, (2, "a", 20), (2, "z", 21)])
    same("changes in a batch query", reads.changes(), [(2, "a", 20), (2, "z", 21)])
    same("read of a stopped query", reads.rows(), table)
    found = {"a": 20, "c": 12, "no": None}
    for name, way in (
        ("lookup", reads.looked_up),
        ("lookup in a stream", reads.looked_up_in_a_stream),
        ("pandas UDF", reads.in_a_udf),
        ("pandas UDF of batches", reads.in_a_udf_of_batches),
    ):
        same(name, way(list(found)), found)
    return wrong


class _Reads:
    """The reads of a stream's table."""

    def __init__(self, stream: streams.Stream) -> None:
        self.stream, self.spark = stream, stream.spark
        self.streamed = 0

    def query(self) -> Any:
        """Starts the query that stores the table."""
        table = hfs.materialize(
            self.stream.source("left"), by="k", name="table", state=self.stream.state()
        )
        writer = table.writeStream.format("noop")
        writer = writer.option("checkpointLocation", self.stream.checkpoint)
        return writer.trigger(processingTime="0 seconds").start()

    def rows(self, **options: str) -> dict[str, int]:
        """Reads the table by the data source."""
        frame = self.spark.read.format("holdfast").options(**options).load(self.stream.address)
        return {row.k: row.x for row in frame.collect()}

    def changes(self) -> list[tuple[Any, ...]]:
        """Reads the changes of the third epoch in a batch query."""
        reader = self.spark.read.format("holdfast").option("changes", "true")
        changes = reader.option("startingEpoch", "2").load(self.stream.address)
        return sorted(map(tuple, changes.select("epoch", "k", "x").collect()))

    def follow(self) -> list[tuple[Any, ...]]:
        """Follows the changes into files up to the newest; returns all rows of the files."""
        reader = self.spark.readStream.format("holdfast").option("changes", "true")
        changes = reader.load(self.stream.address).select("epoch", "k", "x")
        return self.written(changes, "follower")

    def written(self, frame: DataFrame, name: str) -> list[tuple[Any, ...]]:
        """Runs a stream into files; returns their rows."""
        out = str(self.stream.base / name)
        writer = frame.writeStream.format("parquet").option("path", out)
        writer = writer.option("checkpointLocation", f"{out}-checkpoint")
        writer.trigger(availableNow=True).start().awaitTermination()
        return sorted(map(tuple, self.spark.read.parquet(out).collect()))

    def orders(self, keys: list[str]) -> DataFrame:
        """Returns a static frame of keys."""
        return self.spark.createDataFrame([(key,) for key in keys], "item string")

    def looked_up(self, keys: list[str]) -> dict[str, Any]:
        """Looks keys of a static frame up."""
        options: dict[str, Any] = {"on": "item", "columns": ["x"]}
        found = hfs.lookup(self.orders(keys), self.stream.address, "table", **options)
        return {row.item: row.x for row in found.collect()}

    def looked_up_in_a_stream(self, keys: list[str]) -> dict[str, Any]:
        """Looks keys of a stream up."""
        folder = str(self.stream.base / "orders")
        self.orders(keys).write.parquet(folder)
        orders = self.spark.readStream.schema("item string").parquet(folder)
        found = hfs.lookup(orders, self.stream.address, "table", on="item", columns=["x"])
        return dict(self.written(found, "looked_up"))

    def in_a_udf(self, keys: list[str]) -> dict[str, Any]:
        """Reads the table in a pandas UDF."""
        from pyspark.sql.functions import pandas_udf

        table = hf.connect(self.stream.address)["table"]

        @pandas_udf("int")
        def value(items: pd.Series) -> pd.Series:
            return table.get_batch(items)["x"].to_pandas()

        return self.values(keys, value)

    def in_a_udf_of_batches(self, keys: list[str]) -> dict[str, Any]:
        """Reads the table in a pandas UDF that takes and returns iterators."""
        from pyspark.sql.functions import pandas_udf

        table = hf.connect(self.stream.address)["table"]

        @pandas_udf("int")
        def value(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
            for items in batches:
                yield table.get_batch(items)["x"].to_pandas()

        return self.values(keys, value)

    def values(self, keys: list[str], udf: Any) -> dict[str, Any]:
        """Returns what a UDF gives for keys."""
        found = self.orders(keys).select("item", udf("item").alias("x")).collect()
        return {row.item: row.x for row in found}
