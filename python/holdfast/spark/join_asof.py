"""The as-of join of a stream with a versioned table."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql import types as sql

from holdfast.errors import UnsupportedOperationError
from holdfast.spark import schema
from holdfast.spark.plan import Operator, check_call
from holdfast.spark.rows import Input, Rows, keys_of
from holdfast.spark.schema import Side
from holdfast.spark.span import Span, micros
from holdfast.spark.state import State

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def join_asof(
    left: "DataFrame",
    right: "DataFrame",
    *,
    by: str | Sequence[str],
    left_on: str,
    right_on: str,
    state: State,
    history_retention: Span,
    how: Literal["inner", "left"] = "left",
    grace: Span | None = None,
    tolerance: Span | None = None,
    delete_when: "str | Column | None" = None,
    order_by: Sequence[str] = (),
    suffix: str = "_right",
    name: str | None = None,
) -> "DataFrame":
    """Each left row with the right row of the same key that was in force at the left row's time.

    The right side is kept as a versioned table in `state`: a right row is in force from its time until the next one of
    its key. Late rows on either side are joined as of their own times; within a micro-batch, right rows come before
    left rows of the same time. Of right rows with one key and one time, the last in force wins: by micro-batch, then
    by the columns `order_by`, then by content.

    `history_retention` is how far back from the newest right time a left row finds what was in force; right rows
    older than that are dropped. `tolerance` is the greatest age a match may have. `delete_when` (SQL or a Column, over
    the right frame) marks right rows that end the value. `name` is the operator's name in the state.

    Returns the left frame's columns, then the right frame's without `by`; where a name is taken, `suffix` is added.
    Left rows whose key or time is null match nothing; right rows whose key or time is null are dropped.
    Raises `ValueError` that names the wrong column, type or option, before any job runs.
    """
    join = _JoinAsof(left, right, by=by, left_on=left_on, right_on=right_on, order_by=order_by, suffix=suffix)
    if how not in ("inner", "left"):
        raise ValueError(f"how={how!r}: there are 'inner' and 'left'")
    retention = micros(history_retention, "history_retention")
    if grace is not None:
        micros(grace, "grace")
        raise UnsupportedOperationError("grace comes later: leave it out to join each left row when it arrives")
    oldest = None if tolerance is None else micros(tolerance, "tolerance")
    epoch = check_call(state, left, right)
    operator = Operator(
        kind="join_asof",
        name=name or f"join_asof_{join.rows.default_name}",
        state=state,
        epoch=epoch,
        layout=join.rows.layout,
        output=join.output,
        request={"how": how, "history_retention": retention, **join.request},
    )
    rows = join.rows.frame(join.deleted(delete_when))
    operator.claim()
    joined = operator.over(rows, keys=len(join.keys), metrics=_METRICS)
    return joined if oldest is None else join.within(joined, oldest, how)


_METRICS: Final = {"left_rows": "count_if(side)", "right_rows": "count_if(not side)"}


class _JoinAsof:
    """The columns of an as-of join: which ones go in, under which names they come out."""

    def __init__(
        self,
        left: "DataFrame",
        right: "DataFrame",
        *,
        by: str | Sequence[str],
        left_on: str,
        right_on: str,
        order_by: Sequence[str],
        suffix: str,
    ) -> None:
        self.left: Final = Side("left", left)
        self.right: Final = Side("right", right)
        self.keys: Final = keys_of(self.left, by)
        self.right_keys: Final = [self.right.find(column, "by") for column in ([by] if isinstance(by, str) else by)]
        for ours, theirs in zip(self.keys, self.right_keys, strict=True):
            schema.check_same_key(ours, theirs)
            schema.check_key_type(theirs)
        self.left_time: Final = self.left.time(left_on, "left_on")
        self.right_time: Final = self.right.time(right_on, "right_on")
        if self.left_time.dataType != self.right_time.dataType:
            raise ValueError(
                f"left_on {self.left_time.name!r} is {self.left_time.dataType.simpleString()} and right_on "
                f"{self.right_time.name!r} is {self.right_time.dataType.simpleString()}: cast one to the other's type"
            )
        for argument, time, keys in (
            ("left_on", self.left_time, self.keys),
            ("right_on", self.right_time, self.right_keys),
        ):
            if time in keys:
                raise ValueError(f"{argument}: column {time.name!r} is in by, too; a key and a time are two columns")
        # A floating key is compared by value, but comes out with the bits that it came in with.
        self.left_payload: Final = [
            field
            for field in self.left.fields
            if field != self.left_time and (field not in self.keys or schema.is_floating(field))
        ]
        self.right_payload: Final = [
            field for field in self.right.fields if field != self.right_time and field not in self.right_keys
        ]
        order_left, order_right = self._order(order_by)
        self.rows: Final = Rows(
            Input(self.left, self.keys, self.left_time, self.left_payload, order_left),
            Input(self.right, self.right_keys, self.right_time, self.right_payload, order_right),
        )
        self.output, self.sources, self.right_time_name = self._output(suffix)

    def _order(self, order_by: Sequence[str]) -> tuple[list[int], list[int]]:
        if isinstance(order_by, str):
            raise TypeError(f"order_by={order_by!r}: give a list of columns: [{order_by!r}]")
        ordered: tuple[list[int], list[int]] = ([], [])
        for column in order_by:
            found = False
            for side, payload, indices in (
                (self.left, self.left_payload, ordered[0]),
                (self.right, self.right_payload, ordered[1]),
            ):
                there = [field for field in side.fields if side.fold(field.name) == side.fold(column)]
                found = found or bool(there)
                # Keys and times are equal among the rows that order_by is asked about.
                indices.extend(payload.index(field) for field in there if field in payload)
            if not found:
                names = ", ".join(field.name for field in self.left.fields)
                others = ", ".join(field.name for field in self.right.fields)
                raise ValueError(
                    f"order_by: no frame has a column {column!r}; the left one has {names}; the right one has {others}"
                )
        return ordered

    def _output(self, suffix: str) -> tuple[sql.StructType, list[dict[str, Any]], str]:
        fields: list[sql.StructField] = []
        sources: list[dict[str, Any]] = []
        taken: set[str] = set()
        right_time_name = ""
        for field in self.left.fields:
            taken.add(self.left.fold(field.name))
            fields.append(field)
            sources.append({"name": field.name, **self._left_source(field)})
        for field in self.right.fields:
            if field in self.right_keys:
                continue
            name = field.name if self.left.fold(field.name) not in taken else field.name + suffix
            if self.left.fold(name) in taken:
                raise ValueError(
                    f"suffix={suffix!r}: the result would have two columns named {name!r}; "
                    "give another suffix, or rename a column"
                )
            taken.add(self.left.fold(name))
            fields.append(sql.StructField(name, field.dataType, nullable=True))
            if field == self.right_time:
                right_time_name = name
                sources.append({"name": name, "from": "right_time", "index": 0})
            else:
                sources.append({"name": name, "from": "right", "index": self.right_payload.index(field)})
        return sql.StructType(fields), sources, right_time_name

    def _left_source(self, field: sql.StructField) -> dict[str, Any]:
        if field == self.left_time:
            return {"from": "time", "index": 0}
        if field in self.left_payload:
            return {"from": "left", "index": self.left_payload.index(field)}
        return {"from": "key", "index": self.keys.index(field)}

    @property
    def request(self) -> dict[str, Any]:
        """What the state host must know of the columns."""
        return {**self.rows.request, "output": self.sources}

    def deleted(self, delete_when: "str | Column | None") -> "Column":
        """Which right rows end the value."""
        if delete_when is None:
            return F.lit(col=False)
        condition = F.expr(delete_when) if isinstance(delete_when, str) else delete_when
        try:
            kind = self.right.frame.select(condition.alias("deleted")).schema["deleted"].dataType
        except AnalysisException as error:
            raise ValueError(f"delete_when={delete_when!s} is no condition over the right frame: {error}") from error
        if not isinstance(kind, sql.BooleanType):
            raise ValueError(f"delete_when={delete_when!s} is {kind.simpleString()}: give a condition")  # noqa: TRY004 - a wrong argument
        return F.coalesce(condition, F.lit(col=False))

    def within(self, joined: "DataFrame", oldest: int, how: str) -> "DataFrame":
        """The joined rows without matches that are older than `oldest` microseconds."""
        quoted = [f"`{field.name.replace('`', '``')}`" for field in self.output]
        names = [field.name for field in self.output]
        ours, theirs = (quoted[names.index(name)] for name in (self.left_time.name, self.right_time_name))
        # Times without a zone are subtracted as such; times with one by their instants, since Spark's subtraction
        # would count the hours of the session's zone, summer time included.
        if isinstance(self.left_time.dataType, sql.TimestampNTZType):
            age = f"({ours} - {theirs})"
            limit = f"make_dt_interval(0, 0, 0, {oldest} / 1000000BD)"
        else:
            age = f"unix_micros({ours}) - unix_micros({theirs})"
            limit = f"{oldest}L"
        fresh = F.expr(f"{age} <= {limit}")
        if how == "inner":
            return joined.where(fresh)
        first = len(self.left.fields)
        return joined.select(
            *(F.col(column) for column in quoted[:first]),
            *(F.when(fresh, F.col(column)).alias(name) for column, name in zip(quoted[first:], names[first:], strict=True)),
        )
