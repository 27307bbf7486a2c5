"""How many messages the scalar calls of a processor's stores send."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pytest

import holdfast as hf
from holdfast.spark.worker.processor.stores import ProcessorStores

MOST = 16 << 20


class Host:
    """Answers for a key-value store, and counts."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes | None] = {}
        self.asked: list[tuple[str, int]] = []
        self.answered: list[int] = []

    def call(self, _: str, method: str, given: Any) -> pa.RecordBatch:
        columns = [list(column) for _, _, column in given]
        self.asked.append((method, len(columns[0])))
        if method == "put":
            self.rows.update(zip(columns[0], columns[1], strict=True))
            return pa.record_batch({})
        found = [self.rows.get(key) for key in columns[0]]
        ends = list(accumulate(len(value or b"") for value in found))
        if method == "get_ahead":
            found = found[: max(1, sum(end <= MOST for end in ends))]
        elif ends[-1] >= 1 << 30:
            raise hf.errors.SerializationError("more than can be sent at once")
        self.answered.append(len(found))
        return pa.record_batch(
            {"value": pa.array(found, pa.binary()), "timestamp": pa.nulls(len(found), pa.int64())}
        )


BATCH = pa.record_batch(
    {"k": pa.array(["a", "b", "a", None]), "n": pa.array([1, 2, 1, 3], pa.int32())}
)


@pytest.mark.parametrize(
    ("key", "by", "given"),
    [
        (hf.serde.STRING, ["k"], "a"),
        (hf.serde.BYTES, ["k"], b"a"),
        (hf.serde.struct(pa.schema([("k", pa.string()), ("n", pa.int32())])), ["k", "n"], ("a", 1)),
    ],
)
def test_keys_of_a_batch_are_prefetched_and_puts_are_sent_at_its_end(
    key: Any, by: list[str], given: Any
):
    host = Host()
    spec = hf.stores.key_value("kv", key=key)
    stores = ProcessorStores(host, [spec], by)  # type: ignore[arg-type]
    stores.begin_batch(BATCH)
    assert host.asked == []
    for count in (b"1", b"2"):
        stores["kv"].get(given)
        stores["kv"].put(given, count)
        assert stores["kv"].get(given) == count
    assert host.asked == [("get_ahead", 2)]
    stores.begin_batch(BATCH)
    assert host.asked == [("get_ahead", 2), ("put", 1)]
    assert stores["kv"].get(given) == b"2"


def test_keys_of_another_type_are_read_one_by_one():
    host = Host()
    spec = hf.stores.key_value("kv", key=hf.serde.TIMESTAMP)
    stores = ProcessorStores(host, [spec], ["k"])  # type: ignore[arg-type]
    stores.begin_batch(BATCH)
    assert stores["kv"].get(datetime(2024, 1, 1, tzinfo=UTC)) is None
    assert host.asked == [("get_ahead", 1)]


LARGE = b"x" * (100 << 10)


