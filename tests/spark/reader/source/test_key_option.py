"""The option `key` of `spark.read.format("holdfast")`: exactly the keys that its text names."""

from __future__ import annotations

import pyarrow as pa
import pytest

from holdfast.spark.source.key_option import parse_keys

KEY = pa.schema([("key", pa.struct([("k", pa.string()), ("b", pa.binary())]))])


def test_nested_keys_have_bytes_as_hexadecimal_text():
    keys = parse_keys('[{"k": "a", "b": "00ff"}, {"k": "b", "b": null}]', KEY)
    expected = [{"k": "a", "b": b"\x00\xff"}, {"k": "b", "b": None}]
    assert keys["key"].to_pylist() == expected


@pytest.mark.parametrize("text", ['{"k": "a"}', '{"K": "a", "b": "00"}', '{"k": "a", "b": "x"}'])
def test_a_nested_key_that_the_option_does_not_name_exactly_is_refused(text):
    # A regression test: pyarrow filled missing fields and dropped unknown ones.
    with pytest.raises(ValueError, match="option key"):
        parse_keys(f"[{text}]", KEY)


def test_a_number_that_its_column_cannot_hold_is_refused():
    with pytest.raises(ValueError, match="option key: column 'n'"):
        parse_keys(f"[{2**70}]", pa.schema([("n", pa.int64())]))


@pytest.mark.parametrize(
    ("text", "kind", "key"),
    [
        ("[[0.0], [-0.0], [0.0]]", pa.list_(pa.float64()), [0.0]),
        ('[{"f": -0.0}, {"f": 0.0}]', pa.struct([("f", pa.float64())]), {"f": 0.0}),
        ('["a", "a"]', pa.string(), "a"),
    ],
)
def test_keys_that_are_equal_are_one_key(text, kind, key):
    assert parse_keys(text, pa.schema([("k", kind)]))["k"].to_pylist() == [key]
