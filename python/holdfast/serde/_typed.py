"""The serdes of this package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast import _core

if TYPE_CHECKING:
    from typing import Self

T = TypeVar("T")


class TypedSerde(Generic[T]):
    """A serde of this package: Python values in the scalar methods, a typed Arrow column in the
    batch methods.

    `serialize` and `deserialize` speak a key's bytes, which order as the values do. A value's may
    be others: `_value`. A struct with lists or maps cannot be a key, so that all four speak a
    value's.
    """

    def __init__(self, core: _core.Serde) -> None:
        """Made by this package."""
        self.core = core

    def serialize(self, value: T, /) -> bytes:
        """The bytes of a key.

        Raises `TypeError` for another type; where the value does not fit `OverflowError` or
        `ValueError`, or `SerializationError` of a struct's field.
        """
        return self.core.serialize(value, True)

    def deserialize(self, data: bytes, /) -> T:
        """The key of such bytes. Raises `SerializationError` if they are none."""
        value: T = self.core.deserialize(data)
        return value

    def serialize_value(self, value: T, /) -> bytes:
        """The bytes of a value, as stores keep it. Raises as `serialize` does."""
        return self.core.serialize(value, False)

    def deserialize_value(self, data: bytes, /) -> T:
        """The value of such bytes. Raises `SerializationError` if they are none."""
        return self.deserialize(data)

    def serialize_prefix(self, prefix: Any, /) -> bytes:
        """The bytes with which keys begin that begin with `prefix`: a string's start, a struct's
        first fields.

        Raises as `serialize` does.
        """
        return self.serialize(prefix)

    def encode(self, column: Any, *, as_key: bool, store: str | None = None) -> _core.ArrowArray:
        """A typed column as bytes, a row a row; errors name the store.

        Raises `TypeError` for a column of another type, `ValueError` or `SerializationError` for a
        row that does not fit.
        """
        return self.core.encode(column, as_key, store)

    def check_key(self) -> None:
        """Raises `TypeError` naming the field that cannot be part of a key."""
        self.core.check_key()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypedSerde) and self.core.descriptor() == other.core.descriptor()

    def __hash__(self) -> int:
        return hash(self.core.descriptor())


class NamedSerde(TypedSerde[T]):
    """A serde without settings, known by its name."""

    def __init__(self, name: str) -> None:
        """Made by this package."""
        super().__init__(_core.Serde.named(name))
        self._name = name

    def __repr__(self) -> str:
        return f"serde.{self._name.upper()}"

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self._name,)