def test_a_prefetch_is_bounded_by_its_bytes():
    host = Host()
    host.rows = dict.fromkeys((str(n).encode() for n in range(5_000)), LARGE)
    spec = hf.stores.key_value("kv", key=hf.serde.STRING)
    stores = ProcessorStores(host, [spec], ["k"])  # type: ignore[arg-type]
    store = stores["kv"]
    for batch in range(2):
        stores.begin_batch(pa.record_batch({"k": [str(n) for n in range(10_000)]}))
        # The first 5,000 reads find no entry, so they do not show how large entries are. The others
        # must not be prefetched at once: 5,000 entries of 100 KiB would be 488 MiB.
        for key in [*range(9_999, 4_999, -1), *range(5_000)]:
            assert (store.get(str(key)) is None) == (key >= 5_000)
        asked, host.asked = [keys for _, keys in host.asked], []
        answered, host.answered = sum(host.answered), []
        assert answered == 10_000
        assert all(
            keys <= (256 if batch == 0 and n == 0 else MOST // len(LARGE))
            for n, keys in enumerate(asked)
        ), asked


@pytest.mark.parametrize("builder", [hf.stores.key_value, hf.stores.timestamped_key_value])
def test_keys_that_do_not_fit_a_message_are_fetched_later(builder: Any):
    host = Host()
    few, many = b"x" * (4 << 20), b"x" * (17 << 20)
    host.rows = {
        str(n).encode(): many if n == 150 else few if n < 299 else None for n in range(300)
    }
    spec = builder("kv", key=hf.serde.STRING)
    stores = ProcessorStores(host, [spec], ["k"])  # type: ignore[arg-type]
    stores.begin_batch(pa.record_batch({"k": [str(n) for n in range(300)]}))
    for n in range(300):
        found = stores["kv"].get(str(n))
        assert (
            found if builder is hf.stores.key_value or found is None else found[0]
        ) == host.rows[str(n).encode()]
    # No key is fetched twice, and keys are not fetched one by one.
    assert sum(host.answered) == 300
    assert len(host.answered) < 90


def test_small_entries_need_few_messages():
    host = Host()
    host.rows = {str(n).encode(): b"small" for n in range(10_000)}
    spec = hf.stores.key_value("kv", key=hf.serde.STRING)
    stores = ProcessorStores(host, [spec], ["k"])  # type: ignore[arg-type]
    for _ in range(2):
        stores.begin_batch(pa.record_batch({"k": [str(n) for n in range(10_000)]}))
        for key in range(10_000):
            assert stores["kv"].get(str(key)) == b"small"
    assert [keys for _, keys in host.asked] == [256, 1_024, 4_096, 4_624, 10_000]


STORES = [
    hf.stores.key_value("key_value", key=hf.serde.INT64),
    hf.stores.timestamped_key_value("timestamped", key=hf.serde.INT64),
    hf.stores.window("window", key=hf.serde.INT64, retention=1_000, window_size=10),
    hf.stores.session("session", key=hf.serde.INT64, retention=1_000),
]


@pytest.mark.parametrize("builder", STORES, ids=lambda builder: builder.name)
def test_large_buffered_writes_are_sent_early(builder: Any):
    host = Host()
    store = ProcessorStores(host, [builder], [])[builder.name]  # type: ignore[arg-type]
    more = {"key_value": (), "timestamped": (5,), "window": (5,), "session": (5, 6)}[builder.name]

    def put(key: int, value: bytes) -> None:
        if builder.name == "session":
            store.put((key, *more), value)
        else:
            store.put(key, value, *more)

    for key in range(400):
        put(key, LARGE)
    assert [rows for _, rows in host.asked] == [164, 164]
    store = ProcessorStores(host, [builder], [])[builder.name]  # type: ignore[arg-type]
    for _ in range(400):
        put(1, LARGE)
    # A key's entry is sent once, however often it was written; all writes of windows and sessions
    # are sent.
    assert len(host.asked) == (2 if builder.name in ("key_value", "timestamped") else 4)


@pytest.mark.parametrize("builder", STORES[:2], ids=lambda builder: builder.name)
@pytest.mark.parametrize("does", ["puts", "puts that are sent", "gets"])
@pytest.mark.parametrize(
    ("count", "value"), [(60_000, b"small"), (100, b"x" * (1 << 20))], ids=["many", "large"]
)
def test_a_large_cache_is_cleared(builder: Any, does: str, count: int, value: bytes):
    # No batch begins here. This is also so while timers fire.
    host, more = Host(), (5,) if builder.name == "timestamped" else ()
    for is_get in [False, True] if does == "gets" else [False]:
        stores = ProcessorStores(host, [builder], [])  # type: ignore[arg-type]
        store = stores[builder.name]
        store.put(-1, b"waits", *more)
        for key in range(count):
            if is_get:
                store.get(key)
            else:
                store.put(key, value, *more)
            if does == "puts that are sent":
                stores.flush()
        if not is_get:
            stores.flush()
    host.asked = []
    found = store.get(0)
    assert (found.value if more else found) == value
    assert host.asked == [("get_ahead", 1)]
    if does == "gets":
        # Writes that the host does not have yet stay in the cache.
        found = store.get(-1)
        assert (found.value if more else found) == b"waits"
        assert host.asked == [("get_ahead", 1)]


class Versions:
    """Answers `apply` from a versioned store with a value that is no integer."""

    def __init__(self, db: hf.Database) -> None:
        self.core = db["v"]._core
        self.core.put(b"bad", b"xyz", 1)
        self.is_closed = False

    def call(self, _: str, method: str, given: Any) -> Any:
        assert method == "apply"
        return self.core.apply_batch(*(column for _, _, column in given))

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("key", ["good", "bad"])
def test_a_value_that_apply_batch_cannot_decode_ends_the_session(key: str):
    spec = hf.stores.versioned("v", history_retention=100, key=hf.serde.STRING)
    with hf.open(None, [spec]) as db:
        host = Versions(db)
        typed = hf.stores.versioned(
            "v", history_retention=100, key=hf.serde.STRING, value=hf.serde.INT64
        )
        store = ProcessorStores(host, [typed], ["k"])["v"]  # type: ignore[arg-type]

        def apply() -> Any:
            return store.apply_batch(
                pa.array([True, False]),
                pa.array(["good", key]),
                pa.array([7, None], pa.int64()),
                pa.array([5, 5]),
            )

        if key == "good":
            assert pa.record_batch(apply())["value"].to_pylist() == [None, 7]
            assert not host.is_closed
        else:
            with pytest.raises(hf.errors.SerializationError):
                apply()
            # A processor that catches the error must not commit the batch's put.
            assert host.is_closed


TOO_LARGE = bytes((1 << 30) + 1)  # zeros that are never touched take no memory
ALL_KINDS = [
    hf.stores.key_value("kv"),
    hf.stores.timestamped_key_value("stamped"),
    hf.stores.versioned("v", history_retention=10),
    hf.stores.window("w", window_size=10, retention=10),
    hf.stores.session("s", retention=10),
]


@pytest.mark.parametrize(
    "write",
    [
        lambda s: s["kv"].put(b"k", TOO_LARGE),
        lambda s: s["kv"].put(TOO_LARGE, b"v"),
        lambda s: s["kv"].put_if_absent(b"k", TOO_LARGE),
        lambda s: s["kv"].put_all([(b"a", b"1"), (b"b", TOO_LARGE)]),
        lambda s: s["stamped"].put(b"k", TOO_LARGE, 1),
        lambda s: s["stamped"].put_all([(b"a", b"1", 1), (b"b", TOO_LARGE, 1)]),
        lambda s: s["v"].put(b"k", TOO_LARGE, 1),
        lambda s: s["w"].put(b"k", TOO_LARGE, 1),
        lambda s: s["s"].put(hf.WindowedKey(b"k", 1, 1), TOO_LARGE),
    ],
)
def test_a_key_or_value_of_more_than_a_gibibyte_is_refused_and_nothing_is_buffered(write: Any):
    host = Host()
    stores = ProcessorStores(host, ALL_KINDS, [])  # type: ignore[arg-type]
    stores["kv"].put(b"earlier", b"1")
    with pytest.raises(ValueError, match="1073741825 bytes, and a store accepts at most"):
        write(stores)
    stores.flush()
    assert [method for method, _ in host.asked if method != "get_ahead"] == ["put"]
    assert host.rows == {b"earlier": b"1"}
