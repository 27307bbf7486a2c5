"""What a table is for people and libraries: its text, its errors, its dataset."""

from __future__ import annotations

import pyarrow.compute as pc
import pytest
from reading import Connect, stored
from streams import KEYS, Stream, at

import holdfast as hf
import holdfast.spark as hfs
from holdfast.errors import (
    NotUpToBoundError,
    StateMismatchError,
    StoreClosedError,
    UnsupportedOperationError,
)

DAY = "1 day"


def test_tables_print_as_a_table(stream: Stream, connect: Connect):
    stream.batch(left=[("a", 1, 1)])
    stream.run(stored(stream, on="t", history_retention=DAY))
    reader = connect(stream)
    assert repr(reader.tables).splitlines() == [
        "operator  table  kind       key  columns",
        "table     table  versioned  k    valid_from, valid_to, x",
    ]
    assert list(reader.tables) == [("table", "table")]
    assert repr(reader["table"]).startswith("<versioned table table.table by k: k: string")


def test_what_does_not_exist_is_named(stream: Stream, connect: Connect, tmp_path):
    with pytest.raises(StateMismatchError, match="no such folder"):
        hf.connect(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(StateMismatchError, match="there is no state here"):
        hf.connect(tmp_path / "empty")
    stream.batch(left=[("a", 1, 1)])
    stream.run(stored(stream))
    reader = connect(stream)
    with pytest.raises(StateMismatchError, match="'tabel'; the operators are \\['table'\\]"):
        reader["tabel"]
    table = reader["table"]
    with pytest.raises(ValueError, match='no column "y"; it has'):
        table.scan(columns=["y"])
    for key in ("a", "missing"):
        with pytest.raises(ValueError, match="no column 'y'; it has"):
            table.get(key, columns=["y"])
    with pytest.raises(TypeError, match="columns='x': give a list of names"):
        table.get("a", columns="x")
    with pytest.raises(UnsupportedOperationError, match="only a versioned one"):
        table.get("a", as_of=at(1))
    with pytest.raises(UnsupportedOperationError, match="keeps no versions"):
        table.versions("a")
    with pytest.raises(TypeError, match="'epochs' is no option"):
        table.get("a", epochs=3)
    with pytest.raises(NotUpToBoundError, match="epoch 0 is the newest"):
        table.get("a", at_least=1, timeout=0.1)
    with pytest.raises(NotUpToBoundError, match="has not reached epoch 9"):
        table.get("a", epoch=9)
    reader.close()
    with pytest.raises(StoreClosedError, match="reader is closed"):
        table.get("a")


def test_a_column_may_have_the_name_of_the_column_that_the_reader_adds(
    stream: Stream, connect: Connect
):
    stream.batch(left=[("a", 1, 1)])
    frame = stream.source("left").selectExpr("k", "x", "false AS `holdfast.found`")
    stream.run(hfs.materialize(frame, by="k", state=stream.state(), name="table"))
    table = connect(stream)["table"]
    row = {"x": 1, "holdfast.found": False}
    assert table.get("a") == row
    assert table.get("b") is None
    assert table.get("a", columns=["holdfast.found"]) == {"holdfast.found": False}
    assert table.find(["a", "b"]).to_pylist() == [{"k": "a", **row}]
    none = {"k": "b", "x": None, "holdfast.found": None}
    assert table.get_batch(["a", "b"]).to_pylist() == [{"k": "a", **row}, none]


def test_a_table_is_a_dataset_for_other_libraries(stream: Stream, connect: Connect):
    import polars

    stream.batch(left=[(key, number, number) for number, key in enumerate(KEYS)])
    stream.run(stored(stream, on="t", history_retention=DAY))
    table = connect(stream)["table"]
    dataset = table.dataset()
    assert dataset.schema.names == ["k", "valid_from", "valid_to", "x"]
    assert dataset.to_table(columns=["x"], filter=pc.field("k") == "c")["x"].to_pylist() == [2]
    more = (pc.field("k") == "c") & (pc.field("x") > 2)
    assert dataset.count_rows(filter=more) == 0
    assert dataset.count_rows() == len(KEYS)
    frame = polars.scan_pyarrow_dataset(dataset)
    assert frame.filter(polars.col("x") > 5).select("k").collect()["k"].sort().to_list() == [
        "g",
        "h",
    ]
    assert frame.filter(polars.col("k") == "b").collect()["x"].to_list() == [1]
    assert table.dataset(as_of=at(3)).count_rows() == 4
