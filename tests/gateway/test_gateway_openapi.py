"""The OpenAPI description matches the answers of the gateway."""

from __future__ import annotations

from typing import Any

import pytest

PATH = {"{root}": "shop", "{table}": "prices", "{key}": "tea"}
VALUES = {
    "as_of": "2026-03-02T12:00:00Z",
    "columns": "price",
    "epoch": "0",
    "at_least": "0",
    "timeout": "5",
    "isolation_level": "read_committed",
    "stale_ok": "true",
    "prefix": "tea",
    "start": "a",
    "end": "z",
    "time_from": "2026-03-01T00:00:00Z",
    "time_to": "2026-03-09T00:00:00Z",
    "limit": "1",
    "from_epoch": "0",
    "rewind": "0",
    "to_epoch": "0",
    "partition": "0",
}
# Parameters that a table without windows refuses.
OF_WINDOWS = {"time_from", "time_to"}


def filled(path: str) -> str:
    for name, value in PATH.items():
        path = path.replace(name, value)
    return path


def test_each_described_operation_and_parameter_works(serve, prices: str):
    client = serve(prices)
    description: dict[str, Any] = client.get("/openapi.json").json
    assert description["openapi"].startswith("3.1")
    operations = 0
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            operations += 1
            body = b'["tea"]' if "requestBody" in operation else None

            def ask(query: str = "", method: str = method, path: str = path, body: Any = body):
                return client.ask(method.upper(), filled(path) + query, body, headers={})

            answer = ask()
            assert answer.status == 200, (path, answer.body)
            described = operation["responses"]["200"]["content"]
            assert answer.headers["Content-Type"] in described
            for parameter in operation["parameters"]:
                name = parameter["name"]
                if parameter["in"] == "path":
                    assert f"{{{name}}}" in path
                    continue
                answer = ask(f"?{name}={VALUES[name]}")
                assert answer.status == 200 or (name in OF_WINDOWS and "scan" in path), answer.body
                twice = ask(f"?{name}={VALUES[name]}&{name}={VALUES[name]}")
                repeats = parameter["schema"]["type"] == "array"
                assert repeats or "only once" in twice.json["detail"]
            assert "no parameter" in ask("?other=1").json["detail"]
            for other in {"GET", "POST", "PUT"} - {name.upper() for name in methods}:
                assert client.ask(other, filled(path), headers={}).status == 405
    assert operations == 20
    ids = [
        operation["operationId"]
        for methods in description["paths"].values()
        for operation in methods.values()
    ]
    assert len(set(ids)) == len(ids)


def test_described_formats_are_sent(serve, prices: str):
    client = serve(prices)
    for path, methods in client.get("/openapi.json").json["paths"].items():
        for method, operation in methods.items():
            for media in operation["responses"]["200"]["content"]:
                body = b'["tea"]' if "requestBody" in operation else None
                headers = {"Accept": media}
                answer = client.ask(method.upper(), filled(path), body, headers=headers)
                assert answer.headers["Content-Type"] == media


@pytest.mark.parametrize("path", ["/v1/tables", "/v1/roots/shop/tables"])
def test_tables_are_described(serve, prices: str, path: str):
    answer = serve(prices).get(path)
    assert answer.epoch == 0
    assert answer.json == [
        {
            "name": "prices",
            "operator": "prices",
            "operator_kind": "materialize",
            "store": "table",
            "kind": "versioned",
            "key": ["product"],
            "columns": [
                {"name": "product", "type": "Utf8"},
                {"name": "valid_from", "type": 'Timestamp(µs, "UTC")'},
                {"name": "valid_to", "type": 'Timestamp(µs, "UTC")'},
                {"name": "price", "type": "Float64"},
            ],
        }
    ]
