"""Keys and values that are too large: refused, with nothing staged."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

import holdfast as hf

TOO_LARGE = bytes((1 << 30) + 1)  # zeros that are never touched take no memory


def column(*rows: bytes) -> pa.Array:
    """Returns a column whose last row is TOO_LARGE, without a copy of it."""
    assert rows[-1] is TOO_LARGE
    # The rows before it are empty: all are at the buffer's start.
    ends = [0] * len(rows) + [len(TOO_LARGE)]
    offsets = pa.py_buffer(struct.pack(f"{len(ends)}q", *ends))
    return pa.Array.from_buffers(
        pa.large_binary(), len(rows), [None, offsets, pa.py_buffer(TOO_LARGE)]
    )


@pytest.fixture
def db():
    stores = [
        hf.stores.key_value("kv"),
        hf.stores.timestamped_key_value("stamped"),
        hf.stores.versioned("v", history_retention=10),
        hf.stores.window("w", window_size=10, retention=10),
        hf.stores.session("s", retention=10),
    ]
    with hf.open(None, stores) as db:
        db["kv"].put(b"earlier", b"1")
        yield db


BATCH, TIMES = (b"", TOO_LARGE), pa.array([1, 1])
KEYS = pa.array([b"a", b"b"])


@pytest.mark.parametrize(
    ("write", "named"),
    [
        (lambda t: t["kv"].put(b"k", TOO_LARGE), "bytes"),
        (lambda t: t["kv"].put(TOO_LARGE, b"v"), "bytes"),
        (lambda t: t["stamped"].put(b"k", TOO_LARGE, 1), "bytes"),
        (lambda t: t["v"].put(b"k", TOO_LARGE, 1), "bytes"),
        (lambda t: t["w"].put(b"k", TOO_LARGE, 1), "bytes"),
        (lambda t: t["s"].put(hf.WindowedKey(b"k", 1, 1), TOO_LARGE), "bytes"),
        (lambda t: t["kv"].put_all([(b"a", b"1"), (b"b", TOO_LARGE)]), "entry 1"),
        (lambda t: t["stamped"].put_all([(b"a", b"1", 1), (b"b", TOO_LARGE, 1)]), "entry 1"),
        (lambda t: t["kv"].put_batch(KEYS, column(*BATCH)), "row 1 of values"),
        (lambda t: t["kv"].put_batch(column(*BATCH), KEYS), "row 1 of keys"),
        (lambda t: t["v"].put_batch(KEYS, column(*BATCH), TIMES), "row 1 of values"),
        (
            lambda t: t["v"].apply_batch(pa.array([True, True]), KEYS, column(*BATCH), TIMES),
            "row 1 of values",
        ),
        (lambda t: t["w"].put_batch(KEYS, column(*BATCH), TIMES), "row 1 of values"),
        (lambda t: t["s"].put_batch(KEYS, TIMES, TIMES, column(*BATCH)), "row 1 of values"),
    ],
)
def test_a_key_or_value_of_more_than_a_gibibyte_is_refused_and_nothing_is_staged(db, write, named):
    with pytest.raises(ValueError, match=named):
        write(db)
    assert [db[name].stream_time for name in ("v", "w", "s")] == [None, None, None]
    db.commit()
    assert list(db["kv"].range()) == [(b"earlier", b"1")]
    assert list(db["stamped"].range()) == []
