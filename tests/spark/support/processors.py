"""Processors for tests, in a module because Python workers import them."""

from __future__ import annotations

import os
import secrets
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from every_method import BUILDERS, script

import holdfast as hf
from holdfast.errors import SerializationError, UnsupportedOperationError

STRING, INT64 = hf.serde.STRING, hf.serde.INT64
OUT = "k string, n bigint"


def rows(*found: tuple[Any, ...], **types: pa.DataType) -> pa.RecordBatch:
    """A batch of rows."""
    columns = [[row[index] for row in found] for index in range(len(types))]
    return pa.record_batch(
        [pa.array(c, t) for c, t in zip(columns, types.values(), strict=True)], names=list(types)
    )


class Hits:
    """Counts the rows of a key one by one, and returns the count at each."""

    stores = (hf.stores.key_value("hits", key=STRING, value=INT64),)

    def process(self, batch, ctx):
        found = []
        for key in batch["k"].to_pylist():
            hits = (ctx["hits"].get(key) or 0) + 1
            ctx["hits"].put(key, hits)
            found.append((key, hits))
        yield rows(*found, k=pa.string(), n=pa.int64())


class Totals:
    """Counts the rows of each key, and those of its partition under the key `all`.

    Several partitions have a row of `all`.
    """

    stores = (hf.stores.key_value("totals", key=STRING, value=INT64),)

    def process(self, batch, ctx):
        for key in [*batch["k"].to_pylist(), *["all"] * len(batch)]:
            ctx["totals"].put(key, (ctx["totals"].get(key) or 0) + 1)
        return []


class Recount:
    """Stores the last row of each key and returns the changes in the number of keys per value.

    The last row is the valid one, whatever its time.
    """

    stores = (hf.stores.key_value("table", key=STRING, value=STRING),)

    def process(self, batch, ctx):
        found = []
        for row in batch.to_pylist():
            before = ctx["table"].get(row["k"])
            ctx["table"].put(row["k"], row["v"])
            found += [
                (value, change)
                for value, change in ((before, -1), (row["v"], 1))
                if value is not None
            ]
        yield rows(*found, k=pa.string(), n=pa.int64())


class Chance:
    """Stores and returns a random number for each key."""

    stores = (hf.stores.key_value("numbers", key=STRING, value=INT64),)

    def process(self, batch, ctx):
        for key in batch["k"].to_pylist():
            number = secrets.randbits(60)
            ctx["numbers"].put(key, number)
            yield rows((key, number), k=pa.string(), n=pa.int64())


class Tickets:
    """Counts the rows of a key; returns the count, the key's last random number and a new one."""

    stores = (
        hf.stores.key_value("hits", key=STRING, value=INT64),
        hf.stores.key_value("drawn", key=STRING, value=INT64),
    )

    def process(self, batch, ctx):
        for key in batch["k"].to_pylist():
            hits, drawn = (ctx["hits"].get(key) or 0) + 1, secrets.randbits(60)
            before = ctx["drawn"].get(key)
            ctx["hits"].put(key, hits)
            ctx["drawn"].put(key, drawn)
            yield rows(
                (key, hits, before, drawn),
                k=pa.string(),
                hits=pa.int64(),
                before=pa.int64(),
                drawn=pa.int64(),
            )


class Keeping:
    """Has the stores and other objects that it is made with, and returns nothing."""

    def __init__(self, *stores: Any, **others: Any) -> None:
        self.stores, self.others = stores, others

    def process(self, batch, ctx):
        return []


class EveryKind:
    """Puts each row into a store of each kind, at a time of ten times `x` microseconds."""

    stores = tuple(BUILDERS)

    def process(self, batch, ctx):
        for row in batch.to_pylist():
            key, value = row["k"], row["x"]
            time = row["x"] * 10
            ctx["kv"].put(key, value)
            ctx["raw"].put(key.encode(), str(value).encode())
            ctx["rows"].put({"k": key, "n": value}, {"value": value})
            ctx["ts"].put(key, value, time)
            ctx["v"].put(key, value, time)
            ctx["w"].put(key, value, time)
            ctx["many"].put(key.encode(), str(value).encode(), time)
            ctx["tw"].put(key, value, time, time + 1)
            ctx["s"].put(hf.WindowedKey(key, time, time + 5), value)
        return []


