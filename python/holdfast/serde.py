"""Serdes: how typed keys and values become bytes and come back.

A store without them speaks bytes. Anything with the two methods of `Serde` will do:

>>> import holdfast as hf
>>> class Text:
...     def serialize(self, value): return value.encode()
...     def deserialize(self, data): return data.decode()
>>> import tempfile
>>> with hf.open_task(tempfile.mkdtemp() + "/db", [hf.stores.key_value("names", key=Text(), value=Text())]) as task:
...     task["names"].put("EUR", "euro")
...     task["names"].get("EUR")
'euro'

Scalar methods go through the serdes. Batch methods are the fast path and speak the serialized bytes.
"""

from typing import Protocol, TypeVar

__all__ = ["BYTES", "Serde"]

T = TypeVar("T")


class Serde(Protocol[T]):
    """Turns values into bytes and back. As a key's serde it decides the order of scans: unsigned bytes."""

    def serialize(self, value: T, /) -> bytes:
        """The bytes of a value."""
        ...

    def deserialize(self, data: bytes, /) -> T:
        """The value of bytes that `serialize` made."""
        ...


class _Bytes:
    """Bytes as they are."""

    def serialize(self, value: bytes, /) -> bytes:
        return value

    def deserialize(self, data: bytes, /) -> bytes:
        return data

    def __repr__(self) -> str:
        return "serde.BYTES"


BYTES: Serde[bytes] = _Bytes()
"""Keys and values are bytes: the default."""
