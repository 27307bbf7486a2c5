"""The Python blocks of pages that have no doctests, run on small frames, apart from their folders.

The blocks of `process.md` are in `operators/test_process.py`.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from streams import at

import holdfast as hf
import holdfast.spark as hfs

DOCS = Path(__file__).parents[2] / "docs/spark"


class Page:
    """A page, and the names that its blocks use and set."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.names: dict[str, Any] = {"spark": spark, "hfs": hfs}

    def blocks(self, page: str) -> list[str]:
        """The Python blocks, with folders of the test in place of theirs."""
        blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
        return [re.sub(r"/var/lib|s3a?://bucket", str(self.folder), block) for block in blocks]

    def run(self, block: str) -> Any:
        """Runs a block; returns the value of its last line if that is an expression."""
        program = ast.parse(block)
        if not isinstance(program.body[-1], ast.Expr):
            exec(block, self.names)
            return None
        last = ast.Expression(program.body.pop().value)
        exec(compile(program, "block", "exec"), self.names)
        return eval(compile(last, "block", "eval"), self.names)

    def write(self, name: str, columns: str, *rows: tuple[Any, ...]) -> None:
        """Adds a file of rows to a folder."""
        frame = self.spark.createDataFrame(list(rows), columns).coalesce(1)
        frame.write.mode("append").parquet(str(self.folder / name))

    def stream(self, name: str, columns: str, *rows: tuple[Any, ...]) -> DataFrame:
        """A stream of a new folder with these rows."""
        self.write(name, columns, *rows)
        return self.spark.readStream.schema(columns).parquet(str(self.folder / name))

    def process(self) -> None:
        """Stops the only query once it has processed its input."""
        (query,) = self.spark.streams.active
        query.processAllAvailable()
        query.stop()

    def found(self, folder: str, *columns: str) -> list[tuple[Any, ...]]:
        """The rows of a folder."""
        frame = self.spark.read.parquet(str(self.folder / folder)).select(*columns)
        return sorted(map(tuple, frame.collect()))


@pytest.fixture
def page(spark: SparkSession, tmp_path: Path) -> Page:
    return Page(spark, tmp_path)


def test_readme(page: Page):
    settings, heartbeat = page.blocks("README.md")
    page.spark.conf.set("spark.sql.adaptive.enabled", "true")
    page.run(settings)
    assert page.spark.conf.get("spark.sql.adaptive.enabled") == "false"
    page.names["clicks"] = page.stream("clicks", "user string, at timestamp", ("ann", at(0)))
    page.run(heartbeat)
    state = hfs.State(str(page.folder / "state"), partitions=2)
    fresh = hfs.drop_duplicates(
        page.names["clicks"], by="user", on="at", within="1 minute", state=state
    )
    fresh.writeStream.option("checkpointLocation", state.checkpoint_location).start(
        str(page.folder / "out")
    )
    page.process()
    assert page.found("out", *fresh.columns) == page.found("clicks", "user", "at")
    assert fresh.columns == ["user", "at"]


def test_drop_duplicates(page: Page):
    (block,) = page.blocks("drop_duplicates.md")
    rows = [("ann", 1, at(0)), ("ann", 1, at(599)), ("ann", 2, at(600)), ("bob", 1, at(600))]
    page.names["events"] = page.stream(
        "events", "user string, click_id int, clicked_at timestamp", *rows
    )
    page.run(block)
    page.process()
    assert page.found("clicks/out", "user", "click_id") == [("ann", 1), ("ann", 2), ("bob", 1)]


def test_exactly_once(page: Page):
    """Rows of equal content have ids of their own, and a repeated epoch has the same ids."""
    (block,) = page.blocks("exactly-once.md")
    # There is no Kafka here: the records go to a folder.
    folder = page.folder / "topic"
    assert block.count('.write.format("kafka")') == 1
    block = block.replace(
        '.write.format("kafka")', f'.write.format("json").mode("append").option("path", "{folder}")'
    )
    changes = page.stream("changes", "k string, n int", *[("a", 1)] * 3, ("b", 1))
    state = hfs.State(str(page.folder / "root"), partitions=2)
    results = hfs.materialize(changes, by="k", name="changes", state=state)
    page.names |= {"state": state, "results": results, "servers": "localhost:9092"}

    def records() -> list[tuple[str, dict[str, Any]]]:
        rows = page.spark.read.schema("key string, value string").json(str(folder)).collect()
        return sorted((row.key, json.loads(row.value)) for row in rows)

    page.run(block)
    page.process()
    first = records()
    assert [(value["k"], value["n"]) for _, value in first] in (
        [("a", 1)] * 3 + [("b", 1)],
        [("b", 1)] + [("a", 1)] * 3,
    )
    ids = [key for key, _ in first]
    assert len(set(ids)) == 4
    assert all(value["id"] == key and key.startswith("0-") for key, value in first)
    # The driver died before it committed the epoch.
    for commit in (page.folder / "root/query/commits").glob("*0*"):
        commit.unlink()
    page.run(block)
    page.process()
    assert sorted(key for key, _ in records()) == sorted(ids * 2)