class EveryChange(EveryKind):
    """Puts rows as `EveryKind` does; a negative `x` deletes what the row of `-x` has put.

    The store `many` retains duplicates, so nothing is deleted there.
    """

    def process(self, batch, ctx):
        rows_ = pa.table(batch)
        deleted = [row for row in rows_.to_pylist() if row["x"] < 0]
        super().process(rows_.filter(pc.greater(rows_["x"], 0)), ctx)
        for row in deleted:
            key, time = row["k"], -row["x"] * 10
            ctx["kv"].delete(key)
            ctx["raw"].delete(key.encode())
            ctx["rows"].delete({"k": key, "n": -row["x"]})
            ctx["ts"].delete(key)
            ctx["v"].delete(key, time + 1)
            ctx["w"].put(key, None, time)
            ctx["tw"].put(key, None, time, time)
            ctx["s"].remove(hf.WindowedKey(key, time, time + 5))
        return []


class Sums:
    """Sums `x` by key with batch calls."""

    stores = (hf.stores.key_value("sums", key=STRING, value=INT64),)

    def process(self, batch, ctx):
        sums = pa.table(batch).group_by("k").aggregate([("x", "sum")])
        keys = sums["k"].combine_chunks()
        before = pa.array(ctx["sums"].get_batch(keys)).fill_null(0)
        now = pa.array(
            [a + b for a, b in zip(before.to_pylist(), sums["x_sum"].to_pylist(), strict=True)],
            pa.int64(),
        )
        ctx["sums"].put_batch(keys, now)
        yield pa.record_batch([keys, now], names=["k", "n"])


class Latest:
    """Keeps the newest value of each key, and its versions; a negative one deletes."""

    stores = (
        hf.stores.key_value("latest", key=STRING, value=INT64),
        hf.stores.versioned("versions", key=STRING, value=INT64, history_retention=10**12),
    )

    def process(self, batch, ctx):
        for row in sorted(batch.to_pylist(), key=lambda row: row["t"]):
            value = row["x"] if row["x"] >= 0 else None
            ctx["latest"].put(row["k"], value)
            ctx["versions"].put(row["k"], value, row["t"])
        return []


class LatestOfStruct:
    """Keeps the versions of each key. Keys are nested structs; a negative value deletes."""

    key = hf.serde.struct(pa.schema([("of", pa.struct([("k", pa.string()), ("n", pa.float64())]))]))
    stores = (hf.stores.versioned("versions", key=key, value=INT64, history_retention=10**12),)

    def process(self, batch, ctx):
        for row in sorted(batch.to_pylist(), key=lambda row: row["t"]):
            value = row["x"] if row["x"] >= 0 else None
            ctx["versions"].put({"of": {"k": row["k"], "n": float("nan")}}, value, row["t"])
        return []


UNSIGNED = hf.serde.struct(
    pa.schema([("a", pa.uint8()), ("b", pa.uint16()), ("c", pa.uint32()), ("d", pa.uint64())])
)


class Unsigned:
    """Stores the greatest number of each unsigned type."""

    stores = (hf.stores.key_value("unsigned", key=UNSIGNED, value=UNSIGNED),)

    def process(self, batch, ctx):
        most = {"a": 2**8 - 1, "b": 2**16 - 1, "c": 2**32 - 1, "d": 2**64 - 1}
        ctx["unsigned"].put(most, most)
        return []


class Fails(Hits):
    """Behaves as `Hits`, but its first attempt fails in mid-batch, as `how` says."""

    def __init__(self, mark: Path, how: str) -> None:
        self.mark, self.how = mark, how

    def process(self, batch, ctx):
        yield from super().process(batch, ctx)
        ctx["hits"].approximate_num_entries()  # the writes have reached the host
        if not self.mark.exists():
            self.mark.touch()
            if self.how == "raise":
                raise RuntimeError("the first attempt fails")
            os.kill(os.getpid(), signal.SIGKILL)


