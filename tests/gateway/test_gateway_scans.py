"""Rows of ranges, and versions."""

from __future__ import annotations

import json
import re
import socket
import time
from pathlib import Path

import pytest
from gateway_client import ARROW, Client


def names(client: Client, query: str) -> list[str]:
    rows = client.get(f"/v1/tables/prices/scan?columns=product&{query}").json
    return sorted(row["product"] for row in rows)


def test_a_scan_has_all_rows_in_each_format(serve, prices: str):
    client = serve(prices)
    answer = client.get("/v1/tables/prices/scan")
    assert answer.epoch == 0
    rows = answer.json
    assert sorted(row["price"] for row in rows) == [2.0, 3.5]
    lines = client.get("/v1/tables/prices/scan", Accept="application/x-ndjson").body.splitlines()
    assert [json.loads(line) for line in lines] == rows
    table = client.get("/v1/tables/prices/scan", Accept=ARROW).table
    assert table["price"].to_pylist() == [row["price"] for row in rows]


def test_a_scan_is_limited_by_keys_times_and_rows(serve, prices: str, typed: str):
    client = serve(prices)
    assert names(client, "start=k") == ["tea"]
    assert names(client, "end=k") == ["jam"]
    assert names(client, "start=jam&end=tea") == ["jam", "tea"]
    assert names(client, "prefix=jam") == ["jam"]
    assert len(names(client, "limit=1")) == 1
    assert names(client, "limit=0") == []
    assert names(client, "as_of=2026-03-01T10:00:00Z") == ["tea"]
    rows = serve(typed).get("/v1/tables/typed/scan?prefix=a/b%20c&prefix=1&columns=n").json
    assert rows == [{"n": 1}]


def test_versions_come_oldest_first(serve, prices: str):
    client = serve(prices)
    path = "/v1/tables/prices/versions/tea?columns=price&columns=valid_to"
    assert client.get(path).json == [
        {"price": 3.0, "valid_to": "2026-03-02T09:00:00Z"},
        {"price": 3.5, "valid_to": None},
    ]
    assert len(client.get(path + "&time_from=2026-03-03T00:00:00Z").json) == 1
    assert client.get("/v1/tables/prices/versions/milk").json == []
    assert client.get("/v1/tables/prices/versions/milk", Accept=ARROW).table.num_rows == 0


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("scan?prefix=a&start=b", "ValueError"),
        ("scan?start=a&start=b", "ValueError"),
        ("scan?columns=cost", "ValueError"),
        ("versions/a/b", "ValueError"),
    ],
)
def test_a_wrong_scan_is_a_problem(serve, prices: str, path: str, kind: str):
    problem = serve(prices).problem(f"/v1/tables/prices/{path}")
    assert (problem["status"], problem["class"]) == (400, kind)


def test_reads_of_versions_are_refused_by_other_tables(serve, hourly: str):
    client = serve(hourly)
    for path in ("versions/ann", "scan?as_of=1"):
        problem = client.problem(f"/v1/tables/hourly/{path}")
        assert (problem["status"], problem["class"]) == (400, "UnsupportedOperationError")


def test_a_time_range_is_refused_by_tables_without_windows(serve, prices: str):
    problem = serve(prices).problem("/v1/tables/prices/scan?time_from=1")
    assert (problem["status"], problem["class"]) == (400, "UnsupportedOperationError")


def test_a_large_scan_is_streamed(serve, many: str):
    client = serve(many)
    rows = client.get("/v1/tables/many/scan?columns=n").json
    assert sorted(row["n"] for row in rows) == list(range(200_000))
    table = client.get("/v1/tables/many/scan", Accept=ARROW).table
    assert table.num_rows == 200_000


def test_a_slow_client_takes_no_memory_and_its_scan_ends(serve, many: str):
    client = serve(many, timeout=1)
    host, port = client.address.split(":")
    # The host may have ended, as it had nothing to do: then the gateway makes its copies first.
    assert client.get("/v1/tables/many/rows/7").json["n"] == 7
    before = resident()
    with socket.create_connection((host, int(port))) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        request = "GET /v1/tables/many/scan HTTP/1.1\r\nHost: localhost\r\n\r\n"
        slow.sendall(request.encode())
        begun = slow.recv(4096)
        assert begun.startswith(b"HTTP/1.1 200")
        # The gateway answers others while this scan waits for its client; then the scan ends.
        assert client.get("/v1/tables/many/rows/7").json["n"] == 7
        body = begun
        time.sleep(3)  # Longer than the gateway waits.
        while part := slow.recv(1 << 16):
            body += part
    # 40 MB of rows.
    assert resident() - before < 30 << 20
    assert not body.endswith(b"0\r\n\r\n"), "the body has an end, as if it were whole"


def resident() -> int:
    status = Path("/proc/self/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found
    return int(found[1]) << 10


@pytest.mark.parametrize("path", ["scan", "changes", "versions/a"])
def test_rows_whose_end_a_client_cannot_see_are_not_sent(serve, moving: str, path: str):
    """HTTP/1.0 has no chunks: a response that breaks off looks complete."""
    address = serve(moving).address
    host, port = address.split(":")
    request = f"GET /v1/tables/moving/{path} HTTP/1.0\r\nHost: {address}\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(request.encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.split(maxsplit=2)[1] == b"505"
    assert b"proxy_http_version 1.1" in answer
