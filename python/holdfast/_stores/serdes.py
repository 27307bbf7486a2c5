"""The two serdes of a store, between Python values and the extension's bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from holdfast import _core
from holdfast.errors import SerializationError
from holdfast.serde import BYTES, TypedSerde
from holdfast.serde._struct import StructSerde

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.stores import StoreBuilder

K = TypeVar("K")
V = TypeVar("V")


class Serdes(Generic[K, V]):
    """A store's name and its two serdes, with errors that name them.

    Scalar methods call `to_…` and `from_…`. Batch methods pass each input column through `encode_…`
    and each result through `decode_…`. With a `TypedSerde` columns are typed. With any other serde
    they are bytes, which are not changed.
    """

    def __init__(self, builder: StoreBuilder) -> None:
        """Takes the serdes of the store's builder."""
        self.store = builder.name
        self._key: Any = builder.key
        self._value: Any = builder.value
        # Bytes are the most frequent type and skip the serde, whose calls cost more than a put.
        self._keys_are_bytes, self._values_are_bytes = builder.key is BYTES, builder.value is BYTES
        self.are_bytes = self._keys_are_bytes and self._values_are_bytes
        self.keys_are_structs = isinstance(builder.key, StructSerde)
        self._key_core = builder.key.core if isinstance(builder.key, TypedSerde) else None
        self.value_core: _core.Serde | None = None
        self._serialize_value: Callable[[Any], Any] = self._value.serialize
        self._deserialize_value: Callable[[bytes], Any] = self._value.deserialize
        if isinstance(builder.value, TypedSerde):
            self.value_core = builder.value.core
            self._serialize_value, self._deserialize_value = (
                builder.value.serialize_value,
                builder.value.deserialize_value,
            )

    def to_key(self, key: K) -> bytes:
        """Returns the bytes of a key."""
        if self._keys_are_bytes and isinstance(key, bytes):
            return key
        if key is None:
            raise ValueError(f"store {self.store}: the key is None; a key must have a value")
        return self._serialize(self._key.serialize, self._key, key, "key")

    def to_bound(self, key: K | None) -> bytes | None:
        """Returns the bytes of a range's end; None stays None."""
        return None if key is None else self.to_key(key)

    def to_prefix(self, prefix: Any) -> bytes:
        """Returns the first bytes of the keys with a prefix.

        The prefix of a struct is its first fields.
        """
        if prefix is None:
            raise ValueError(
                f"store {self.store}: the prefix is None; give at least one field or byte"
            )
        serialize = self._key.serialize if self._key_core is None else self._key.serialize_prefix
        return self._serialize(serialize, self._key, prefix, "prefix")

    def to_value(self, value: V | None) -> bytes | None:
        """Returns the bytes of a value; None stays None."""
        if self._values_are_bytes and isinstance(value, bytes):
            return value
        return (
            None
            if value is None
            else self._serialize(self._serialize_value, self._value, value, "value")
        )

    @property
    def values_are_bytes(self) -> bool:
        """Whether values are returned as they are stored."""
        return self._values_are_bytes

    def from_key(self, data: bytes) -> K:
        """Returns the key of stored bytes."""
        if self._keys_are_bytes:
            return cast("K", data)
        key: K = self._deserialize(self._key.deserialize, self._key, data, "key", data)
        return key

    def from_value(self, data: bytes, key: bytes | None = None) -> V:
        """Returns the value of stored bytes; errors show the `key`."""
        if self._values_are_bytes:
            return cast("V", data)
        value: V = self._deserialize(self._deserialize_value, self._value, data, "value", key)
        return value

    def encode_keys(self, keys: Any) -> Any:
        """Returns a column of keys as the extension takes it."""
        return (
            keys
            if self._key_core is None
            else self._key.encode(keys, as_key=True, store=self.store)
        )

    def encode_values(self, values: Any) -> Any:
        """Returns a column of values as the extension takes it."""
        return (
            values
            if self.value_core is None
            else self._value.encode(values, as_key=False, store=self.store)
        )

    def decode_values(self, values: _core.ArrowArray, keys: Any = None) -> _core.ArrowArray:
        """Returns the extension's column of values as a typed column.

        Errors show the row's key from `keys`, which is a result of `encode_keys`.
        """
        return (
            values
            if self.value_core is None
            else self.value_core.decode(values, False, self.store, keys)
        )

    def decode_batch(self, batch: _core.ArrowBatch, keys: Any = None) -> _core.ArrowBatch:
        """Returns the extension's batch with typed columns `key` and `value`.

        `keys` is as in `decode_values`.
        """
        if self._key_core is None and self.value_core is None:
            return batch
        return _core.decode_batch(batch, self._key_core, self.value_core, self.store, keys)

    def decode_reader(self, reader: _core.ArrowReader) -> _core.ArrowReader:
        """Returns the extension's reader with typed columns `key` and `value`."""
        if self._key_core is None and self.value_core is None:
            return reader
        return _core.decode_reader(reader, self._key_core, self.value_core, self.store)

    def _serialize(
        self, serialize: Callable[[Any], Any], serde: Any, item: Any, what: str
    ) -> bytes:
        try:
            data = serialize(item)
        except Exception as error:
            if isinstance(serde, TypedSerde) and isinstance(error, TypeError):
                raise TypeError(f"store {self.store}: the {what} {error}") from error
            words = (
                f"store {self.store}: {serde!r} cannot serialize the {what} {item!r:.80}: {error}"
            )
            raise SerializationError(words) from error
        if not isinstance(data, bytes):
            raise TypeError(
                f"store {self.store}: the {what} is a {type(data).__name__} ({data!r:.80}); "
                f"wanted: bytes, or give the store a serde ({what}=...)"
            )
        return data

    def _deserialize(
        self,
        deserialize: Callable[[bytes], Any],
        serde: Any,
        data: bytes,
        what: str,
        key: bytes | None,
    ) -> Any:
        try:
            return deserialize(data)
        except Exception as error:
            of = "" if key is None or what == "key" else f" of key {key[:32]!r}"
            words = (
                f"store {self.store}: {serde!r} cannot deserialize the stored {what} "
                f"{data[:32]!r}{of}: {error}"
            )
            raise SerializationError(words) from error
