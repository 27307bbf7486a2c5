"""The versions of a versioned table that a delete has ended."""

import importlib
import math
from typing import TYPE_CHECKING, Any, Final

from holdfast._reader.arrow import arrow
from holdfast._reader.state_table import StateTable

if TYPE_CHECKING:
    import pyarrow


class EndedVersions:
    """Finds deletes in a table's versions, which come by key, oldest first.

    A version that ends when the key's next one begins was replaced. One that ends otherwise was
    deleted at that time.
    """

    def __init__(self, table: StateTable) -> None:
        names = table.schema.names
        self._key: Final = table.key
        # A versioned table has its two times after the key.
        self._begin: Final = names[len(table.key)]
        self._end: Final = names[len(table.key) + 1]
        self._schema: Final = table.schema
        self._previous: pyarrow.RecordBatch | None = None

    def before(self, versions: "pyarrow.RecordBatch") -> "pyarrow.RecordBatch":
        """Returns the deletes that earlier calls have not returned.

        The last version is excluded: only the next version shows whether it was deleted.
        """
        known = versions
        if self._previous is not None:
            both = arrow().Table.from_batches([self._previous, versions]).combine_chunks()
            known = both.to_batches()[0]
        self._previous = versions.slice(versions.num_rows - 1)
        former, latter = known.slice(0, known.num_rows - 1), known.slice(1)
        compute = _compute()
        replaced = compute.equal(former.column(self._end), latter.column(self._begin))
        replaced = compute.fill_null(replaced, fill_value=False)
        for name in self._key:
            replaced = compute.and_(replaced, _same(former.column(name), latter.column(name)))
        ended = compute.is_valid(former.column(self._end))
        return self._deletes(former.filter(compute.and_not(ended, replaced)))

    def last(self) -> "pyarrow.RecordBatch":
        """Returns the delete of the last version, if it has ended."""
        if self._previous is None:
            return self._deletes(arrow().RecordBatch.from_pylist([], schema=self._schema))
        return self._deletes(
            self._previous.filter(_compute().is_valid(self._previous.column(self._end)))
        )

    def _deletes(self, ended: "pyarrow.RecordBatch") -> "pyarrow.RecordBatch":
        """Returns the keys of versions, each with the time at which it was deleted."""
        columns = [*(ended.column(name) for name in self._key), ended.column(self._end)]
        return arrow().RecordBatch.from_arrays(columns, names=[*self._key, self._begin])


def _same(one: "pyarrow.Array", other: "pyarrow.Array") -> "pyarrow.Array":
    """Returns, for each row, whether two key columns are equal.

    Null equals null, and NaN equals NaN.
    """
    compute, types = _compute(), arrow().types
    if types.is_nested(one.type):
        # pyarrow has no comparison of nested values.
        pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
        return arrow().array([_is_same(*pair) for pair in pairs], arrow().bool_())
    same = compute.fill_null(compute.equal(one, other), fill_value=False)
    same = compute.or_(same, compute.and_(compute.is_null(one), compute.is_null(other)))
    if types.is_floating(one.type):
        both = compute.and_(compute.is_nan(one), compute.is_nan(other))
        same = compute.or_(same, compute.fill_null(both, fill_value=False))
    return same


def _is_same(one: Any, other: Any) -> bool:
    """Whether two values of a nested key are equal."""
    if isinstance(one, dict):
        return isinstance(other, dict) and all(_is_same(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(_is_same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    return bool(one == other)


def _compute() -> Any:
    return importlib.import_module("pyarrow.compute")
