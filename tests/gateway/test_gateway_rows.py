"""Rows by their keys."""

from __future__ import annotations

import json
import math
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from gateway_client import ARROW

import holdfast as hf


def test_a_row_has_its_epoch(serve, prices: str):
    client = serve(prices)
    answer = client.get("/v1/tables/prices/rows/tea")
    assert (answer.status, answer.epoch) == (200, 0)
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Holdfast-Isolation-Level"] == "read_committed"
    assert answer.headers["Holdfast-Behind"] == "0"
    assert answer.json == {
        "product": "tea",
        "valid_from": "2026-03-02T09:00:00Z",
        "valid_to": None,
        "price": 3.5,
    }


def test_hosts_answer_without_copies(serve, prices: str):
    client = serve(prices, offline="never")
    assert client.get("/v1/tables/prices/rows/jam").json["price"] == 2.0


def test_a_row_is_read_as_of_a_time(serve, prices: str):
    client = serve(prices)
    path = "/v1/tables/prices/rows/tea?columns=price&as_of="
    assert client.get(path + "2026-03-01T18:00:00Z").json == {"price": 3.0}
    assert client.get(path + "2026-03-02T10:00:00%2B01:00").json == {"price": 3.5}
    assert client.get(path + "1772388000000000").json == {"price": 3.0}
    assert client.get(path + "2026-02-01T00:00:00Z").status == 404
    wrong = client.problem(path + "2026-03-01T18:00:00")
    assert wrong["class"] == "ValueError"
    assert "has no time zone" in wrong["detail"]


def test_each_of_many_clients_gets_its_row(serve, many: str):
    client = serve(many, offline="never")

    def rows(number: int) -> list[tuple[int, int]]:
        asked = range(number, 200_100, 20_011)
        answers = [(key, client.get(f"/v1/tables/many/rows/{key}?columns=n")) for key in asked]
        assert all(answer.status == (200 if key < 200_000 else 404) for key, answer in answers)
        return [(key, answer.json["n"]) for key, answer in answers if answer.status == 200]

    with ThreadPoolExecutor(16) as threads:
        found = [row for part in threads.map(rows, range(64)) for row in part]
    assert len(found) >= 64 * 9
    assert all(key == value for key, value in found)


def test_an_absent_row_is_a_problem_of_its_epoch(serve, prices: str):
    answer = serve(prices).get("/v1/tables/prices/rows/milk")
    assert (answer.status, answer.epoch) == (404, 0)
    assert answer.json["class"] == "KeyError"


def test_rows_of_many_keys_are_in_the_order_of_the_keys(serve, prices: str):
    client = serve(prices)
    path = "/v1/tables/prices/rows?columns=price"
    keys = ["jam", ["milk"], {"product": "tea"}, "jam", None]
    answer = client.post(path, keys)
    assert answer.json == [{"price": 2.0}, None, {"price": 3.5}, {"price": 2.0}, None]
    lines = client.post(path, keys, Accept="application/x-ndjson").body.splitlines()
    assert [json.loads(line) for line in lines] == answer.json
    table = client.post(path, keys, Accept=ARROW).table
    assert table["holdfast.found"].to_pylist() == [True, False, True, True, False]
    assert table["price"].to_pylist() == [2.0, None, 3.5, 2.0, None]
    assert client.post(path, []).json == []


def test_keys_have_the_types_of_their_columns(serve, typed: str):
    client = serve(typed)
    key = "a%2Fb%20c/1/2026-03-01/2026-03-01T09:00:00Z/1.25/false"
    answer = client.get(f"/v1/tables/typed/rows/{key}")
    assert answer.json == {
        "text": "a/b c",
        "n": 1,
        "day": "2026-03-01",
        "at": "2026-03-01T09:00:00Z",
        "amount": pytest.approx(1.25) if isinstance(answer.json["amount"], float) else "1.25",
        "even": False,
        "list": [1, None],
        "large": 9007199254740993,
        "odd": None,
        "bytes": "612f622063",
    }
    table = client.get(f"/v1/tables/typed/rows/{key}", Accept=ARROW).table
    with hf.connect(typed) as reader:
        stored = reader["typed"].scan().read_all().to_pylist()
    expected = next(row for row in stored if row["n"] == 1)
    (found,) = table.to_pylist()
    assert math.isnan(found.pop("odd"))
    assert math.isnan(expected.pop("odd"))
    assert found == expected
    keys = [
        ['é"', 2, "2026-03-01", "2026-03-01T10:00:00+01:00", "2.50", True],
        ["a/b c", 1, "2026-03-01", 1772355600000000, 1.25, False],
        ["a/b c", 1, "2026-03-01", 1772355600000000, 1.25, True],
    ]
    found = client.post("/v1/tables/typed/rows?columns=n", keys).json
    assert found == [{"n": 2}, {"n": 1}, None]


