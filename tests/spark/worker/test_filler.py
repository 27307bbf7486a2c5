"""The row that carries a task's counts."""

from __future__ import annotations

import pyarrow as pa

from holdfast.spark.worker.filler import filler


def test_a_filler_has_a_value_in_columns_of_every_type():
    nested = pa.struct([pa.field("t", pa.timestamp("us", "UTC")), pa.field("x", pa.int32())])
    types = [
        *(pa.bool_(), pa.int8(), pa.int64(), pa.float32(), pa.decimal128(20, 3), pa.date32()),
        *(pa.string(), pa.large_string(), pa.binary(), pa.timestamp("us"), pa.duration("us")),
        *(pa.list_(nested), pa.map_(pa.string(), nested), nested),
        pa.struct([pa.field("a", pa.list_(pa.string())), pa.field("b", nested)]),
        pa.month_day_nano_interval(),
    ]
    schema = pa.schema([pa.field(f"c{n}", kind, nullable=False) for n, kind in enumerate(types)])
    row = filler(schema)
    assert row.schema.equals(schema)
    assert row.num_rows == 1
    row.validate(full=True)
    assert [column.null_count for column in row.columns] == [0] * len(types)
