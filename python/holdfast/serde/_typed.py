"""The serdes of this package, which also convert typed Arrow columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast import _core

if TYPE_CHECKING:
    from typing import Self

T = TypeVar("T")


class TypedSerde(Generic[T]):
    """A serde of this package: Python values in scalar methods, Arrow columns in batch methods.

    `serialize` and `deserialize` convert a key's bytes, which have the order of the values.
    `serialize_value` and `deserialize_value` convert a value's bytes, which may differ from those
    of a key. A struct with lists or maps cannot be a key, so all four convert a value's bytes.
    """

    def __init__(self, core: _core.Serde) -> None:
        """Called by this package."""
        self.core = core

    def serialize(self, value: T, /) -> bytes:
        """Returns the bytes of a key.

        Raises `TypeError` for another type. If the value does not fit, raises `OverflowError` or
        `ValueError`, for a struct's field `SerializationError`.
        """
        return self.core.serialize(value, True)

    def deserialize(self, data: bytes, /) -> T:
        """Returns the key of bytes from `serialize`; `SerializationError` for other bytes."""
        value: T = self.core.deserialize(data)
        return value

    def serialize_value(self, value: T, /) -> bytes:
        """Returns the bytes of a value as stores hold them. Raises as `serialize` does."""
        return self.core.serialize(value, False)

    def deserialize_value(self, data: bytes, /) -> T:
        """Returns the value of bytes from `serialize_value`.

        Raises `SerializationError` for other bytes.
        """
        return self.deserialize(data)

    def serialize_prefix(self, prefix: Any, /) -> bytes:
        """Returns the first bytes of the keys that begin with `prefix`.

        A prefix is the beginning of a string, or the first fields of a struct. Raises as
        `serialize` does.
        """
        return self.serialize(prefix)

    def encode(self, column: Any, *, as_key: bool, store: str | None = None) -> _core.ArrowArray:
        """Returns a typed column as bytes, row by row; errors name the store.

        Raises `TypeError` for a column of another type, `ValueError` or `SerializationError` for a
        row that does not fit.
        """
        return self.core.encode(column, as_key, store)

    def check_key(self) -> None:
        """Raises `TypeError`, which names the field, if the type cannot be a key."""
        self.core.check_key()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypedSerde) and self.core.descriptor() == other.core.descriptor()

    def __hash__(self) -> int:
        return hash(self.core.descriptor())


class NamedSerde(TypedSerde[T]):
    """A serde without settings, identified by its name."""

    def __init__(self, name: str) -> None:
        """Called by this package."""
        super().__init__(_core.Serde.named(name))
        self._name = name

    def __repr__(self) -> str:
        return f"serde.{self._name.upper()}"

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self._name,)
