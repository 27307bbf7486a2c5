"""The columns that an aggregation reads, and those that it computes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql import types as sql

from holdfast.spark.operators.aggregator import DeclaredAggregator
from holdfast.spark.plan import schema
from holdfast.spark.plan.input_frame import InputFrame

_FUNCTIONS: Final = (
    "count",
    "sum",
    "min",
    "max",
    "avg",
    "first",
    "last",
    "count_distinct",
    "collect_list",
    "collect_set",
    "max_by",
    "min_by",
    "count_if",
    "bool_and",
    "bool_or",
    "variance",
    "stddev",
    "var_pop",
    "stddev_pop",
)
_NUMERIC: Final = ("sum", "avg", "variance", "stddev", "var_pop", "stddev_pop")
_RANKED: Final = ("max_by", "min_by")
_MOST_RANKED: Final = 1_000
"""The maximum number of values of `max_by` and `min_by`."""
_COLLECTING: Final = ("collect_list", "collect_set")
_COMPARING: Final = ("min", "max", "count_distinct", "collect_set", *_RANKED)


class AggregateColumns:
    """The columns that `aggs` reads and the columns that it adds to the result."""

    def __init__(self, frame: InputFrame, aggs: Mapping[str, Any]) -> None:
        """Raises `TypeError` or `ValueError` naming the entry of `aggs` that is wrong."""
        if not isinstance(aggs, Mapping) or not aggs:
            raise ValueError(
                f"aggs={aggs!r}: give a dict of the result's columns, such as {{'orders': 'count'}}"
            )
        self._frame: Final = frame
        self._expressions: Final[dict[str, Column]] = {}
        """The payload columns that are not the frame's, by name."""
        self._given_names: Final[dict[str, str]] = {}
        """The names that Spark gives these columns; two may have one name."""
        self.payload: Final[list[sql.StructField]] = []
        self.results: Final[list[sql.StructField]] = []
        self.request: Final[list[dict[str, Any]]] = []
        """The aggregates for the state host, one per result."""
        self.user_functions: Final[dict[int, DeclaredAggregator]] = {}
        """The user's aggregators, by their position in `aggs`."""
        if any(_is_aggregator(what) for what in aggs.values()):
            # Aggregators read whole rows, so all payload columns are sent. Built-in functions read
            # these columns, too.
            self.payload.extend(frame.payload)
        for result, what in aggs.items():
            if not isinstance(result, str):
                raise TypeError(
                    f"aggs has the key {result!r}, a {type(result).__name__}: the result's columns "
                    "have strings as names"
                )
            if _is_aggregator(what):
                self._add_aggregator(DeclaredAggregator(result, what))
            else:
                self._add(_parsed(result, what))

    @property
    def frame(self) -> InputFrame:
        """The frame, with the columns of the expressions in `aggs`."""
        return self._frame.adding(self._expressions)

    @property
    def arrays(self) -> list[str]:
        """The names of results that are arrays of collected values, which contain no nulls."""
        return [made["name"] for made in self.request if made["function"] in _COLLECTING]

    def _add(self, entry: "_Entry") -> None:
        field = None if entry.value is None else self._field(entry.value, entry.argument)
        made: dict[str, Any] = {"name": entry.result, "function": entry.function}
        made["column"] = None if field is None else self._index(field)
        order = None if entry.order is None else self._field(entry.order, entry.argument)
        if order is not None:
            made["order"] = self._index(order)
        if entry.limit is not None:
            made["limit"] = entry.limit
        self.request.append(made)
        self.results.append(sql.StructField(entry.result, self._type(entry, field, order)))

    def _index(self, field: sql.StructField) -> int:
        """Returns the position of a field in the payload, to which it is added if it is new."""
        if field not in self.payload:
            self.payload.append(field)
        return self.payload.index(field)

    def _field(self, what: str | Column | Sequence[str], argument: str) -> sql.StructField:
        """Returns the field of a column of the frame, of an expression, or of a struct."""
        if isinstance(what, str):
            return self._frame.find(what, argument)
        if not isinstance(what, Column):
            fields = [self._frame.find(name, argument) for name in what]
            what = F.struct(*(self._frame.column(field) for field in fields))
        try:
            found = self._frame.df.select(what).schema.fields
        except AnalysisException as error:
            raise ValueError(f"{argument}: the frame cannot compute {what}: {error}") from error
        if len(found) != 1:
            raise ValueError(f"{argument}: {what} is {len(found)} columns: give one")
        # Messages of the state host name an expression as Spark does.
        given = name = found[0].name
        others = [*(field.name for field in self._frame.fields), *self._expressions]
        taken = {self._frame.fold(other) for other in others}
        while self._frame.fold(name) in taken:
            name += "_"
        self._expressions[name] = what
        self._given_names[name] = given
        return sql.StructField(name, found[0].dataType)

    def _name(self, field: sql.StructField) -> str:
        """Returns a column's name for messages: an expression has Spark's name."""
        return self._given_names.get(field.name, field.name)

    def _column(self, field: sql.StructField) -> Column:
        expression = self._expressions.get(field.name)
        return self._frame.column(field) if expression is None else expression

    def _add_aggregator(self, declared: DeclaredAggregator) -> None:
        self.user_functions[len(self.request)] = declared
        self.request.append({"name": declared.name, "function": "own", "declared": declared.types})
        self.results.append(sql.StructField(declared.name, declared.result_type))

    def _type(
        self, entry: "_Entry", field: sql.StructField | None, order: sql.StructField | None
    ) -> sql.DataType:
        """The type of the result in Spark SQL."""
        if field is None:
            return sql.LongType()
        argument, function = entry.argument, entry.function
        if function in _NUMERIC and not isinstance(
            field.dataType, (sql.NumericType, sql.DayTimeIntervalType)
        ):
            raise ValueError(
                f"{argument}: {function} needs numbers, and column {self._name(field)!r} is "
                f"{field.dataType.simpleString()}"
            )
        compared = field if order is None else order
        if function in _COMPARING and schema.contains(compared.dataType, schema.is_collated):
            raise ValueError(
                f"{argument}: {function} compares strings by their bytes, and column "
                f"{self._name(compared)!r} is {compared.dataType.simpleString()}: use "
                f"collate({self._name(compared)}, 'UTF8_BINARY'), or lower() of that"
            )
        if function in ("count_distinct", "collect_set") and schema.contains(
            field.dataType, _is_map
        ):
            raise ValueError(
                f"{argument}: {function} cannot take column {self._name(field)!r}: equal maps may "
                "list their entries in another order; use its sorted map_entries"
            )
        columns = [field] if order is None else [field, order]
        call = getattr(F, function)(*map(self._column, columns))
        try:
            found = self._frame.df.select(call.alias("result")).schema["result"].dataType
        except AnalysisException as error:
            names = " and ".join(repr(self._name(column)) for column in columns)
            raise ValueError(
                f"{argument}: {function} cannot take column {names}: {error}"
            ) from error
        return found if entry.limit is None else sql.ArrayType(found)


