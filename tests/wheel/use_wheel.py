"""What a user does first, in an environment that has the wheel and nothing of the checkout.

    python tests/wheel/use_wheel.py stores|spark FOLDER

`scripts/wheel-smoke` runs it from a temporary folder: `stores` with the wheel alone, `spark` with
the extras `cli` and `spark` as well.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import holdfast as hf

AT = datetime(2026, 11, 16, tzinfo=UTC)


def check_installed(file: str) -> None:
    """Checks that a module is of this environment and not of a checkout."""
    assert Path(file).is_relative_to(sys.prefix), f"{file} is not in {sys.prefix}"


def stores(folder: Path) -> None:
    """Opens, commits and reopens a database with stores of five kinds."""
    check_installed(hf.__file__)
    kinds = [
        hf.stores.key_value("kv"),
        hf.stores.timestamped_key_value("stamped"),
        hf.stores.versioned("versioned", history_retention=timedelta(days=30)),
        hf.stores.window("window", window_size=timedelta(hours=1), retention=timedelta(days=30)),
        hf.stores.session("session", retention=timedelta(days=30)),
    ]
    later = AT + timedelta(hours=1)
    with hf.open(folder / "db", kinds) as db:
        db["kv"].put(b"k", b"1")
        db["stamped"].put(b"k", b"2", AT)
        db["versioned"].put(b"k", b"3", AT)
        db["versioned"].put(b"k", b"4", later)
        db["window"].put(b"k", b"5", AT)
        db["session"].put(hf.WindowedKey(b"k", AT, later), b"6")
        db.commit({("orders", 3): 41})
    with hf.open(folder / "db", kinds) as db:
        assert db["kv"].get(b"k") == b"1"
        assert db["stamped"].get(b"k").value == b"2"
        assert db["versioned"].get(b"k", as_of=AT).value == b"3"
        assert db["versioned"].get(b"k").value == b"4"
        assert db["window"].fetch(b"k", AT) == b"5"
        assert db["session"].fetch_session(b"k", AT, later) == b"6"
        assert db.committed_offset(("orders", 3)) == 41
    print("stores: 5 kinds committed and reopened")


def spark(folder: Path) -> None:
    """Runs an as-of join as a stream, stops it, and starts it again with a late order."""
    from pyspark.sql import SparkSession

    import holdfast.spark as hfs

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    # The workers run the interpreter on the PATH, as in an environment that was activated.
    where = session.sparkContext.parallelize([0], 1).map(_where).collect()[0]
    assert where == (hf.__file__, sys.prefix), where
    columns = "k string, since timestamp, x int"
    names = ("orders", "rates")

    def batch(number: int, **rows: list[tuple[Any, ...]]) -> None:
        for name in names:
            frame = session.createDataFrame(rows.get(name, []), columns).coalesce(1)
            frame.write.mode("append").json(str(folder / name / str(number)))

    def run() -> list[tuple[Any, ...]]:
        orders, rates = (
            session.readStream.schema(columns).json(str(folder / name / "*")) for name in names
        )
        state = hfs.State(str(folder / "root"), partitions=2)
        joined = hfs.join_asof(
            orders.withColumnsRenamed({"since": "t", "x": "order"}), rates,
            by="k", left_on="t", right_on="since", history_retention="30 days", state=state,
        )  # fmt: skip
        writer = joined.writeStream.option("checkpointLocation", state.checkpoint_location)
        query = writer.trigger(availableNow=True).start(str(folder / "out"), format="parquet")
        query.awaitTermination()
        found = session.read.parquet(str(folder / "out")).select("order", "x").collect()
        return sorted(tuple(row) for row in found)

    day = [datetime(2026, 11, number) for number in range(16, 20)]
    batch(0, rates=[("USD", day[0], 10), ("USD", day[2], 12)], orders=[("USD", day[3], 1)])
    assert (got := run()) == [(1, 12)], got
    batch(1, rates=[("USD", day[1], 11)], orders=[("USD", day[1] + timedelta(hours=9), 2)])
    assert (got := run()) == [(1, 12), (2, 11)], got
    # Spark finds the data source by the name of a module of the wheel.
    rates = session.read.format("holdfast").load(str(folder / "root")).select("k", "x").collect()
    assert [tuple(row) for row in rates] == [("USD", 12)], rates
    session.stop()
    print("spark: 2 orders joined, the second after a restart; the rates read as a DataFrame")


def _where(_: int) -> tuple[str, str]:
    import sys

    import holdfast

    return holdfast.__file__, sys.prefix


if __name__ == "__main__":
    {"stores": stores, "spark": spark}[sys.argv[1]](Path(sys.argv[2]))
