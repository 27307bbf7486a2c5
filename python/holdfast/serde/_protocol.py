"""What a serde is."""

from typing import Protocol, TypeVar

T = TypeVar("T")


class Serde(Protocol[T]):
    """Turns values into bytes and back. As a key's serde it decides the order of scans: unsigned
    bytes.
    """

    def serialize(self, value: T, /) -> bytes:
        """The bytes of a value."""
        ...

    def deserialize(self, data: bytes, /) -> T:
        """The value of bytes that `serialize` made."""
        ...
