"""A query whose state tests read, and its readers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streams import KEYS

import holdfast as hf
import holdfast.spark as hfs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from streams import Stream

Connect = Callable[..., hf.StateReader]
"""A function with the arguments of `connect`."""


def connect(stream: Stream, **options: Any) -> hf.StateReader:
    """Returns a reader of the stream's root."""
    if "storage_options" in stream.options:
        options["storage_options"] = stream.options["storage_options"]
    return hf.connect(stream.address, **options)


def stored(stream: Stream, **options: Any) -> DataFrame:
    """Stores the left rows as the table `table`."""
    asked = {"by": "k", "state": stream.state(), "name": "table", **options}
    return hfs.materialize(stream.source("left"), **asked)


def counted_windows(stream: Stream) -> DataFrame:
    """Counts the left rows of each key in windows of ten seconds, as the table `windows`."""
    return hfs.aggregate(
        stream.source("left"),
        by="k",
        on="t",
        window=hfs.window("10 seconds"),
        aggs={"n": "count"},
        retention="1 hour",
        name="windows",
        state=stream.state(),
    )


def same_value(stream: Stream, value: int) -> None:
    """Writes a micro-batch that sets all keys to one value."""
    stream.batch(left=[(key, value, value) for key in KEYS])
