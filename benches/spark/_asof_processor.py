"""The as-of join as one would write it on PySpark's `transformWithState` (Row)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

if TYPE_CHECKING:
    from collections.abc import Iterator


class AsofProcessor(StatefulProcessor):
    """Stores only the newest rate of a key, which makes it faster: no history, no late rows."""

    def init(self, handle: Any) -> None:
        self._newest = handle.getValueState("newest", "since timestamp, v double")

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Row]:
        newest = self._newest.get()
        changed = False
        for row in sorted(rows, key=lambda row: (row.t, row.x is not None)):
            if row.x is None:
                newest, changed = (row.t, row.v), True
            else:
                since, v = (None, None) if newest is None else newest
                yield Row(k=row.k, t=row.t, x=row.x, note=row.note, v=v, since=since)
        if changed:
            self._newest.update(newest)

    def close(self) -> None:
        pass
