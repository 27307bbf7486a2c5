"""The columns that an aggregation reads, and those that it computes."""

from collections.abc import Mapping
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
)
_COLLECTING: Final = ("collect_list", "collect_set")
_COMPARING: Final = ("min", "max", "count_distinct", "collect_set")


class AggregateColumns:
    """The columns that `aggs` reads and the columns that it adds to the result."""

    def __init__(self, frame: InputFrame, aggs: Mapping[str, Any]) -> None:
        """Raises `TypeError` or `ValueError` naming the entry of `aggs` that is wrong."""
        if not isinstance(aggs, Mapping) or not aggs:
            raise ValueError(
                f"aggs={aggs!r}: give a dict of the result's columns, such as {{'orders': 'count'}}"
            )
        self._frame: Final = frame
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
                self._add(result, *_parsed(result, what))

    @property
    def arrays(self) -> list[str]:
        """The names of results that are arrays of collected values, which contain no nulls."""
        return [made["name"] for made in self.request if made["function"] in _COLLECTING]

    def _add(self, result: str, function: str, column: str | None) -> None:
        index = None
        if column is not None:
            field = self._frame.find(column, f"aggs[{result!r}]")
            if field not in self.payload:
                self.payload.append(field)
            index = self.payload.index(field)
        self.request.append({"name": result, "function": function, "column": index})
        self.results.append(sql.StructField(result, self._type(result, function, index)))

    def _add_aggregator(self, declared: DeclaredAggregator) -> None:
        self.user_functions[len(self.request)] = declared
        self.request.append({"name": declared.name, "function": "own", "declared": declared.types})
        self.results.append(sql.StructField(declared.name, declared.result_type))

    def _type(self, result: str, function: str, index: int | None) -> sql.DataType:
        """The type of the result in Spark SQL."""
        if index is None:
            return sql.LongType()
        field = self.payload[index]
        if function in ("sum", "avg") and not isinstance(
            field.dataType, (sql.NumericType, sql.DayTimeIntervalType)
        ):
            raise ValueError(
                f"aggs[{result!r}]: {function} needs numbers, and column {field.name!r} is "
                f"{field.dataType.simpleString()}"
            )
        if function in _COMPARING and schema.contains(field.dataType, schema.is_collated):
            raise ValueError(
                f"aggs[{result!r}]: {function} compares strings by their bytes, and column "
                f"{field.name!r} is {field.dataType.simpleString()}: use "
                f"collate({field.name}, 'UTF8_BINARY'), or lower() of that"
            )
        if function in ("count_distinct", "collect_set") and schema.contains(
            field.dataType, _is_map
        ):
            raise ValueError(
                f"aggs[{result!r}]: {function} cannot take column {field.name!r}: equal maps may "
                "list their entries in another order; use its sorted map_entries"
            )
        call = getattr(F, function)(self._frame.column(field))
        try:
            return self._frame.df.select(call.alias("result")).schema["result"].dataType
        except AnalysisException as error:
            raise ValueError(
                f"aggs[{result!r}]: {function} cannot take column {field.name!r}: {error}"
            ) from error


def _parsed(result: str, what: Any) -> tuple[str, str | None]:
    if isinstance(what, str) and what == "count":
        return "count", None
    # Types are checked first: a Column compared with a string is a Column without truth value.
    if (
        isinstance(what, tuple)
        and len(what) == 2
        and all(isinstance(part, str) for part in what)
        and what[0] in _FUNCTIONS
    ):
        return what
    functions = ", ".join(_FUNCTIONS)
    raise ValueError(
        f"aggs[{result!r}]={what!r}: give 'count' or a pair of a function and a column, or an "
        f"Aggregator; functions: {functions}"
    )


def _is_map(data_type: sql.DataType) -> bool:
    return isinstance(data_type, sql.MapType)


def _is_aggregator(what: Any) -> bool:
    # `hasattr` is true for every name on a Column.
    attributes = ("state_schema", "result_type", "merge", "result")
    return not isinstance(what, Column) and any(
        hasattr(what, attribute) for attribute in attributes
    )
