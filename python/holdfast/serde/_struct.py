"""The serde of structs: plain fields in the extension, nested ones through pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast import _core
from holdfast.serde._dump import does_not_fit, dumper
from holdfast.serde._load import loader, without_dictionaries
from holdfast.serde._row import Row, named_fields, row_class
from holdfast.serde._typed import TypedSerde
from holdfast.serde._unsliced import unsliced

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    import pyarrow as pa

__all__ = ["Row", "StructSerde"]


class StructSerde(TypedSerde[Row]):
    """Structs with the fields of a schema; a scalar has the same bytes as a row of a column."""

    def __init__(self, schema: Any) -> None:
        """Called by `serde.struct`."""
        try:
            import pyarrow as pa
        except ImportError as error:
            raise ImportError("serde.struct needs pyarrow: pip install pyarrow") from error
        self._pa = pa
        self._schema: pa.Schema = pa.schema(schema)
        super().__init__(_core.Serde.of_struct(self._schema))
        declared = pa.struct(list(self._schema))
        self._dump, self._load = dumper(declared, ""), loader(declared, "")
        # pyarrow makes dictionaries of few types from Python values.
        self._type = without_dictionaries(declared)
        self._class = row_class(tuple(field.name for field in self._schema))
        # The tuples whose fields are those of this struct in its order.
        self._positional = (tuple, self._class)
        self._is_nested = any(pa.types.is_nested(field.type) for field in self._schema)
        try:
            self.core.check_key()
        except TypeError:
            self._is_key = False
        else:
            self._is_key = True

    def serialize(self, value: Row | tuple[Any, ...] | Mapping[str, Any], /) -> bytes:
        """Returns the bytes of a key, from a tuple or dict of all fields."""
        return self._bytes(value, self._is_key)

    def deserialize(self, data: bytes, /) -> Row:
        """Returns the row of a key's bytes."""
        return self._row(data, self._is_key)

    def serialize_value(self, value: Row | tuple[Any, ...] | Mapping[str, Any], /) -> bytes:
        """Returns the bytes of a value, from a tuple or dict of all fields."""
        return self._bytes(value, False)

    def deserialize_value(self, data: bytes, /) -> Row:
        """Returns the row of a value's bytes, even if they were written with another schema.

        Raises `SerializationError` if the row does not fit this schema.
        """
        return self._row(data, False)

    def serialize_prefix(self, prefix: Row | tuple[Any, ...] | Mapping[str, Any], /) -> bytes:
        """Returns the first bytes of the keys whose first fields are those of `prefix`."""
        type_ = self._pa.struct(list(self._type)[: len(prefix)])
        return self.core.serialize_prefix(self._column(dumper(type_, "")(prefix), type_))

    def encode(self, column: Any, *, as_key: bool, store: str | None = None) -> _core.ArrowArray:
        """Returns a column of structs as bytes, row by row; errors name the store."""
        if self._is_nested and (
            hasattr(column, "__arrow_c_array__") or hasattr(column, "__arrow_c_stream__")
        ):
            column = unsliced(column)
        return super().encode(column, as_key=as_key, store=store)

    def _bytes(self, value: Any, as_key: bool) -> bytes:
        if type(value) not in self._positional and isinstance(value, tuple):
            value = named_fields(value) or value
        data = self.core.serialize_fields(value, as_key)
        return (
            self.core.serialize_row(self._column(self._dump(value), self._type), as_key)
            if data is None
            else data
        )

    def _column(self, fields: dict[str, Any], type_: pa.StructType) -> pa.Array:
        try:
            return self._pa.array([fields], type_)
        except (self._pa.ArrowException, OverflowError, UnicodeError) as error:
            raise self._named(fields, type_, error) from error

    def _named(self, fields: dict[str, Any], type_: pa.StructType, error: Exception) -> Exception:
        """Returns the error of the first field that pyarrow refuses.

        The value's type was checked before, so the error is that the value does not fit.
        """
        for field in type_:
            try:
                self._pa.array([fields[field.name]], field.type)
            except (self._pa.ArrowException, OverflowError, UnicodeError) as inner:
                return does_not_fit(field.name, fields[field.name], field.type, inner)
        return error

    def _row(self, data: bytes, as_key: bool) -> Row:
        fields = self.core.deserialize_fields(data, as_key)
        if fields is not None:
            return self._class(fields)
        row: Row = self._load(
            self._pa.array(self.core.deserialize_row(data, as_key)).to_pylist()[0]
        )
        return row

    def __repr__(self) -> str:
        return f"serde.struct({', '.join(f'{field.name}: {field.type}' for field in self._schema)})"

    def __reduce__(self) -> tuple[type[Self], tuple[Any]]:
        return type(self), (self._schema,)
