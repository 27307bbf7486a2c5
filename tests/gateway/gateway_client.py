"""A client of a gateway that sends the requests of a test unchanged."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

ARROW = "application/vnd.apache.arrow.stream"
HOSTILE = "<img src=x onerror=\"document.title='hacked'\">"


@dataclass
class Answer:
    """A response that has been read."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def table(self) -> pa.Table:
        assert self.headers["Content-Type"] == ARROW
        return pa.ipc.open_stream(self.body).read_all()

    @property
    def epoch(self) -> int:
        return int(self.headers["Holdfast-Epoch"])


class Client:
    """Sends requests to the gateway at an address."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.address = urlsplit(url).netloc

    def open(self, path: str, **headers: str) -> http.client.HTTPResponse:
        """Begins a request; the caller reads the response."""
        connection = http.client.HTTPConnection(self.address, timeout=60)
        connection.request("GET", path, headers=headers)
        return connection.getresponse()

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, headers=headers)

    def post(self, path: str, keys: Any, **headers: str) -> Answer:
        body = keys if isinstance(keys, bytes) else json.dumps(keys).encode()
        return self.ask("POST", path, body, headers=headers)

    def ask(
        self, method: str, path: str, body: bytes | None = None, *, headers: dict[str, str]
    ) -> Answer:
        connection = http.client.HTTPConnection(self.address, timeout=60)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def problem(self, path: str, **headers: str) -> dict[str, Any]:
        """Returns the problem that a request gets."""
        answer = self.get(path, **headers)
        assert answer.headers["Content-Type"] == "application/problem+json", answer
        assert answer.json["status"] == answer.status
        return answer.json
