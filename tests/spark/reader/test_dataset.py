"""Filters of a table's dataset, against pyarrow's filter of the whole table."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import reduce
from operator import and_
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from counted import count_rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from processors import OUT, Hits, Totals
from pyspark.sql import functions as F
from reading import connect
from streams import Stream, at

import holdfast as hf
import holdfast.spark as hfs
from holdfast._reader.dataset.domain import Points, Range
from holdfast._reader.dataset.expression import columns, tree
from holdfast._reader.dataset.key_filter import selection

# Rows of the stream: every value of `KEYS` with every second.
KEYS = ["a", "b", "ba", "c", "d", None]
ROWS = [(key, second, second) for key in KEYS for second in range(-3, 5)]

COLUMNS = {
    "text": "k",
    "whole": "x",
    "long": "cast(x as long) * 1000000007",
    "double": "case x when -3 then double('nan') when -2 then double('-inf') when -1 then -0.0D "
    "when 4 then null else x / 2D end",
    "single": "case x when -3 then float('nan') when -1 then -0.0F else cast(x * 0.1 as float) end",
    "instant": "t",
    "local": "cast(t as timestamp_ntz)",
    "day": "date_add(date '2024-01-01', x)",
    "amount": "cast(x * 1.05 as decimal(10, 2))",
    "bytes": "cast(k as binary)",
    "flag": "x > 1",
}
# The key columns of each table, leading ones first.
TABLES = {
    "text_whole": ["text", "whole"],
    "long_text": ["long", "text"],
    "double_instant": ["double", "instant"],
    "single_local": ["single", "local"],
    "day_amount": ["day", "amount"],
    "bytes_flag": ["bytes", "flag"],
    "amount_only": ["amount"],
    "double_only": ["double"],
    "text_only": ["text"],
}
VIEWS = [
    *TABLES,
    "windows",
    "sessions",
    "versioned",
    "versioned as of",
    "versions",
    "hits",
    "totals",
]


@pytest.fixture(scope="module")
def reader(spark, tmp_path_factory: pytest.TempPathFactory) -> Iterator[hf.StateReader]:
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    stream = Stream(spark, tmp_path_factory.mktemp("dataset"))
    stream.batch(left=ROWS)
    state, source = stream.state(), stream.source("left")
    wide = source.selectExpr("*", *(f"{sql} AS {name}" for name, sql in COLUMNS.items()))
    of_key: dict[str, Any] = {"by": "k", "on": "t", "aggs": {"n": "count"}, "retention": "1 day"}
    frames = [
        hfs.aggregate(wide, by=by, aggs={"n": "count"}, state=state, name=name)
        for name, by in TABLES.items()
    ]
    for name, window in (
        ("windows", hfs.window("2 seconds")),
        ("sessions", hfs.session_window("2 seconds")),
    ):
        # Gaps, so that a key has several sessions.
        with_gaps = source.where("abs(x) > 1")
        frames.append(hfs.aggregate(with_gaps, window=window, state=state, name=name, **of_key))
    known = source.where("k is not null")
    frames.append(
        hfs.materialize(
            known, by="k", on="t", history_retention="1 day", state=state, name="versioned"
        )
    )
    for name, processor in (("hits", Hits()), ("totals", Totals())):
        frames.append(hfs.process(known, processor, by="k", schema=OUT, state=state, name=name))
    # A union moves the tasks of its inputs.
    ones = (frame.select(F.lit(1)).repartition(1) for frame in frames)
    stream.run(reduce(lambda one, other: one.union(other), ones))
    with connect(stream) as found:
        yield found


def view(reader: hf.StateReader, name: str) -> tuple[ds.Dataset, pa.Table]:
    """A dataset, and all of its rows by another way."""
    if name == "versions":
        table = reader["versioned"]
        return table.dataset(versions=True), table.versions().read_all()
    as_of = at(0.5) if name == "versioned as of" else None
    table = reader[name.split(maxsplit=1)[0]]
    return table.dataset(as_of=as_of), table.scan(as_of=as_of).read_all()


def literals(kind: pa.DataType, present: list[Any]) -> st.SearchStrategy[Any]:
    """Values of a column and near them, some of another type."""
    usual = [value for value in present if value is not None]
    more: list[Any] = []
    if pa.types.is_floating(kind):
        more = [math.nan, 0.0, -0.0, 0.1, math.inf, -math.inf, 1, 2**60]
    elif pa.types.is_integer(kind):
        more = [0, -1, 2**40, 1.0, 1.5, Decimal("2.00"), True]
    elif pa.types.is_decimal(kind):
        more = [Decimal("1.050"), Decimal("1.051"), 0, 1, 0.0]
    elif pa.types.is_timestamp(kind):
        wrong = datetime(2024, 1, 1) if kind.tz else datetime(2024, 1, 1, tzinfo=UTC)
        zone = "Asia/Tokyo" if kind.tz else None
        near = usual[0] if usual else datetime(2024, 1, 1, tzinfo=UTC if kind.tz else None)
        other = pa.scalar(near, pa.timestamp("us", kind.tz)).cast(pa.timestamp("ns", zone))
        late = pa.scalar(1, pa.timestamp("ns", zone))
        more = [near + timedelta(microseconds=1), wrong, other, late]
    elif pa.types.is_date32(kind):
        more = [date(1969, 12, 31), datetime(2024, 1, 1)]
    elif pa.types.is_binary(kind):
        more = [b"", b"\x00", b"b\xff"]
    elif pa.types.is_string(kind):
        more = ["", "bb", "\U0001f980", pa.scalar("ba", pa.large_string()), 1]
    elif pa.types.is_boolean(kind):
        more = [True, False]
    return st.sampled_from([*usual, *more, None])


@st.composite
def comparisons(draw: st.DrawFn, whole: pa.Table) -> pc.Expression:
    # Key columns are drawn more often, because they limit what is read. The last column is a value.
    names = whole.schema.names
    name = draw(st.sampled_from([*names, *names[:-1] * 2, names[0], names[0]]))
    kind = whole.schema.field(name).type
    field = pc.field(name)
    value = literals(kind, whole[name].to_pylist())
    which = draw(st.sampled_from(["compare", "compare", "flip", "in", "in", "null", "other"]))
    if which in ("compare", "flip"):
        given_value = draw(value)
        typed = isinstance(given_value, pa.Scalar) or draw(st.booleans())
        scalar = given_value if typed else _of_type(given_value, kind)
        operators = ["equal", "equal", "less", "less_equal", "greater", "greater_equal"]
        function = getattr(pc, draw(st.sampled_from([*operators, "not_equal"])))
        arguments = [field, pc.scalar(scalar)]
        return function(*(arguments[::-1] if which == "flip" else arguments))
    if which == "in":
        values = [_of_type(one, kind) for one in draw(st.lists(value, max_size=4))]
        usable = [one for one in values if isinstance(one, pa.Scalar) and one.type == kind]
        options = pc.SetLookupOptions(pa.array(usable, kind), skip_nulls=draw(st.booleans()))
        if draw(st.booleans()):
            return pc.Expression._call("is_in", [field], options)
        # The form that DuckDB passes.
        found = pc.Expression._call("is_in", [field], options)
        return pc.if_else(field.is_valid(), found, pc.scalar(pa.scalar(None, pa.bool_())))
    if which == "null":
        return field.is_null(nan_is_null=draw(st.booleans()) and pa.types.is_floating(kind))
    other = [field.is_valid(), pc.scalar(True), pc.scalar(False)]
    other.append(field.cast(pa.string()) == pc.scalar("1"))
    return draw(st.sampled_from(other))


def _of_type(value: Any, kind: pa.DataType) -> Any:
    try:
        return value.cast(kind) if isinstance(value, pa.Scalar) else pa.scalar(value, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return value


def filters(whole: pa.Table) -> st.SearchStrategy[pc.Expression]:
    """Filters, most of them a conjunction as in a WHERE clause."""
    one = comparisons(whole)

    def combined(inner: st.SearchStrategy[pc.Expression]) -> st.SearchStrategy[pc.Expression]:
        return st.one_of(
            st.tuples(inner, inner).map(lambda pair: pair[0] & pair[1]),
            st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1]),
            st.tuples(inner, inner, inner).map(lambda parts: pc.if_else(*parts)),
            inner.map(lambda part: ~part),
        )

    part = st.one_of(one, one, st.tuples(one, one).map(lambda pair: pair[0] | pair[1]))
    part |= st.recursive(one, combined, max_leaves=5)
    return st.lists(part, min_size=1, max_size=3).map(lambda parts: reduce(and_, parts))


def answer(rows: ds.Dataset, **asked: Any) -> Any:
    """The names of the columns and the sorted rows, or the kind of error."""
    try:
        found = rows.to_table(**asked)
    except (pa.ArrowException, TypeError) as error:
        return type(error)
    return found.schema.names, sorted(map(repr, found.to_pylist()))


@pytest.mark.parametrize("name", VIEWS)
def test_a_filter_selects_the_same_rows_as_of_the_whole_table(reader: hf.StateReader, name: str):
    rows, whole = view(reader, name)
    assert whole.num_rows > 4
    in_memory = ds.dataset(whole)

    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        where=filters(whole),
        columns=st.none() | st.lists(st.sampled_from(whole.schema.names), unique=True, min_size=1),
    )
    def same(where: pc.Expression, columns: list[str] | None) -> None:
        asked = {"filter": where, "columns": columns}
        expected, found = answer(in_memory, **asked), answer(rows, **asked)
        # Arrow refuses some comparisons only when it gets a row. The dataset may have read no row.
        assert found == expected or (isinstance(expected, type) and found[1] == [])

    same()


# Columns of every type, with nulls and values that are equal and look different.
MEMORY = pa.table(
    {
        "text": pa.array(["a", "b", "ba", "", None]),
        "whole": pa.array([-3, 0, 1, 2, None], pa.int32()),
        "long": pa.array([-(2**40), 0, 2, 2**62, None]),
        "double": pa.array([math.nan, -0.0, 0.0, math.inf, None]),
        "single": pa.array([math.nan, -0.0, 0.1, 1.5, None], pa.float32()),
        "instant": pa.array([at(0), at(1), at(2), at(3), None], pa.timestamp("us", "UTC")),
        "local": pa.array([datetime(2024, 1, 1), None] * 2 + [None], pa.timestamp("us")),
        "day": pa.array([date(2024, 1, 1), date(1960, 1, 1), None, None, None]),
        "amount": pa.array([Decimal("1.05"), Decimal(0), None, None, None], pa.decimal128(10, 2)),
        "bytes": pa.array([b"", b"a", b"\xff", None, None]),
        "flag": pa.array([True, False, None, None, None]),
    }
)


def is_in(value: pa.Scalar, domain: Points | Range) -> bool:
    if isinstance(domain, Points):
        if pa.types.is_floating(value.type) and value.is_valid:
            value = pc.add(value, pa.scalar(0.0, value.type))
        return pc.is_in(value, value_set=domain.values).as_py()
    lower = domain.lower is None or pc.greater_equal(value, domain.lower).as_py()
    return lower and (domain.upper is None or pc.less_equal(value, domain.upper).as_py())


@settings(max_examples=300, deadline=None)
@given(data=st.data(), names=st.permutations(MEMORY.schema.names))
def test_domains_have_all_values_of_selected_rows(data: st.DataObject, names: list[str]):
    # All pairs of the values of two columns.
    pair = MEMORY.select(names[:2])
    table = pa.table(
        {
            names[0]: pair[0].combine_chunks().take(pa.array([n // 5 for n in range(25)])),
            names[1]: pair[1].combine_chunks().take(pa.array([n % 5 for n in range(25)])),
        }
    )
    where = data.draw(filters(table))
    try:
        selected = table.filter(where)
    except (pa.ArrowException, TypeError):
        return
    found = selection(tree(where), table.schema)
    assert found is not None or selected.num_rows == 0
    for name, domain in (found or {}).items():
        for value in selected[name]:
            assert is_in(value, domain), (str(where), value, domain)


SELECTIVE = [
    # view, filter, most rows that are read, rows selected
    ("text_whole", (pc.field("text") == "b") & (pc.field("whole") == 2), 1, 1),
    ("text_whole", (pc.field("text") == "b") & pc.field("whole").isin([1, 2, 99]), 2, 2),
    ("text_whole", pc.field("text") == "b", 8, 8),
    ("text_whole", pc.field("text").isin(["b", "ba", None]), 24, 24),
    ("text_whole", pc.field("text").is_null() & (pc.field("whole") == 0), 1, 1),
    ("text_whole", (pc.field("text") == "b") | (pc.field("text") == "c"), 16, 16),
    (
        "text_whole",
        (pc.field("text") == "b") & (pc.field("whole") > 0) & (pc.field("whole") < 3),
        4,
        2,
    ),
    ("text_whole", pc.field("text") > "c", 16, 8),
    ("text_whole", pc.field("text") < "b", 24, 8),
    ("text_whole", (pc.field("text") == "b") & (pc.field("text") == "c"), 0, 0),
    ("text_whole", (pc.field("text") > "c") & (pc.field("text") < "b"), 0, 0),
    ("text_whole", pc.field("whole") == 2, 48, 6),
    ("text_only", pc.field("text").isin(["b", "zz"]), 1, 1),
    ("text_only", pc.field("text") == "b", 1, 1),
    ("text_only", pc.field("n") == 8, 6, 6),
    ("amount_only", pc.field("amount") == Decimal("1.05"), 1, 1),
    ("double_instant", pc.field("double") == -0.0, 2, 2),
    ("windows", pc.field("k") == "b", 4, 4),
    ("versioned", pc.field("k") == "b", 1, 1),
    ("versioned as of", pc.field("k").isin(["b", "c"]), 2, 2),
    ("versions", pc.field("k") == "b", 8, 8),
    ("hits", pc.field("key") == "b", 1, 1),
    ("hits", pc.field("key") <= "b", 2, 2),
]


@pytest.mark.parametrize("case", SELECTIVE, ids=str)
def test_a_filter_on_the_key_reads_only_these_keys(
    reader: hf.StateReader, monkeypatch, case: tuple[str, pc.Expression, int, int]
):
    name, filter_, most, selected = case
    rows, _ = view(reader, name)
    counted = count_rows(reader, monkeypatch)
    assert rows.count_rows(filter=filter_) == selected
    assert counted.rows <= most


@pytest.mark.parametrize("name", ["windows", "sessions"])
@pytest.mark.parametrize(
    "filter_",
    [
        pc.field("window_start") > at(1),
        pc.field("window_start") < at(0),
        (pc.field("window_start") == at(2)) & (pc.field("k") == "b"),
    ],
    ids=str,
)
def test_a_filter_on_the_start_reads_only_these_windows(
    reader: hf.StateReader, monkeypatch, name: str, filter_: pc.Expression
):
    counted = count_rows(reader, monkeypatch)
    rows = reader[name].dataset()
    every = rows.count_rows()
    counted.rows = 0
    assert 0 < rows.count_rows(filter=filter_) == counted.rows < every


def test_columns_that_are_not_needed_are_not_read(reader: hf.StateReader, monkeypatch):
    rows = reader["text_whole"].dataset()
    counted = count_rows(reader, monkeypatch)
    rows.to_table(columns=["n"], filter=pc.field("n") == 1)
    assert counted.columns == {"n"}
    rows.to_table(columns={"m": pc.field("n") + 1}, filter=pc.field("whole") > 0)
    assert counted.columns == {"n", "whole"}
    # `whole` is the name of a column, but here only a literal.
    rows.to_table(columns=["n"], filter=pc.field("text") != "whole")
    assert counted.columns == {"n", "text"}


CLIENTS = {
    "duckdb": lambda rows, text, whole: (
        duckdb.from_arrow(rows).filter(f"text IN ({text}) AND whole = {whole}").fetchall()
    ),
    "polars": lambda rows, text, whole: (
        pl.scan_pyarrow_dataset(rows)
        .filter(pl.col("text").is_in(text.replace("'", "").split(",")) & (pl.col("whole") == whole))
        .collect()
        .rows()
    ),
    "pandas": lambda rows, text, whole: list(
        rows.to_table(
            filter=pc.field("text").isin(text.replace("'", "").split(","))
            & (pc.field("whole") == whole)
        )
        .to_pandas()
        .itertuples(index=False, name=None)
    ),
}


@pytest.mark.parametrize("client", CLIENTS)
def test_clients_read_only_the_keys_of_their_filter(
    reader: hf.StateReader, monkeypatch, client: str
):
    counted = count_rows(reader, monkeypatch)
    found = CLIENTS[client](reader["text_whole"].dataset(), "'b','d'", 2)
    assert sorted(found) == [("b", 2, 1), ("d", 2, 1)]
    assert counted.rows == 2


def test_many_keys_are_read_by_a_scan_of_their_range(reader: hf.StateReader, monkeypatch):
    rows = reader["text_whole"].dataset()
    texts = [f"b{n}" for n in range(20_000)] + ["ba"]
    counted = count_rows(reader, monkeypatch)
    assert rows.count_rows(filter=pc.field("text").isin(texts)) == 8
    assert counted.rows == 8


EXPRESSIONS = [
    (pc.field("a b") == 1, ["a b"]),
    (pc.field(("s", "x")) == 1, ["s"]),
    ((pc.field("k") >= 'x"\n(') & pc.field("l").isin(["a", None]), ["k", "l"]),
    (pc.field("x").cast("int64") == pc.field("y"), ["x", "y"]),
    (pc.scalar(True), []),
    (pc.starts_with(pc.field("k"), "field_ref"), ["k"]),
]


@pytest.mark.parametrize(("expression", "names"), EXPRESSIONS, ids=str)
def test_the_tree_of_an_expression_has_its_columns(expression: pc.Expression, names: list[str]):
    found = tree(expression)
    assert found is not None
    assert sorted(columns(found)) == names


def test_expressions_without_a_tree_are_left_to_arrow(reader: hf.StateReader):
    by_index = pc.field(0) == "b"
    assert tree(by_index) is None
    assert reader["text_only"].dataset().count_rows(filter=by_index) == 1
    deep = reduce(lambda a, b: a | b, [pc.field("text") == str(n) for n in range(2000)])
    assert reader["text_only"].dataset().count_rows(filter=deep) == 0


def test_only_values_that_the_column_can_have_are_bounds():
    schema = pa.schema([("f", pa.float32()), ("i", pa.int32())])
    found = [
        selection(tree(expression), schema)
        for expression in (
            pc.field("f") > 0.1,
            pc.field("f") > pa.scalar(math.nan),
            pc.field("i") > 2**40,
            pc.field("i") > pa.scalar(2, pa.int64()),
        )
    ]
    assert found == [
        {"f": Range(lower=pa.scalar(0.1, pa.float32()))},
        {},
        {},
        {"i": Range(lower=pa.scalar(2, pa.int32()))},
    ]


def test_versions_that_ended_within_the_retention_are_found_by_their_begin(stream: Stream):
    day = 86_400
    stream.batch(left=[("k", 100 * day, 100), ("k", 120 * day, 120), ("other", 140 * day, 140)])
    state = stream.state()
    table = hfs.materialize(
        stream.source("left"), by="k", on="t", history_retention="30 days", state=state, name="rows"
    )
    stream.run(table)
    rows = connect(stream)["rows"].dataset(versions=True)
    # The first version began before the retention, and ended within it.
    everything = rows.to_table().to_pylist()
    before = pc.field("valid_from") <= pa.scalar(at(105 * day))
    found = rows.to_table(filter=before)["x"].to_pylist()
    assert found == [row["x"] for row in everything if row["valid_from"] <= at(105 * day)] == [100]


def sorted_rows(rows: ds.Dataset | pa.Table) -> list[dict[str, Any]]:
    """The rows in an order that does not depend on threads."""
    table = rows if isinstance(rows, pa.Table) else rows.to_table()
    return table.sort_by([(name, "ascending") for name in table.schema.names]).to_pylist()


TWO = pa.table({"text": ["a", "z"], "m": [1, 2]})


@pytest.mark.parametrize(
    "call",
    [
        lambda rows: rows.join(ds.dataset(TWO) if isinstance(rows, ds.Dataset) else TWO, "text"),
        lambda rows: (ds.dataset(TWO) if isinstance(rows, ds.Dataset) else TWO).join(rows, "text"),
        lambda rows: rows.join(rows, ["text", "n"], right_suffix=" of right"),
        lambda rows: rows.filter(ds.field("text") == "a"),
        lambda rows: rows.filter(ds.field("text") == "a").filter(ds.field("whole") > 2),
        lambda rows: rows.filter(ds.field("text") == "a").join(rows, "text", right_suffix="2"),
        lambda rows: rows.take([0, 1]).select(["n"]),
    ],
)
def test_a_dataset_has_the_methods_of_a_table(reader: hf.StateReader, call):
    rows = reader["text_whole"].dataset()
    assert sorted_rows(call(rows)) == sorted_rows(call(rows.to_table()))


def test_a_dataset_joins_as_of(reader: hf.StateReader):
    rows = reader["text_whole"].dataset()
    one = rows.filter((ds.field("text") == "a") & (ds.field("whole") == 2))
    earlier = pa.table({"text": ["a"], "whole": pa.array([1], rows.schema.field("whole").type)})
    other = ds.dataset(earlier.append_column("m", pa.array([7])))
    assert one.join_asof(other, "whole", "text", -1).to_table()["m"].to_pylist() == [7]
    assert other.join_asof(one, "whole", "text", 1).to_table()["n"].to_pylist() == [1]


def test_other_datasets_read_the_whole_table(reader: hf.StateReader):
    rows = reader["text_whole"].dataset()
    whole, is_a = rows.to_table(), ds.field("text") == "a"
    union = ds.dataset([rows, rows])
    assert sorted_rows(union) == sorted_rows(pa.concat_tables([whole, whole]))
    assert union.count_rows(filter=is_a) == 2 * whole.filter(is_a).num_rows > 0
    (fragment,) = rows.get_fragments()
    for same in (fragment, rows.replace_schema(rows.schema), ds.dataset([rows])):
        assert sorted_rows(same.to_table()) == sorted_rows(whole)
    sorted_ = rows.sort_by([("whole", "descending")]).to_table()["whole"]
    assert sorted_ == whole.sort_by([("whole", "descending")])["whole"]


def test_a_filtered_dataset_reads_only_what_its_filters_select(reader: hf.StateReader, monkeypatch):
    counted = count_rows(reader, monkeypatch)
    rows = reader["text_whole"].dataset().filter(pc.field("text") == "a")
    assert rows.count_rows(filter=pc.field("whole") == 2) == counted.rows == 1


def test_an_error_of_a_read_reaches_other_datasets(reader: hf.StateReader, monkeypatch):
    def failing(*_: Any) -> None:
        raise hf.errors.StoreClosedError("closed")

    monkeypatch.setattr("holdfast._reader.dataset.selected_rows.SelectedRows.read", failing)
    with pytest.raises(hf.errors.StoreClosedError):
        ds.dataset([reader["text_whole"].dataset()]).to_table()


def test_a_dataset_is_not_pickled(reader: hf.StateReader):
    with pytest.raises(TypeError, match="pickle the table"):
        pickle.dumps(reader["text_whole"].dataset())
