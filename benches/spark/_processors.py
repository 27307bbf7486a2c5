"""Count and latest value per key, as one would write them with PySpark's own state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

if TYPE_CHECKING:
    from collections.abc import Iterator

STATE = "rows long, at timestamp, newest long"
RESULT = "k long, rows long, newest long"


class CountRows(StatefulProcessor):
    """For `transformWithState`."""

    def init(self, handle: Any) -> None:
        self._state = handle.getValueState("latest", STATE)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Row]:
        stored = self._state.get()
        count, at, newest = (0, None, None) if stored is None else stored
        for row in rows:
            count += 1
            # Stored times come back with a zone, incoming ones have none.
            if at is None or row.t.replace(tzinfo=None) >= at.replace(tzinfo=None):
                at, newest = row.t, row.x
        self._state.update((count, at, newest))
        yield Row(k=key[0], rows=count, newest=newest)

    def close(self) -> None:
        pass


class CountTables(StatefulProcessor):
    """For `transformWithStateInPandas`."""

    def init(self, handle: Any) -> None:
        self._state = handle.getValueState("latest", STATE)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        stored = self._state.get()
        count, at, newest = (0, None, None) if stored is None else stored
        for table in rows:
            count, at, newest = _add(table, count, at, newest)
        self._state.update((count, at, newest))
        yield pd.DataFrame({"k": [key[0]], "rows": [count], "newest": [newest]})

    def close(self) -> None:
        pass


def count_groups(key: Any, tables: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """For `applyInPandasWithState`."""
    count, at, newest = state.get if state.exists else (0, None, None)
    for table in tables:
        count, at, newest = _add(table, count, at, newest)
    state.update((count, at, newest))
    yield pd.DataFrame({"k": [key[0]], "rows": [count], "newest": [newest]})


def _add(table: pd.DataFrame, count: int, at: Any, newest: Any) -> tuple[int, Any, Any]:
    last = table["t"].idxmax()
    time = table["t"][last].to_pydatetime()
    # Stored times come back with or without a zone, by API; all are UTC.
    if at is None or time.replace(tzinfo=None) >= at.replace(tzinfo=None):
        at, newest = time, int(table["x"][last])
    return count + len(table), at, newest
