"""A query whose state tests read, and its readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streams import KEYS

import holdfast as hf
import holdfast.spark as hfs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from streams import Stream


def connect(stream: Stream, **options: Any) -> hf.StateReader:
    """Returns a reader of the stream's root."""
    if "storage_options" in stream.options:
        options["storage_options"] = stream.options["storage_options"]
    return hf.connect(stream.address, **options)


def stored(stream: Stream, **options: Any) -> DataFrame:
    """Stores the left rows as the table `table`."""
    asked = {"by": "k", "state": stream.state(), "name": "table", **options}
    return hfs.materialize(stream.source("left"), **asked)


def same_value(stream: Stream, value: int) -> None:
    """Writes a micro-batch that sets all keys to one value."""
    stream.batch(left=[(key, value, value) for key in KEYS])
