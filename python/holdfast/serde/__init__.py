"""Serdes: the conversions between typed keys and values and their bytes.

A store without serdes takes and returns bytes. With serdes, the scalar methods take and return
Python values, and the batch methods take and return typed Arrow columns:

>>> import holdfast as hf
>>> import pyarrow as pa
>>> import tempfile
>>> rate = hf.serde.struct(pa.schema([("rate", pa.float64()), ("source", pa.string())]))
>>> rates = hf.stores.key_value("rates", key=hf.serde.STRING, value=rate)
>>> db = hf.open(tempfile.mkdtemp() + "/db", [rates])
>>> db["rates"].put("EUR", {"rate": 1.0921, "source": "ECB"})
>>> db["rates"].get("EUR")
Row(rate=1.0921, source='ECB')
>>> pa.array(db["rates"].get_batch(pa.array(["EUR", "XXX"]))).field("rate")[0].as_py()
1.0921
>>> db.close()

Keys are ordered as Spark SQL orders their values. `docs/serdes.md` has the bytes, the values that
each serde takes, and how a struct's columns may change.

Any object with the two methods of `Serde` is a serde, too. The scalar methods call it, and raise
its errors as `SerializationError`; the batch methods of such a store take and return its bytes:

>>> class Text:
...     def serialize(self, value): return value.encode()
...     def deserialize(self, data): return data.decode()
>>> names = hf.stores.key_value("names", key=Text(), value=Text())
>>> with hf.open(tempfile.mkdtemp() + "/db", [names]) as db:
...     db["names"].put("EUR", "euro")
...     db["names"].get("EUR"), pa.array(db["names"].get_batch(pa.array([b"EUR"]))).to_pylist()
('euro', [b'euro'])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.serde._bytes import BYTES
from holdfast.serde._json import JsonSerde
from holdfast.serde._protocol import Serde
from holdfast.serde._struct import Row, StructSerde
from holdfast.serde._timestamp import TimestampSerde
from holdfast.serde._typed import NamedSerde, TypedSerde

if TYPE_CHECKING:
    from datetime import datetime

__all__ = [
    "BOOL",
    "BYTES",
    "FLOAT64",
    "INT64",
    "JSON",
    "STRING",
    "TIMESTAMP",
    "Row",
    "Serde",
    "TypedSerde",
    "struct",
]

STRING: TypedSerde[str] = NamedSerde("string")
"""Text, as UTF-8. Batch columns are strings."""
INT64: TypedSerde[int] = NamedSerde("int64")
"""Integers of 64 bits."""
FLOAT64: TypedSerde[float] = NamedSerde("float64")
"""Floats. As keys -0.0 equals 0.0, and all NaNs are one value, which is last in order."""
BOOL: TypedSerde[bool] = NamedSerde("bool")
"""Booleans, False first."""
TIMESTAMP: TypedSerde[datetime] = TimestampSerde("timestamp")
"""Timestamps in microseconds: aware datetimes or epoch microseconds in, UTC datetimes out.

Batch columns come in as timestamps of any unit and zone (without a zone: UTC) or int64, and go out
as `timestamp[us, UTC]`.
"""
JSON: TypedSerde[Any] = JsonSerde("json")
"""Values that `json.dumps` takes, as JSON text. Batch columns are strings of JSON texts.

The text is compact and keeps the order of a dict's keys, so two equal dicts may have different
bytes: for keys use `struct`. NaN and infinity are not JSON and are refused.
"""


def struct(schema: Any) -> TypedSerde[Row]:
    """Structs with the fields of a pyarrow schema: tuples or dicts in, `Row`s out.

    A tuple that names its fields, such as a `NamedTuple` or a `pyspark.sql.Row`, is taken by name.

    In batches they are a struct column. A value's columns may be removed, and nullable columns may
    be added: in rows written before, new columns are null and removed columns are skipped. A key's
    fields are fixed. Keys are ordered by the first field, then by the second, and so on.

    Raises `TypeError` for a field whose type cannot be stored or returned, `ValueError` for two
    fields of one name, `ImportError` without pyarrow.
    """
    return StructSerde(schema)
