"""A query over a sequence, on the shared session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from sequence import DDL, Sequence
from streams import Root, joined_by_sign

import holdfast.spark as hfs


class SequenceQuery:
    """A query over a sequence: the join, and the totals of its rows."""

    def __init__(self, spark: Any, base: Path, **of_sequence: int) -> None:
        self.spark, self.base, self.place = spark, base, Root(base / "state")
        self.sequence = Sequence(1, **{"rows": 60, "keys": 8, **of_sequence})
        self.joined: dict[int, list[Any]] = {}
        self.totals: dict[int, list[Any]] = {}
        self.settings: dict[str, Any] = {}

    @property
    def root(self) -> Path:
        """The root's files."""
        return self.place.files

    def arrive(self, batches: int) -> None:
        """Writes the input of this many more micro-batches."""
        base = self.base / "in"
        for _ in range(batches):
            self.sequence.write(base)

    def start(self, each: Callable[[DataFrame, int], None]) -> Any:
        rows = (
            self.spark.readStream.schema(DDL)
            .option("maxFilesPerTrigger", 1)
            .parquet(str(self.base / "in"))
        )
        writer = rows.writeStream.foreachBatch(each).option(
            "checkpointLocation", self.state().checkpoint_location
        )
        return writer.trigger(processingTime="0 seconds").start()

    def run(self, each: Callable[[DataFrame, int, DataFrame], None] | None = None) -> None:
        """Processes all input; `each` gets the join, too."""
        query = self.start(self.collecting(each))
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    def collecting(
        self, each: Callable[[DataFrame, int, DataFrame], None] | None = None
    ) -> Callable[[DataFrame, int], Any]:
        state = self.state()

        def fn(frame: DataFrame, batch: int) -> None:
            joined = joined_by_sign(frame, state)
            if each is not None:
                each(frame, batch, joined)
                return
            totals = hfs.aggregate(
                joined,
                by="k",
                aggs={"n": "count", "total": ("sum", "v")},
                state=state,
                name="totals",
            )
            self.joined[batch] = [tuple(row) for row in joined.select("x", "v").collect()]
            self.totals[batch] = [tuple(row) for row in totals.collect()]

        return hfs.foreach_batch(fn)

    def state(self) -> hfs.State:
        return self.place.state(partitions=2, **self.settings)

    def keep(self, batch: int, rows: list[Any]) -> None:
        """Records the rows of a micro-batch's join that `each` found."""
        self.joined[batch] = [(row["x"], row["v"]) for row in rows]

    def check(self, *, totals: bool = True) -> None:
        """Compares every micro-batch so far with the sequence."""
        found = self.totals
        if not totals:
            found = {
                n: [(key, *group) for key, group in groups.items()]
                for n, groups in enumerate(self.sequence.totals)
            }
        assert self.sequence.differences(self.joined, found) == []
