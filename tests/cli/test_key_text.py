"""Keys as text on the command line: exactly the value that the text names, or an error."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from holdfast._reader.text_value import value_of_text

STRUCT = pa.struct(
    [
        ("k", pa.string()),
        ("n", pa.int64()),
        ("b", pa.binary()),
        ("t", pa.timestamp("us", tz="UTC")),
        ("d", pa.decimal128(5, 2)),
    ]
)


def test_a_struct_is_a_json_object_with_text_for_what_json_lacks():
    text = '{"k": "00ff", "n": 3, "b": "00ff", "t": "2026-01-02T03:04:05Z", "d": 1.25}'
    assert value_of_text(text, STRUCT, "KEY") == {
        "k": "00ff",
        "n": 3,
        "b": b"\x00\xff",
        "t": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "d": Decimal("1.25"),
    }
    assert value_of_text('[["0a"], null]', pa.list_(pa.list_(pa.binary())), "KEY") == [
        [b"\n"],
        None,
    ]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('{"k": "a", "n": 3.7}', r"KEY\.n is int64.*'3\.7'"),
        ('{"k": "a"}', r"fields \['k'\].*\['k', 'n'\]"),
        ('{"k": "a", "n": 3, "m": 1}', r"'m'"),
        ('{"K": "a", "n": 3}', r"'K'"),
        ('{"k": 1.5, "n": 3}', r"KEY\.k is string.*1\.5 is a number"),
        ('{"k": 1, "n": 3}', "field k, 1"),
        ('{"k": "a", "n": true}', "field n, True"),
        ("3", "3 is a int"),
        ('{"k"', "no JSON"),
    ],
)
def test_a_nested_key_that_json_does_not_name_exactly_is_refused(text, named):
    # A regression test: pyarrow dropped fractions and unknown fields, and the row of another key
    # was found.
    kind = pa.struct([("k", pa.string()), ("n", pa.int64())])
    with pytest.raises(ValueError, match=named):
        value_of_text(text, kind, "KEY")


def test_a_dictionary_is_text_of_its_values():
    # A regression test: the four letters of "00ff" were the key.
    kind = pa.struct(
        [
            (name, pa.dictionary(pa.int32(), type_))
            for name, type_ in (("b", pa.binary()), ("s", pa.string()))
        ]
    )
    assert value_of_text('{"b": "00ff", "s": "x"}', kind, "KEY") == {"b": b"\x00\xff", "s": "x"}
    with pytest.raises(ValueError, match=r"KEY\.s is string.*1\.5 is a number"):
        value_of_text('{"b": "00ff", "s": 1.5}', kind, "KEY")
    doubles = pa.dictionary(pa.int32(), pa.float64())
    assert value_of_text("0.1", doubles, "KEY") == 0.1
    with pytest.raises(ValueError, match="rounds"):
        value_of_text("9007199254740993", doubles, "KEY")
    with pytest.raises(ValueError, match="beyond its range"):
        value_of_text("1e400", doubles, "KEY")
    assert value_of_text("-inf", doubles, "KEY") == -float("inf")
