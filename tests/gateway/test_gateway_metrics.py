"""The figures for Prometheus."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from gateway_client import Client

import holdfast as hf

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")


def samples(client: Client) -> dict[str, list[tuple[dict[str, str], float]]]:
    answer = client.get("/metrics", Accept="application/openmetrics-text;version=1.0.0")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for line in answer.body.decode().splitlines():
        if line.startswith("#"):
            continue
        match = SAMPLE.match(line)
        assert match, line
        labels = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[2] or ""))
        found.setdefault(match[1], []).append((labels, float(match[3])))
    return found


def test_hosts_report_figures_of_each_partition(serve, prices: str):
    client = serve(prices, offline="never")
    # A read applies the epoch, since no session follows.
    client.get("/v1/tables/prices/scan")
    found = samples(client)
    epochs = found["holdfast_partition_epoch"]
    assert {labels["partition"] for labels, _ in epochs} == {"0", "1"}
    assert all(labels["operator"] == "prices" for labels, _ in epochs)
    assert {value for _, value in epochs} == {0}
    assert found["holdfast_root_epoch"] == [({"root": "shop"}, 0)]
    assert found["holdfast_root_hosts"][0][1] >= 1
    rows = sum(value for _, value in found["holdfast_partition_rows"])
    assert rows == 3
    # 2026-03-02T09:00:00Z
    times = {value for _, value in found["holdfast_partition_stream_time_seconds"]}
    assert max(times) == 1772442000
    assert found["holdfast_host_connections"][0][1] >= 1
    assert {labels["part"] for labels, _ in found["holdfast_host_memory_bytes"]} == {
        "sorting",
        "uncommitted",
        "reads",
        "write_buffers",
    }


def test_reads_are_counted(serve, prices: str):
    client = serve(prices, offline="never")

    def count(name: str, **labels: str) -> float:
        values = samples(client).get(name, [])
        return sum(value for found, value in values if labels.items() <= found.items())

    before = count("holdfast_host_read_seconds_count")
    rows = count("holdfast_host_read_rows_total")
    for _ in range(5):
        client.get("/v1/tables/prices/rows/tea")
    client.get("/v1/tables/prices/rows/milk")
    assert count("holdfast_host_read_seconds_count") == before + 6
    assert count("holdfast_host_read_rows_total") == rows + 6
    name = "holdfast_gateway_request_seconds_count"
    assert count(name, endpoint="row", status="200") == 5
    assert count(name, endpoint="row", status="404") == 1


def test_python_has_the_figures_of_hosts(prices: str):
    with hf.connect(prices) as reader:
        host = reader.metrics()[0]
    partitions = host["partitions"]
    assert sorted(partition["partition"] for partition in partitions) == [0, 1]
    assert sum(partition["database"]["rows"] for partition in partitions) == 3


def test_python_and_http_have_one_report(serve, prices: str):
    answer = serve(prices, offline="never").get("/v1/partitions")
    with hf.connect(prices) as reader:
        report = reader.report()
    assert report["epoch"] == answer.epoch == 0
    for partitions in (report["partitions"], answer.json):
        assert [(one["operator"], one["partition"]) for one in partitions] == [
            ("prices", 0),
            ("prices", 1),
        ]
        assert {one["condition"]["text"] for one in partitions} == {"in order"}
        assert {one["condition"]["severity"] for one in partitions} == {"good"}
        assert sum(one["figures"]["database"]["rows"] for one in partitions) == 3
    hosts = [one["host"] for one in report["partitions"]]
    assert hosts == [one["host"] for one in answer.json]


def test_a_partition_without_a_host_is_reported(serve, prices: str, tmp_path: Path):
    root = shutil.copytree(prices, tmp_path / "shop")
    shutil.rmtree(root / "readers")
    for partitions in (
        serve(root).get("/v1/partitions").json,
        hf.connect(root).report()["partitions"],
    ):
        assert [one["condition"]["name"] for one in partitions] == ["unserved"] * 2
        assert all(one["host"] is None and one["figures"] is None for one in partitions)


def test_a_root_that_cannot_be_read_is_logged(serve, prices: str, tmp_path: Path, caplog):
    """A regression test: a gateway logged nothing.

    The engine's messages reached Python only in a process with an open database.
    """
    root = shutil.copytree(prices, tmp_path / "shop")
    client = serve(root, offline="never")
    client.get("/metrics")
    shutil.rmtree(root)
    root.write_text("in the way")
    caplog.clear()
    client.get("/metrics")
    assert any("root shop" in record.getMessage() for record in caplog.records)


def test_each_figure_is_in_the_docs(serve, prices: str):
    client = serve(prices, offline="never")
    client.get("/v1/tables/prices/rows/tea")
    names = re.compile(r"^\| `(holdfast_\w+)` \| (?:gauge|counter|histogram)", re.MULTILINE)
    documented = set(names.findall(PAGE.read_text()))
    found = {re.sub(r"_(bucket|sum|count)$", "", name) for name in samples(client)}
    assert found <= documented
    # Figures that only some partitions or hosts have.
    assert documented - found <= {
        "holdfast_partition_snapshot_age_seconds",
        "holdfast_partition_snapshot_epoch",
        "holdfast_host_memory_limit_bytes",
    }