def test_windows_are_named_by_their_start(serve, hourly: str):
    client = serve(hourly)
    answer = client.get("/v1/tables/hourly/rows/ann/2026-03-01T10:00:00Z")
    assert answer.json == {
        "customer": "ann",
        "window_start": "2026-03-01T10:00:00Z",
        "window_end": "2026-03-01T11:00:00Z",
        "spent": 5,
    }
    keys = [{"customer": "ann", "start": "2026-03-01T09:00:00Z"}, ["ann", 0]]
    found = client.post("/v1/tables/hourly/rows?columns=spent", keys).json
    assert found == [{"spent": 3}, None]
    problem = client.problem("/v1/tables/hourly/rows/ann")
    assert 'named by ["customer", "start"]' in problem["detail"]


@pytest.mark.parametrize(
    ("path", "status", "kind", "words"),
    [
        ("/v1/tables/nothing/rows/tea", 404, None, "nothing"),
        ("/v1/tables/prices.other/rows/tea", 404, "KeyError", "prices.table"),
        ("/v1/tables/a b/rows/tea".replace(" ", "%20"), 404, "KeyError", "there are"),
        ("/v1/tables/prices/rows/tea/jam", 400, "ValueError", "not by 2 values"),
        ("/v1/tables/prices/rows/tea?columns=cost", 400, "ValueError", "no column"),
        ("/v1/tables/prices/rows/tea?colums=price", 400, "ValueError", "colums"),
        ("/v1/tables/prices/rows/tea?epoch=-1", 400, "ValueError", "not negative"),
        ("/v1/tables/prices/rows/tea?epoch=7", 503, "NotUpToBoundError", "epoch 7"),
        ("/v1/tables/prices/rows/tea?at_least=7&timeout=0.1", 503, "NotUpToBoundError", "0.1 s"),
        ("/v1/tables/prices/rows/%FF", 400, "ValueError", "UTF-8"),
        ("/v1/roots/other/tables/prices/rows/tea", 404, "KeyError", "shop"),
        ("/v1/tables/prices/rows", 405, None, "only reads"),
        ("/v2", 404, None, "/openapi.json"),
    ],
)
def test_errors_are_problems(  # noqa: PLR0917
    serve, prices: str, path: str, status: int, kind: str | None, words: str
):
    problem = serve(prices).problem(path)
    assert problem["status"] == status, problem
    if kind is not None:
        assert problem["class"] == kind
    assert words in problem["detail"]


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b'["tea"', b'[["tea", 1]]', b"[1.5]", b'[{"product": "tea", "x": 1}]', b"\xff"],
)
def test_bodies_that_are_no_keys_are_refused(serve, prices: str, body: bytes):
    answer = serve(prices).post("/v1/tables/prices/rows", body)
    assert answer.status == 400
    assert answer.json["class"] == "ValueError"


def test_other_formats_are_refused(serve, prices: str):
    problem = serve(prices).problem("/v1/tables/prices/rows/tea", Accept="text/csv")
    assert problem["status"] == 406
    assert ARROW in problem["detail"]


def test_several_roots_have_names(serve, prices: str, hourly: str):
    client = serve({"a": prices, "b": hourly})
    roots: list[dict[str, Any]] = client.get("/v1/roots").json
    assert [(root["name"], root["address"], root["epoch"]) for root in roots] == [
        ("a", prices, 0),
        ("b", hourly, 0),
    ]
    assert client.get("/v1/roots/a/tables/prices/rows/jam").json["price"] == 2.0
    assert client.get("/v1/roots/b/tables").json[0]["name"] == "hourly"
    problem = client.problem("/v1/tables")
    assert "several roots" in problem["detail"]


def test_a_root_that_was_made_again_is_served(serve, prices: str, moving: str, tmp_path: Path):
    root = tmp_path / "root"
    shutil.copytree(prices, root)
    client = serve(str(root))
    assert client.get("/v1/tables/prices/rows/tea").status == 200
    shutil.rmtree(root)
    shutil.copytree(moving, root)
    deadline = time.monotonic() + 30
    while (answer := client.get("/v1/tables/moving/rows/a")).status != 200:
        assert time.monotonic() < deadline, answer.body
        time.sleep(0.1)
    assert answer.json["v"] == 2
