"""How many messages the scalar calls of a processor's stores are."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import holdfast as hf
from holdfast.spark.processor.stores import Stores


class Host:
    """Answers for a key-value store, and counts."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes | None] = {}
        self.asked: list[tuple[str, int]] = []

    def call(self, _: str, method: str, given: Any) -> pa.RecordBatch:
        columns = [list(column) for _, _, column in given]
        self.asked.append((method, len(columns[0])))
        if method == "put":
            self.rows.update(zip(*columns, strict=True))
            return pa.record_batch({})
        found = [self.rows.get(key) for key in columns[0]]
        return pa.record_batch({"value": pa.array(found, pa.binary()), "timestamp": pa.nulls(len(found), pa.int64())})


BATCH = pa.record_batch({"k": pa.array(["a", "b", "a", None]), "n": pa.array([1, 2, 1, 3], pa.int32())})


@pytest.mark.parametrize(
    ("key", "by", "given"),
    [
        (hf.serde.STRING, ["k"], "a"),
        (hf.serde.BYTES, ["k"], b"a"),
        (hf.serde.struct(pa.schema([("k", pa.string()), ("n", pa.int32())])), ["k", "n"], ("a", 1)),
    ],
)
def test_the_keys_of_a_batch_are_fetched_at_once_and_puts_are_sent_at_its_end(key: Any, by: list[str], given: Any):
    host = Host()
    stores = Stores(host, [hf.stores.key_value("kv", key=key)], by)  # type: ignore[arg-type]
    stores.begin_batch(BATCH)
    assert host.asked == []
    for count in (b"1", b"2"):
        stores["kv"].get(given)
        stores["kv"].put(given, count)
        assert stores["kv"].get(given) == count
    assert host.asked == [("get", 2)]
    stores.begin_batch(BATCH)
    assert host.asked == [("get", 2), ("put", 1)]
    assert stores["kv"].get(given) == b"2"


def test_a_batch_whose_keys_are_of_another_kind_is_read_key_by_key():
    host = Host()
    stores = Stores(host, [hf.stores.key_value("kv", key=hf.serde.TIMESTAMP)], ["k"])  # type: ignore[arg-type]
    stores.begin_batch(BATCH)
    assert stores["kv"].get(datetime(2024, 1, 1, tzinfo=UTC)) is None
    assert host.asked == [("get", 1)]