RATES = "currency string, valid_from timestamp, rate double"
ORDERS = "currency string, ordered_at timestamp, amount int"


def test_join_asof(page: Page):
    plan, each_batch = page.blocks("join_asof.md")
    orders = [("USD", at(10), 1), ("USD", at(1_000), 2)]
    rates = [("USD", at(0), 1.5), ("USD", at(500), 2.5)]
    page.names["orders"] = page.stream("orders", ORDERS, *orders)
    page.names["rates"] = page.stream("rates", RATES, *rates)
    page.run(plan)
    page.process()
    # The last order waits for `grace`.
    assert page.found("enriched", "amount", "rate") == [(1, 1.5)]
    # The second block is another program, with a state and an output of its own.
    page.names["state"] = hfs.State(str(page.folder / "other"), partitions=2)
    page.run(each_batch.replace("/enriched", "/other_output"))
    page.process()
    assert page.found("other_output", "amount", "rate") == [(1, 1.5), (2, 2.5)]


def test_join_table(page: Page):
    by_key, by_foreign_key = page.blocks("join_table.md")
    page.names["products"] = page.stream(
        "products", "product string, changed_at timestamp, title string", ("tea", at(5), "Tea")
    )
    page.names["prices"] = page.stream(
        "prices",
        "product string, valid_from timestamp, price int",
        ("tea", at(1), 3),
        ("tea", at(9), 4),
    )
    page.run(by_key)
    page.process()
    with hf.connect(page.folder / "shop") as reader:
        offers = reader["offers"]
        prices = [offers.get("tea", as_of=at(time)) for time in (4, 5, 9)]
        assert [row and (row["title"], row["price"]) for row in prices] == [
            None,
            ("Tea", 3),
            ("Tea", 4),
        ]
    state = hfs.State(str(page.folder / "other"), partitions=2)
    page.names["state"] = state
    page.names["orders"] = page.stream(
        "orders",
        "`order` int, customer string, changed_at timestamp",
        (7, "ann", at(2)),
        (8, "bob", at(2)),
    )
    page.names["customers"] = page.stream(
        "customers", "customer string, valid_from timestamp, city string", ("ann", at(1), "Ulm")
    )
    served = page.run(by_foreign_key)
    writer = served.writeStream.format("noop")
    writer.option("checkpointLocation", state.checkpoint_location).start()
    page.process()
    with hf.connect(page.folder / "other") as reader:
        rows = [reader["served"].get(order) for order in (7, 8)]
        assert [row and (row["customer"], row["city"]) for row in rows] == [
            ("ann", "Ulm"),
            ("bob", None),
        ]


def test_join_window(page: Page):
    (block,) = page.blocks("join_window.md")
    page.names["impressions"] = page.stream(
        "impressions", "ad string, shown_at timestamp, page int", ("a", at(0), 1), ("b", at(0), 2)
    )
    page.names["clicks"] = page.stream(
        "clicks",
        "ad string, clicked_at timestamp, click int",
        ("a", at(3_600), 1),
        ("a", at(3_601), 2),
    )
    page.run(block)
    page.process()
    # The impression of b waits until no click can match it any more.
    assert page.found("ads/out", "ad", "page", "click") == [("a", 1, 1)]


def test_materialize(page: Page):
    (block,) = page.blocks("materialize.md")
    page.names["changes"] = page.stream(
        "changes",
        "product string, changed_at timestamp, price int",
        ("tea", at(5), 1),
        ("tea", at(9), 2),
    )
    page.run(block)
    page.process()
    assert page.found("prices/out", "product", "price") == [("tea", 1), ("tea", 2)]
    with hf.connect(page.folder / "prices") as reader:
        assert reader["prices"].get("tea", as_of=at(8))["price"] == 1


def test_object_stores(page: Page, monkeypatch: pytest.MonkeyPatch):
    """Without S3 the state is not made: only its arguments are checked."""
    (block,) = page.blocks("object-stores.md")
    arguments = inspect.signature(hfs.State)

    def state(*given: Any, **options: Any) -> SimpleNamespace:
        bound = arguments.bind(*given, **options).arguments
        assert bound["storage_options"].keys() == {"region"}
        return SimpleNamespace(checkpoint_location=f"{bound['root']}/query")

    monkeypatch.setattr(hfs, "State", state)
    page.names["totals"] = page.stream("in", "total int", (7,))
    page.run(block)
    assert page.names["query"].isActive
    page.process()
    assert page.found("totals", "total") == [(7,)]
