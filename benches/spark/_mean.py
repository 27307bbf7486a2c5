"""A user-defined mean. It is in its own module, because Python workers import it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


class Mean:
    """The mean of `x`, with pyarrow's kernels."""

    state_schema = "total bigint, rows bigint"
    result_type = "double"

    def update(
        self, states: pa.RecordBatch, groups: pa.Array, batch: pa.RecordBatch
    ) -> pa.RecordBatch:
        rows = (
            pa.table({"g": groups, "x": batch["x"]})
            .group_by("g")
            .aggregate([("x", "sum"), ("x", "count")])
            .sort_by("g")
        )
        new = {"total": rows["x_sum"].combine_chunks(), "rows": rows["x_count"].combine_chunks()}
        return self.merge(states, pa.record_batch(new))

    def merge(self, states: pa.RecordBatch, others: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch(
            {
                name: pc.add(pc.fill_null(states[name], 0), others[name])
                for name in ("total", "rows")
            }
        )

    def result(self, states: pa.RecordBatch) -> pa.Array:
        return pc.divide(pc.cast(states["total"], "double"), states["rows"])
