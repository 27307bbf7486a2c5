"""A query that starts again with other code of its processor."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from processors import OUT, Columns
from streams import Stream

import holdfast.spark as hfs


@pytest.mark.survive
def test_new_processor_code_may_add_a_value_column(stream: Stream):
    stream.batch(left=[(key, 1, n) for n, key in enumerate("abcdefgh")])

    def run(**columns: pa.DataType) -> dict[int, list[Any]]:
        rows = stream.source("left")
        return stream.run(
            hfs.process(
                rows,
                Columns(**columns),
                by="k",
                on="t",
                state=stream.state(),
                schema=OUT,
                name="columns",
            )
        )

    run(n=pa.int64())
    stream.batch(left=[(key, 2, n) for n, key in enumerate("abcdefgh")])
    stream.batch(left=[(key, 3, n) for n, key in enumerate("abcdefgh")])
    # The first row finds the new column empty, the second finds the first one's value.
    given = run(n=pa.int64(), m=pa.int64())
    assert given == {
        0: [(key, 1) for key in "abcdefgh"],
        1: [(key, 2) for key in "abcdefgh"],
        2: [(key, 103) for key in "abcdefgh"],
    }
