"""The serde of bytes."""

from holdfast.serde._protocol import Serde


class _Bytes:
    def serialize(self, value: bytes, /) -> bytes:
        return value

    def deserialize(self, data: bytes, /) -> bytes:
        return data

    def __repr__(self) -> str:
        return "serde.BYTES"

    def __reduce__(self) -> str:
        return "BYTES"


BYTES: Serde[bytes] = _Bytes()
"""Keys and values are bytes: the default."""
