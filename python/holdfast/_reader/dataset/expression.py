"""The tree of a pyarrow expression.

pyarrow has no access to the parts of an expression. But it pickles an expression as an Arrow IPC
file: the columns are the literals, and the schema's metadata is the tree in prefix order. A key
occurs in the metadata many times, but only once in pyarrow's mappings. So the metadata is read
through the C data interface.
"""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast._reader.arrow import arrow

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class Field:
    """A column, or a field nested in a column."""

    name: str
    is_nested: bool = False


@dataclass(frozen=True)
class Literal:
    """A value."""

    value: "pyarrow.Scalar"


@dataclass(frozen=True)
class Call:
    """A call of one of Arrow's compute functions."""

    function: str
    arguments: "tuple[Node, ...]"
    options: "pyarrow.StructScalar | None"


Node = Field | Literal | Call


def tree(expression: Any) -> Node | None:
    """Returns the tree of a `pyarrow.dataset.Expression`; None if it cannot be read."""
    pa = arrow()
    try:
        _, (buffer,) = expression.__reduce__()
        with pa.ipc.open_file(buffer) as file:
            literals = file.get_batch(0).columns
            entries = iter(_entries(file.schema))
        node = _node(next(entries), entries, literals)
    except (pa.ArrowException, LookupError, TypeError, ValueError, StopIteration, RecursionError):
        # For example a column given by its index, or the format of another pyarrow.
        return None
    return node if next(entries, None) is None else None


def columns(node: Node) -> set[str]:
    """Returns the names of the columns that an expression uses."""
    found: set[str] = set()
    nodes = [node]
    while nodes:
        part = nodes.pop()
        if isinstance(part, Call):
            nodes.extend(part.arguments)
        elif isinstance(part, Field):
            found.add(part.name)
    return found


def _node(
    first: tuple[str, str], rest: Iterator[tuple[str, str]], literals: "list[pyarrow.Array]"
) -> Node:
    kind, text = first
    if kind == "field_ref":
        return Field(text)
    if kind == "nested_field_ref":
        path = [_node(next(rest), rest, literals) for _ in range(int(text))]
        return Field(min(columns(path[0])), is_nested=True)
    if kind == "literal":
        return Literal(literals[int(text)][0])
    if kind != "call":
        raise ValueError(f"{kind!r} begins no expression")
    arguments: list[Node] = []
    options = None
    for entry in rest:
        inner, value = entry
        if inner == "end":
            return Call(text, tuple(arguments), options)
        if inner == "options":
            options = literals[int(value)][0]
        else:
            arguments.append(_node(entry, rest, literals))
    raise ValueError(f"the call of {text!r} has no end")


class _CSchema(ctypes.Structure):
    """The first members of `struct ArrowSchema` of the C data interface."""

    _fields_ = (
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_void_p),
    )


def _entries(schema: "pyarrow.Schema") -> list[tuple[str, str]]:
    """Returns the schema's metadata in its order, with keys that occur more than once."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    capsule = schema.__arrow_c_schema__()
    place = _CSchema.from_address(pointer(capsule, b"arrow_schema")).metadata
    if place is None:
        raise ValueError("the schema has no metadata")
    found = []

    def number() -> int:
        nonlocal place
        value = ctypes.c_int32.from_address(place).value
        place += 4
        return value

    def text() -> str:
        nonlocal place
        size = number()
        value = ctypes.string_at(place, size).decode()
        place += size
        return value

    for _ in range(number()):
        key = text()
        found.append((key, text()))
    return found