@dataclass(frozen=True)
class _Entry:
    """An entry of `aggs` with a function of the state host."""

    result: str
    function: str
    value: str | Column | Sequence[str] | None = None
    """What the function reads: a column, an expression, columns as a struct, or whole rows."""
    order: str | Column | None = None
    """What selects a row, for `max_by` and `min_by`."""
    limit: int | None = None
    """How many values the result lists; `None`: it is one value."""

    @property
    def argument(self) -> str:
        """The entry's name in errors."""
        return f"aggs[{self.result!r}]"


def _parsed(result: str, what: Any) -> _Entry:
    # Types are checked first: a Column compared with a string is a Column without truth value.
    if isinstance(what, str) and what == "count":
        return _Entry(result, "count")
    if isinstance(what, tuple) and what and isinstance(what[0], str) and what[0] in _FUNCTIONS:
        function, *columns = what
        if function in _RANKED:
            if len(columns) in (2, 3) and _is_value(columns[0]) and _is_column(columns[1]):
                limit = None if len(columns) == 2 else _limit(result, columns[2])
                return _Entry(result, function, columns[0], columns[1], limit)
        elif len(columns) == 1 and _is_column(columns[0]):
            return _Entry(result, function, columns[0])
    functions = ", ".join(_FUNCTIONS)
    raise ValueError(
        f"aggs[{result!r}]={what!r}: give 'count' or a pair of a function and a column, such as "
        "('sum', 'x'), or ('max_by', value, order) or ('max_by', value, order, n), in which the "
        f"value may be a list of columns, or an Aggregator; functions: {functions}"
    )


def _limit(result: str, given: Any) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= _MOST_RANKED:
        raise ValueError(
            f"aggs[{result!r}]: {given!r} values: give a number from 1 to {_MOST_RANKED}"
        )
    return given


def _is_column(what: Any) -> bool:
    return isinstance(what, (str, Column))


def _is_value(what: Any) -> bool:
    is_list = isinstance(what, (list, tuple)) and bool(what)
    return _is_column(what) or (is_list and all(isinstance(name, str) for name in what))


def _is_map(data_type: sql.DataType) -> bool:
    return isinstance(data_type, sql.MapType)


def _is_aggregator(what: Any) -> bool:
    # `hasattr` is true for every name on a Column.
    attributes = ("state_schema", "result_type", "merge", "result")
    return not isinstance(what, Column) and any(
        hasattr(what, attribute) for attribute in attributes
    )
