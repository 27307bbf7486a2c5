"""All forms of Arrow input, and the errors for invalid ones."""

from __future__ import annotations

import datetime as dt
import sys

import polars as pl
import pyarrow as pa
import pytest

import holdfast as hf

KEYS = [b"a", b"b", b"c"]
VALUES = [b"1", b"", None]


class OnlyArray:
    """An array with the PyCapsule interface and nothing else, as a foreign library has."""

    def __init__(self, array):
        self.array = array

    def __arrow_c_array__(self, requested_schema=None):
        return self.array.__arrow_c_array__(requested_schema)


class OnlyStream:
    def __init__(self, chunked):
        self.chunked = chunked

    def __arrow_c_stream__(self, requested_schema=None):
        return self.chunked.__arrow_c_stream__(requested_schema)


def of(kind):
    return lambda rows: pa.array(rows, kind)


def sliced(rows):
    return pa.array([b"junk", b"more junk", *rows, b"junk"], pa.binary())[2:-1]


def dictionary(rows):
    return pa.array(rows, pa.binary()).dictionary_encode()


def sliced_dictionary(rows):
    return pa.array([b"junk", *rows, None], pa.binary()).dictionary_encode()[1:-1]


def chunked(rows):
    return pa.chunked_array(
        [
            pa.array(rows[:1], pa.binary()),
            pa.array([], pa.binary()),
            pa.array(rows[1:], pa.binary()),
        ]
    )