class Reminders:
    """Returns a key ten seconds after each of its rows.

    A key that begins with `again` is returned once more, a second after its first return.
    """

    stores = (hf.stores.key_value("fired", key=STRING, value=INT64),)

    def process(self, batch, ctx):
        for key, time in zip(
            batch["k"].to_pylist(), batch["t"].cast(pa.int64()).to_pylist(), strict=True
        ):
            ctx.set_timer(key, time + 10_000_000)
            ctx.set_timer(key, time + 10_000_000)
        return []

    def on_timer(self, key, at, ctx):
        fired = (ctx["fired"].get(key) or 0) + 1
        ctx["fired"].put(key, fired)
        if key.startswith("again") and fired == 1:
            ctx.set_timer(key, at + 1_000_000)
        yield rows((key, at // 1_000_000 - 1_704_067_200), k=pa.string(), n=pa.int64())


class EveryMethod:
    """Runs the script of all stores' methods on each batch, and returns the results as text."""

    stores = BUILDERS

    def process(self, batch, ctx):
        given = script(ctx)
        refused = []
        for call in (
            ctx["kv"].commit,
            ctx["kv"].read_only,
            lambda: ctx.set_timer("a", 1),
            lambda: ctx["none"],
        ):
            try:
                call()
            except Exception as error:  # noqa: BLE001 - the test compares the errors
                refused.append(f"{type(error).__name__}: {error}")
        ctx.commit()
        where = [
            f"{ctx.epoch} {ctx.partition} {ctx.stream_time} {ctx.commits}",
            str(ctx["kv"].committed_offset(("t", 0))),
        ]
        yield rows(*((line,) for line in given + refused + where), line=pa.string())


class Catches:
    """Catches the errors of reads that its store refuses, and continues."""

    stores = (
        hf.stores.window(
            "all", key=STRING, value=INT64, retention=60, window_size=10, retain_duplicates=True
        ),
        hf.stores.key_value("hits", key=STRING, value=INT64),
    )

    def process(self, batch, ctx):
        ctx["hits"].put("a", 1)
        caught = []
        for read in (
            lambda: ctx["all"].fetch("a", 5),
            lambda: ctx["all"].fetch_batch(pa.array(["a"]), pa.array([5])),
        ):
            try:
                read()
            except UnsupportedOperationError as error:
                caught.append(str(error).split(",")[0])
        yield rows(*((line, ctx["hits"].get("a")) for line in caught), k=pa.string(), n=pa.int64())


class AsksTooMuch:
    """Reads keys that are too large, alone and together, and continues after each error."""

    stores = (hf.stores.key_value("hits", value=INT64),)

    def process(self, batch, ctx):
        hits = ctx["hits"]
        hits.put(b"a", 1)
        large = bytes(1 << 30)  # zeros that are never written take no memory
        caught = []
        for read in (
            lambda: hits.get(bytes((1 << 30) + 1)),
            lambda: hits._core.get_batch([large, large]),
        ):
            try:
                read()
            except ValueError as error:
                caught.append(str(error))
        yield rows(*((line, hits.get(b"a")) for line in caught), k=pa.string(), n=pa.int64())


class CatchesDecoding:
    """Catches the error of a stored value that its store cannot decode, and continues."""

    stores = (hf.stores.versioned("all", key=STRING, value=INT64, history_retention=60),)

    def process(self, batch, ctx):
        store = ctx["all"]
        store._core.put(b"bad", b"xyz", 1)  # as if stored under another schema
        with suppress(SerializationError):
            store.apply_batch(
                pa.array([True, False]),
                pa.array(["good", "bad"]),
                pa.array([7, None], pa.int64()),
                pa.array([5, 5]),
            )
        yield rows(("a", 1), k=pa.string(), n=pa.int64())


class Columns:
    """Counts the rows of a key in each column of a struct.

    Returns `n`, plus 100 times the earlier count of each column that was added later.
    """

    def __init__(self, **columns: pa.DataType) -> None:
        value = hf.serde.struct(pa.schema([pa.field(name, of) for name, of in columns.items()]))
        self.columns, self.stores = (
            list(columns),
            (hf.stores.key_value("counts", key=STRING, value=value),),
        )

    def process(self, batch, ctx):
        for key in batch["k"].to_pylist():
            stored = ctx["counts"].get(key)
            before = {name: 0 if stored is None else stored[name] or 0 for name in self.columns}
            now = {name: count + 1 for name, count in before.items()}
            ctx["counts"].put(key, now)
            others = sum(100 * before[name] for name in self.columns[1:])
            yield rows((key, now["n"] + others), k=pa.string(), n=pa.int64())
