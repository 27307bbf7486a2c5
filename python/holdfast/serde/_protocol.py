"""The interface of a serde."""

from typing import Protocol, TypeVar

T = TypeVar("T")


class Serde(Protocol[T]):
    """Converts values to bytes and back.

    Scans return keys in the order of their bytes, compared as unsigned bytes.
    """

    def serialize(self, value: T, /) -> bytes:
        """Returns the bytes of a value."""
        ...

    def deserialize(self, data: bytes, /) -> T:
        """Returns the value of bytes that `serialize` returned."""
        ...