FORMS = {
    "binary": of(pa.binary()),
    "large_binary": of(pa.large_binary()),
    "binary_view": of(pa.binary_view()),
    "string": lambda rows: pa.array(
        [row and row.decode() if row is not None else None for row in rows], pa.string()
    ),
    "large_string": lambda rows: pa.array(
        [None if row is None else row.decode() for row in rows], pa.large_string()
    ),
    "string_view": lambda rows: pa.array(
        [None if row is None else row.decode() for row in rows], pa.string_view()
    ),
    "dictionary": dictionary,
    "dictionary of strings": lambda rows: pa.array(
        [None if row is None else row.decode() for row in rows], pa.string()
    ).dictionary_encode(),
    "sliced": sliced,
    "sliced dictionary": sliced_dictionary,
    "chunked": chunked,
    "array capsule": lambda rows: OnlyArray(sliced(rows)),
    "stream capsule": lambda rows: OnlyStream(chunked(rows)),
    "polars": lambda rows: pl.Series(rows, dtype=pl.Binary),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_key_value_batches_take_every_form(bench, form):
    bench.kv.put(b"c", b"old")
    bench.kv.put_batch(form(KEYS), form(VALUES))
    assert list(bench.kv.range()) == [(b"a", b"1"), (b"b", b"")]
    bench.db.commit()
    assert pa.array(bench.kv.get_batch(form([b"b", b"x", b"a", b"b"]))).to_pylist() == [
        b"",
        None,
        b"1",
        b"",
    ]
    bench.kv.delete_batch(form([b"a", b"x"]))
    assert list(bench.kv.range()) == [(b"b", b"")]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_versioned_batches_take_every_form(bench, form):
    times = pa.array([10, 20, 30])
    result = pa.record_batch(bench.rates.put_batch(form(KEYS), form(VALUES), times))
    assert result.to_pylist() == [{"accepted": True, "valid_to": None}] * 3
    found = pa.record_batch(bench.rates.get_batch(form(KEYS), pa.array([9, 25, 30])))
    assert found.to_pylist() == [
        {"value": None, "timestamp": None, "valid_to": None},
        {"value": b"", "timestamp": 20, "valid_to": None},
        {"value": None, "timestamp": None, "valid_to": None},
    ]
    newest = pa.record_batch(bench.rates.get_batch(form(KEYS)))
    assert newest.column("timestamp").to_pylist() == [10, 20, None]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_a_batch_may_have_no_rows(bench, form):
    empty, no_times = form([]), pa.array([], pa.int64())
    bench.kv.put_batch(empty, form([]))
    bench.kv.delete_batch(form([]))
    assert len(pa.array(bench.kv.get_batch(form([])))) == 0
    assert pa.record_batch(bench.rates.put_batch(form([]), form([]), no_times)).num_rows == 0
    assert pa.record_batch(bench.rates.get_batch(form([]), no_times)).num_rows == 0
    assert (
        pa.record_batch(
            bench.rates.apply_batch(pa.array([], pa.bool_()), form([]), form([]), no_times)
        ).num_rows
        == 0
    )
    assert pa.RecordBatchReader.from_stream(bench.rates.scan_batches()).read_all().num_rows == 0
    assert bench.db.approximate_num_uncommitted_bytes == 0


def test_a_stream_without_chunks_is_an_empty_column(bench):
    bench.kv.put_batch(pa.chunked_array([], pa.binary()), pa.chunked_array([], pa.string()))
    assert list(bench.kv.range()) == []


def test_columns_may_have_different_chunks(bench):
    keys = pa.chunked_array([[b"a"], [b"b", b"c"]], pa.binary())
    values = pa.chunked_array([[b"1", b"2"], [b"3"]], pa.binary())
    times = pa.chunked_array([[1], [2], [3]], pa.int64())
    bench.kv.put_batch(keys, values)
    bench.rates.put_batch(keys, values, times)
    assert list(bench.kv.range()) == [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]
    assert [version.timestamp for _, version in bench.rates.scan()] == [1, 2, 3]


def test_keys_of_a_fixed_size_are_accepted(bench):
    keys = pa.array([b"aa", b"bb"], pa.binary(2))
    bench.kv.put_batch(keys, pa.array([b"1", b"2"]))
    assert pa.array(bench.kv.get_batch(keys)).to_pylist() == [b"1", b"2"]


def test_a_column_of_nulls_deletes(bench):
    bench.kv.put_batch(pa.array([b"a", b"b"]), pa.array([b"1", b"2"]))
    bench.kv.put_batch(pa.array([b"a"]), pa.nulls(1))
    assert list(bench.kv.range()) == [(b"b", b"2")]


def test_batches_need_no_order_and_the_last_of_a_key_wins(bench):
    bench.kv.put_batch(pa.array([b"z", b"a", b"m", b"a"]), pa.array([b"1", b"2", b"3", b"4"]))
    assert list(bench.kv.range()) == [(b"a", b"4"), (b"m", b"3"), (b"z", b"1")]


def test_a_batch_of_mixed_operations_is_applied_in_order(bench):
    batch = bench.rates.apply_batch(
        pa.array([False, True, False, True, False, True, False]),
        pa.array([b"k"] * 7),
        pa.array([None, b"a", None, b"b", b"ignored", None, None]),
        pa.array([50, 10, 50, 40, 39, 60, 60]),
    )
    assert [tuple(row.values()) for row in pa.record_batch(batch).to_pylist()] == [
        (None, None, None, None),
        (True, None, None, None),
        (None, b"a", 10, None),
        (True, None, None, None),
        (None, b"a", 10, 40),
        (True, None, None, None),
        (None, None, None, None),
    ]


# Times.

MOMENT = dt.datetime(2026, 11, 21, 8, 30, 15, 123456, dt.UTC)
MICROS = int((MOMENT - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) / dt.timedelta(microseconds=1))
BEFORE_1970 = dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, dt.UTC)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (pa.array([MICROS]), MICROS),
        (pa.array([MOMENT], pa.timestamp("us")), MICROS),
        (pa.array([MOMENT], pa.timestamp("us", "Europe/Berlin")), MICROS),
        (pa.array([MOMENT], pa.timestamp("ns", "UTC")), MICROS),
        (pa.array([MICROS // 1000], pa.timestamp("ms")), MICROS // 1000 * 1000),
        (pa.array([MICROS // 1_000_000], pa.timestamp("s")), MICROS // 1_000_000 * 1_000_000),
        (pa.array([BEFORE_1970], pa.timestamp("us", "UTC")), -1),
        (pa.array([-1], pa.timestamp("ns")), -1),
        (pa.array([-1001], pa.timestamp("ns")), -2),
        (pa.array([-1], pa.timestamp("s")), -1_000_000),
        (pa.array([MICROS]).dictionary_encode(), MICROS),
        (pa.array([None, MICROS, None])[1:2], MICROS),
    ],
)
def test_times_of_every_unit_become_microseconds(bench, times, expected):
    bench.rates.put_batch(pa.array([b"k"]), pa.array([b"v"]), times)
    assert bench.rates.get(b"k") == (b"v", expected, None)
    assert pa.record_batch(bench.rates.get_batch(pa.array([b"k"]), times)).column(
        "timestamp"
    ).to_pylist() == [expected]


def test_a_time_that_does_not_fit_names_its_row(bench):
    times = pa.array([0, 2**62], pa.timestamp("s"))
    with pytest.raises(ValueError, match="row 1 of timestamps does not fit"):
        bench.rates.put_batch(pa.array([b"a", b"b"]), pa.array([b"1", b"2"]), times)
    assert list(bench.rates.scan()) == []


@pytest.mark.parametrize(
    "times",
    [
        pa.array([1, None, 3]),
        pa.chunked_array([[1], [None, 3]]),
        pa.array([1, None, 3]).dictionary_encode(),
    ],
)
def test_a_null_time_names_its_row(bench, times):
    keys, values = pa.array(KEYS), pa.array([b"1", b"2", b"3"])
    with pytest.raises(ValueError, match="row 1 of timestamps is null"):
        bench.rates.put_batch(keys, values, times)
    with pytest.raises(ValueError, match="row 1 of timestamps is null"):
        bench.rates.apply_batch(pa.array([True, True, True]), keys, values, times)
    with pytest.raises(ValueError, match="row 1 of as_of is null"):
        bench.rates.get_batch(keys, times)
    assert list(bench.rates.scan()) == []


# A bad row anywhere: nothing is written.


@pytest.mark.parametrize(
    "keys",
    [
        pa.array([b"a", None, b"c"]),
        pa.chunked_array([[b"a"], [None, b"c"]]),
        pa.chunked_array([[b"a", None], [b"c"]]),
        pa.array([b"junk", b"a", None, b"c"])[1:],
        pa.array([b"a", None, b"c"]).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array([b"a", None, b"c"])),
    ],
)
def test_a_null_key_names_its_row_and_nothing_is_written(bench, keys):
    values, times = pa.array([b"1", b"2", b"3"]), pa.array([1, 2, 3])
    for call in [
        lambda: bench.kv.put_batch(keys, values),
        lambda: bench.kv.delete_batch(keys),
        lambda: bench.kv.get_batch(keys),
        lambda: bench.rates.put_batch(keys, values, times),
        lambda: bench.rates.get_batch(keys),
        lambda: bench.rates.apply_batch(pa.array([True, True, True]), keys, values, times),
        lambda: bench.db.restore_batch("kv", keys, values, None, {}),
    ]:
        with pytest.raises(ValueError, match="row 1 of keys is null"):
            call()
    assert list(bench.kv.range()) == []
    assert list(bench.rates.scan()) == []
    bench.db.commit()  # the failed calls did not poison the transaction


@pytest.mark.parametrize(
    ("column", "call"),
    [
        ("keys", lambda b, wrong: b.kv.put_batch(wrong, pa.array([b"1"]))),
        ("values", lambda b, wrong: b.kv.put_batch(pa.array([b"a"]), wrong)),
        ("keys", lambda b, wrong: b.kv.get_batch(wrong)),
        ("keys", lambda b, wrong: b.kv.delete_batch(wrong)),
        ("keys", lambda b, wrong: b.rates.put_batch(wrong, pa.array([b"1"]), pa.array([1]))),
        ("values", lambda b, wrong: b.rates.put_batch(pa.array([b"a"]), wrong, pa.array([1]))),
    ],
)
@pytest.mark.parametrize(
    ("wrong", "came"),
    [
        (pa.array([1]), "Int64"),
        (pa.array([1.5]), "Float64"),
        (pa.array([[b"a"]]), "List"),
        (pa.array([{"x": b"a"}]), "Struct"),
        (pa.array([True]), "Boolean"),
    ],
)
def test_a_wrong_type_names_the_column_and_the_given_type(bench, column, call, wrong, came):
    with pytest.raises(
        TypeError, match=rf"column {column} has Arrow type {came}.*wanted binary or string"
    ):
        call(bench, wrong)
    assert list(bench.kv.range()) == []


@pytest.mark.parametrize(
    "wrong",
    [
        pa.array(["2026-01-01"]),
        pa.array([1.5]),
        pa.array([1], pa.int32()),
        pa.array([1], pa.date32()),
    ],
)
def test_a_wrong_type_of_times_names_the_column(bench, wrong):
    with pytest.raises(
        TypeError, match=r"column timestamps has Arrow type .*wanted int64.*timestamp"
    ):
        bench.rates.put_batch(pa.array([b"a"]), pa.array([b"1"]), wrong)
    with pytest.raises(TypeError, match=r"column as_of has Arrow type .*wanted int64.*timestamp"):
        bench.rates.get_batch(pa.array([b"a"]), wrong)


def test_is_put_must_be_true_or_false(bench):
    rest = pa.array([b"a", b"b"]), pa.array([b"1", b"2"]), pa.array([1, 2])
    with pytest.raises(TypeError, match="column is_put has Arrow type Int64; wanted bool"):
        bench.rates.apply_batch(pa.array([1, 0]), *rest)
    with pytest.raises(ValueError, match="row 1 of is_put is null"):
        bench.rates.apply_batch(pa.array([True, None]), *rest)
    assert list(bench.rates.scan()) == []


@pytest.mark.parametrize("wrong", [[b"a"], b"a", None, 1])
def test_an_argument_that_is_not_arrow_data_is_named(bench, wrong):
    with pytest.raises(
        TypeError, match=rf"keys is a {type(wrong).__name__}; wanted: an Arrow array"
    ):
        bench.kv.put_batch(wrong, pa.array([b"1"]))


def test_columns_must_be_of_one_length(bench):
    with pytest.raises(ValueError, match="keys has 2 rows, values has 1"):
        bench.kv.put_batch(pa.array([b"a", b"b"]), pa.array([b"1"]))
    with pytest.raises(ValueError, match="keys has 1 rows, timestamps has 2"):
        bench.rates.put_batch(pa.array([b"a"]), pa.array([b"1"]), pa.array([1, 2]))
    assert list(bench.kv.range()) == []


def test_a_stream_that_fails_writes_nothing(bench):
    def batches():
        yield pa.record_batch({"k": pa.array([b"a"])})
        raise RuntimeError("the source broke")

    schema = pa.schema([("k", pa.binary())])

    class Broken:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.RecordBatchReader.from_batches(schema, batches()).__arrow_c_stream__()

    with pytest.raises(ValueError, match="keys: reading the Arrow stream failed.*the source broke"):
        bench.kv.put_batch(Broken(), pa.array([b"1"]))
    assert list(bench.kv.range()) == []


def untyped_batches():
    """Returns a stream with an untyped column. It fails after one batch; then it is at its end."""
    schema = pa.schema([("a", pa.int64()), ("b", pa.null())])

    def batches():
        yield pa.record_batch([pa.array([1]), pa.nulls(1)], schema=schema)
        raise OSError("the source broke")

    return pa.RecordBatchReader.from_batches(schema, batches())


@pytest.mark.parametrize("with_pyarrow", [True, False])
def test_a_failed_stream_without_a_type_is_not_treated_as_ended(monkeypatch, with_pyarrow):
    key = hf.serde.struct(pa.schema([("a", pa.int64()), ("b", pa.string())]))
    with hf.open(None, [hf.stores.key_value("kv", key=key)]) as db:
        db["kv"].put((1, None), b"v")
        stream = untyped_batches()
        if not with_pyarrow:
            monkeypatch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(
            ValueError, match="keys: reading the Arrow stream failed.*the source broke"
        ):
            db["kv"].delete_batch(stream)
        assert db["kv"].get((1, None)) == b"v"


def test_a_stream_without_a_type_is_read_once(bench):
    class Once:
        def __init__(self, series):
            self.streams = [series.__arrow_c_stream__()]

        def __arrow_c_stream__(self, requested_schema=None):
            return self.streams.pop()

    bench.kv.put(b"a", b"1")
    bench.kv.put_batch(pl.Series([b"a"]), Once(pl.Series([None])))
    assert list(bench.kv.range()) == []


# Output.


def test_streams_come_in_batches_of_the_asked_size(bench):
    for n in range(25):
        bench.kv.put(b"%02d" % n, b"v")
        bench.rates.put(b"%02d" % n, b"v", n)
    for reader in [
        bench.kv.range_batches(batch_rows=10),
        bench.rates.scan_batches(batch_rows=10),
        bench.rates.versions_batches(None, None, 0, 99, batch_rows=10),
    ]:
        batches = list(pa.RecordBatchReader.from_stream(reader))
        assert [batch.num_rows for batch in batches] == [10, 10, 5]
        assert pa.Table.from_batches(batches).column("key").to_pylist() == [
            b"%02d" % n for n in range(25)
        ]
    assert [len(batch) for batch in bench.kv.range_batches(batch_rows=12)] == [12, 12, 1]
    assert pl.DataFrame(bench.rates.scan_batches()).columns == [
        "key",
        "value",
        "timestamp",
        "valid_to",
    ]


def test_a_reverse_range_comes_in_batches(bench):
    for key in b"abcd":
        bench.kv.put(bytes([key]), b"v")
    table = pa.RecordBatchReader.from_stream(
        bench.kv.range_batches(b"b", b"d", reverse=True, batch_rows=2)
    ).read_all()
    assert table.column("key").to_pylist() == [b"d", b"c", b"b"]


@pytest.mark.parametrize("rows", [0, -1])
def test_batch_rows_must_be_positive(bench, rows):
    with pytest.raises(ValueError, match=f"batch_rows is {rows}"):
        bench.kv.range_batches(batch_rows=rows)


def test_a_stream_is_a_snapshot(bench):
    bench.kv.put(b"a", b"1")
    reader = bench.kv.range_batches()
    bench.kv.put(b"b", b"2")
    bench.db.commit()
    assert pa.RecordBatchReader.from_stream(reader).read_all().num_rows == 1


def test_a_stream_can_be_exported_once(bench):
    reader = bench.kv.range_batches()
    pa.RecordBatchReader.from_stream(reader).read_all()
    with pytest.raises(hf.errors.HoldfastError, match="already exported"):
        pa.RecordBatchReader.from_stream(reader)


def test_results_are_read_by_pyarrow_and_polars(bench):
    bench.rates.put(b"k", b"v", 7)
    batch = bench.rates.get_batch(pa.array([b"k", b"x"]))
    assert len(batch) == 2
    assert batch.column_names == ["value", "timestamp", "valid_to"]
    assert pa.table(batch).num_rows == 2
    assert pl.DataFrame(batch)["timestamp"].to_list() == [7, None]
    assert pa.array(bench.kv.get_batch(pa.array([b"k"]))).type == pa.binary()


@pytest.mark.parametrize(
    "empty",
    [pa.nulls(0), pa.array([]), pa.chunked_array([], pa.null()), pa.nulls(3)[1:1], pl.Series([])],
    ids=["nulls", "array", "chunked", "sliced", "polars"],
)
def test_a_column_without_rows_needs_no_type(empty):
    stores = [
        hf.stores.timestamped_key_value("t"),
        hf.stores.versioned("v", history_retention=10),
        hf.stores.window("w", retention=10, window_size=1),
        hf.stores.session("s", retention=10),
    ]
    with hf.open(None, stores) as db:
        db["t"].put_batch(empty, empty, empty)
        db["w"].put_batch(empty, empty, empty)
        db["s"].put_batch(empty, empty, empty, empty)
        db.restore_batch("v", empty, empty, empty, {})
        for batch in [
            db["v"].put_batch(empty, empty, empty),
            db["v"].get_batch(empty, empty),
            db["v"].apply_batch(empty, empty, empty, empty),
            db["s"].find_batch(empty, empty, empty),
        ]:
            assert pa.record_batch(batch).num_rows == 0
        key, null = pa.array([b"a"]), pa.nulls(1)
        with pytest.raises(ValueError, match="row 0 of timestamps is null"):
            db["v"].put_batch(key, key, null)
        with pytest.raises((TypeError, ValueError), match="is_put"):
            db["v"].apply_batch(null, key, key, pa.array([1]))


def test_polars_columns_without_a_type_are_accepted(bench):
    bench.kv.put_all([(b"a", b"1"), (b"b", b"2")])
    bench.kv.put_batch(pl.Series([b"a", b"b"]), pl.Series([None, None]))
    assert list(bench.kv.range()) == []
    bench.rates.put(b"a", b"1", 5)
    columns = pl.Series([False]), pl.Series([b"a"]), pl.Series([None]), pl.Series([5])
    assert pa.record_batch(bench.rates.apply_batch(*columns)).column("value").to_pylist() == [b"1"]
    with pytest.raises(ValueError, match="row 0 of keys is null"):
        bench.kv.get_batch(pl.Series([None]))


def test_polars_fields_without_a_type_are_accepted():
    value = hf.serde.struct(pa.schema([("x", pa.int64()), ("n", pa.string())]))
    with hf.open(None, [hf.stores.key_value("kv", value=value)]) as db:
        db["kv"].put_batch(pl.Series([b"a"]), pl.DataFrame({"x": [1], "n": [None]}))
        assert db["kv"].get(b"a") == (1, None)


def test_without_pyarrow_a_column_without_a_type_is_refused(bench, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        ValueError,
        match="values: reading the Arrow stream failed.*column without a type.*install pyarrow",
    ):
        bench.kv.put_batch(pl.Series([b"a"]), pl.Series([None]))
