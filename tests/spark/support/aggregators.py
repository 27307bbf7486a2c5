"""User-defined aggregators for tests, in a module because Python workers import them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


class SumAndList:
    """The sum of `x`, and every time with its value: a state with a list and a struct in it."""

    state_schema = "total bigint, seen array<struct<t: timestamp, x: bigint>>"
    result_type = "struct<total: bigint, xs: array<bigint>>"

    def update(
        self, states: pa.RecordBatch, groups: pa.Array, batch: pa.RecordBatch
    ) -> pa.RecordBatch:
        assert 0 < batch.num_rows <= 10_000
        assert batch.schema.names == ["k", "t", "x", "y"]
        found = states.to_pylist()
        for group, row in zip(groups.to_pylist(), batch.to_pylist(), strict=True):
            state = found[group]
            state["total"] = (state["total"] or 0) + (row["x"] or 0)
            state["seen"] = [*(state["seen"] or []), {"t": row["t"], "x": row["x"]}]
        return pa.RecordBatch.from_pylist(found, schema=states.schema)

    def merge(self, states: pa.RecordBatch, others: pa.RecordBatch) -> pa.RecordBatch:
        merged = []
        for state, other in zip(states.to_pylist(), others.to_pylist(), strict=True):
            assert state["seen"]
            assert other["seen"]
            assert state["seen"][-1]["t"] <= other["seen"][0]["t"], "the others are the later ones"
            merged.append(
                {"total": state["total"] + other["total"], "seen": state["seen"] + other["seen"]}
            )
        return pa.RecordBatch.from_pylist(merged, schema=states.schema)

    def result(self, states: pa.RecordBatch) -> pa.Array:
        rows = [
            {
                "total": state["total"],
                "xs": [one["x"] for one in sorted(state["seen"], key=lambda one: one["t"])],
            }
            for state in states.to_pylist()
        ]
        return pa.array(rows, pa.struct([("total", pa.int64()), ("xs", pa.list_(pa.int64()))]))


class Mean:
    """The mean of `y`, with pyarrow's kernels."""

    state_schema = "total double, rows bigint"
    result_type = "double"

    def update(
        self, states: pa.RecordBatch, groups: pa.Array, batch: pa.RecordBatch
    ) -> pa.RecordBatch:
        rows = (
            pa.table({"g": groups, "y": batch["y"]})
            .group_by("g")
            .aggregate([("y", "sum"), ("y", "count")])
            .sort_by("g")
        )
        new = {"total": rows["y_sum"].combine_chunks(), "rows": rows["y_count"].combine_chunks()}
        return self.merge(states, pa.record_batch(new))

    def merge(self, states: pa.RecordBatch, others: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch(
            {
                name: pc.add(pc.fill_null(states[name], 0), others[name])
                for name in ("total", "rows")
            }
        )

    def result(self, states: pa.RecordBatch) -> pa.Array:
        return pc.divide(states["total"], states["rows"])


class Wrong(Mean):
    """A mean of which one method returns `given` instead."""

    def __init__(self, method: str, given: Any) -> None:
        self.method = method
        self.given = given

    def update(
        self, states: pa.RecordBatch, groups: pa.Array, batch: pa.RecordBatch
    ) -> pa.RecordBatch:
        return self.given if self.method == "update" else super().update(states, groups, batch)

    def result(self, states: pa.RecordBatch) -> pa.Array:
        return self.given if self.method == "result" else super().result(states)
