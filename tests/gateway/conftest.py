"""A root with tables of several kinds, and gateways that serve it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway_client import HOSTILE, Client
from pyspark.sql import functions as F

import holdfast.spark as hfs
from holdfast.gateway import Gateway

PRICES = [
    ("tea", "2026-03-01 09:00:00Z", 3.0),
    ("tea", "2026-03-02 09:00:00Z", 3.5),
    ("jam", "2026-03-01 12:00:00Z", 2.0),
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)


def run(frame: Any, state: hfs.State) -> None:
    """Runs a query until its input is read."""
    writer = frame.writeStream.format("noop").option(
        "checkpointLocation", state.checkpoint_location
    )
    writer.trigger(availableNow=True).start().awaitTermination()


def stream_of(spark: Any, frame: Any, folder: Path) -> Any:
    frame.write.parquet(str(folder))
    return spark.readStream.schema(frame.schema).parquet(str(folder))


@pytest.fixture(scope="session")
def prices(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A root with the versioned table `prices`."""
    folder = tmp_path_factory.mktemp("prices")
    frame = spark.createDataFrame(PRICES, "product string, since string, price double")
    frame = frame.withColumn("since", F.to_timestamp("since"))
    state = hfs.State(str(folder / "shop"), partitions=2)
    changes = stream_of(spark, frame, folder / "input")
    run(
        hfs.materialize(
            changes,
            by="product",
            on="since",
            history_retention="30 days",
            name="prices",
            state=state,
        ),
        state,
    )
    return str(folder / "shop")


@pytest.fixture(scope="session")
def shop(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A root with the versioned table `prices`, in which one row has HTML as its key and value."""
    folder = tmp_path_factory.mktemp("page")
    prices = [
        ("tea", "2026-03-01 09:00:00Z", 3.0, "opening price"),
        ("tea", "2026-03-02 14:00:00Z", 3.5, "new harvest"),
        ("tea", "2026-03-05 08:00:00Z", 3.25, "offer of the week"),
        ("tea", "2026-03-06 08:00:00Z", 3.5, "offer ended"),
        ("jam", "2026-03-01 12:00:00Z", 2.0, "opening price"),
        (HOSTILE, "2026-03-01 12:00:00Z", 1.0, HOSTILE),
    ]
    frame = spark.createDataFrame(prices, "product string, since string, price double, why string")
    frame = frame.withColumn("since", F.to_timestamp("since"))
    state = hfs.State(str(folder / "shop"), partitions=2)
    changes = stream_of(spark, frame, folder / "input")
    table = hfs.materialize(
        changes, by="product", on="since", history_retention="30 days", name="prices", state=state
    )
    run(table, state)
    return str(folder / "shop")


@pytest.fixture(scope="session")
def typed(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A root with the table `typed`, whose key has columns of six types."""
    folder = tmp_path_factory.mktemp("typed")
    frame = spark.sql(
        """select text, n, date'2026-03-01' as day, timestamp'2026-03-01 09:00:00Z' as at,
                  cast(n * 1.25 as decimal(10, 2)) as amount, n % 2 = 0 as even,
                  array(n, null) as list, cast(9007199254740993 as bigint) as large,
                  double('nan') as odd, binary(text) as bytes
           from values ('a/b c', 1), ('é"', 2) as t(text, n)"""
    )
    state = hfs.State(str(folder / "typed"), partitions=2)
    changes = stream_of(spark, frame, folder / "input")
    key = ["text", "n", "day", "at", "amount", "even"]
    run(hfs.materialize(changes, by=key, name="typed", state=state), state)
    return str(folder / "typed")


@pytest.fixture(scope="session")
def hourly(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A root with the windows `hourly`."""
    folder = tmp_path_factory.mktemp("hourly")
    frame = spark.createDataFrame(
        [("ann", "2026-03-01 09:00:00Z", 3), ("ann", "2026-03-01 10:10:00Z", 5)],
        "customer string, placed string, amount long",
    ).withColumn("placed", F.to_timestamp("placed"))
    state = hfs.State(str(folder / "hourly"), partitions=2)
    orders = stream_of(spark, frame, folder / "input")
    spent = {"spent": ("sum", "amount")}
    windows = hfs.aggregate(
        orders,
        by="customer",
        on="placed",
        window=hfs.window("1 hour"),
        aggs=spent,
        state=state,
        name="hourly",
    )
    run(windows, state)
    return str(folder / "hourly")


@pytest.fixture(scope="session")
def many(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A root with the table `many`: 200,000 rows of 200 bytes."""
    folder = tmp_path_factory.mktemp("many")
    frame = spark.range(200_000).selectExpr("id as n", "repeat(md5(string(id)), 6) as text")
    state = hfs.State(str(folder / "many"), partitions=2)
    changes = stream_of(spark, frame, folder / "input")
    run(hfs.materialize(changes, by="n", name="many", state=state), state)
    return str(folder / "many")


@pytest.fixture(scope="session")
def moving(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A root with the table `moving`, in which each of the epochs 0 to 2 changes the key `a`."""
    folder = tmp_path_factory.mktemp("moving")
    for epoch in range(3):
        state = hfs.State(str(folder / "moving"), partitions=2)
        rows = spark.createDataFrame([("a", epoch), (f"only {epoch}", epoch)], "k string, v long")
        rows.write.mode("append").parquet(str(folder / "input"))
        changes = spark.readStream.schema(rows.schema).parquet(str(folder / "input"))
        run(hfs.materialize(changes, by="k", name="moving", state=state), state)
    return str(folder / "moving")


@pytest.fixture
def serve() -> Iterator[Any]:
    """Starts gateways; all are closed at the test's end."""
    gateways: list[Gateway] = []

    def start(roots: Any, **options: Any) -> Client:
        options = {"listen": "127.0.0.1:0", "offline": "auto", "timeout": 20, **options}
        gateways.append(Gateway(roots, **options))
        return Client(gateways[-1].url)

    yield start
    for gateway in gateways:
        gateway.close()
