"""Calls of a key-value store of bytes, some of which are methods of the extension itself."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast as hf


def message(call: Any) -> tuple[type, str]:
    """Returns the class and the words of the error that a call raises."""
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    return type(caught.value), str(caught.value)


@pytest.mark.parametrize("length", [0, 1, 511, 512, 513, 1 << 20])
def test_a_value_of_any_length_is_returned(bench, length):
    value = bytes(n % 251 for n in range(length))
    bench.kv.put(b"a", value)
    assert bench.kv.get(b"a") == value
    bench.db.commit()
    assert bench.kv.get(b"a") == bench.kv.read_only().get(b"a") == value


def test_arguments_may_be_named_and_of_a_subclass_of_bytes(bench):
    class Name(bytes):
        pass

    bench.kv.put(key=Name(b"a"), value=Name(b"1"))
    assert bench.kv.get(key=Name(b"a")) == b"1"
    bench.kv.put(value=None, key=b"a")
    assert bench.kv.get(b"a") is None


@pytest.mark.parametrize(
    "wrong",
    [None, "text", 1, bytearray(b"x"), [b"x"], "\u00e9" * 200, "\ud800"],
    ids=lambda wrong: type(wrong).__name__,
)
def test_all_methods_refuse_an_argument_in_the_same_words(bench, wrong):
    kv = bench.kv
    # `put_if_absent` converts its arguments in Python.
    as_key = message(lambda: kv.put_if_absent(wrong, b"1"))
    assert message(lambda: kv.get(wrong)) == as_key
    assert message(lambda: kv.read_only().get(wrong)) == as_key
    assert message(lambda: kv.put(wrong, b"1")) == as_key
    assert message(lambda: kv.put(wrong, 1)) == as_key
    if wrong is not None:
        as_value = message(lambda: kv.put_if_absent(b"a", wrong))
        assert message(lambda: kv.put(b"a", wrong)) == as_value
    assert list(kv.range()) == []


def test_a_subclass_keeps_its_methods(bench):
    class Upper(hf.KeyValueStore[bytes, bytes]):
        def get(self, key):
            return super().get(key).upper()

        def put(self, key, value):
            super().put(key, value + b"!")

    store = Upper(bench.kv._owner, bench.kv._builder, bench.kv._core)
    store.put(b"a", b"text")
    assert store.get(b"a") == b"TEXT!"
    assert bench.kv.get(b"a") == b"text!"


@pytest.mark.parametrize(
    ("key", "value"),
    [(hf.serde.STRING, hf.serde.BYTES), (hf.serde.BYTES, hf.serde.STRING)],
    ids=["key", "value"],
)
def test_a_store_with_one_serde_uses_it(tmp_path, key, value):
    k, v = ("a" if key is hf.serde.STRING else b"a"), ("1" if value is hf.serde.STRING else b"1")
    with hf.open(tmp_path / "db", [hf.stores.key_value("kv", key=key, value=value)]) as db:
        db["kv"].put(k, v)
        assert db["kv"].get(k) == v
        db.commit()
        assert db["kv"].read_only().get(k) == v
