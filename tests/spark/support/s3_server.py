"""An S3 server in memory (moto) for tests, and a proxy for it that injects faults.

On this server two racing conditional puts can both succeed, so tests of races run on versitygw
(`scripts/s3`).
"""

from __future__ import annotations

import collections
import http.client
import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = "do-not-tell-anybody"
PREFIXES = itertools.count()
_SIGNATURE = (
    "AWS4-HMAC-SHA256 Credential=test/20240101/us-east-1/s3/aws4_request, "
    "SignedHeaders=host, Signature=none"
)

Fault = Callable[[int, str, str], str | None]
"""Returns the fault of the n-th request, which has this method and path; None for no fault.

`busy` answers 503, `denied` 403, `late` after 0.3 seconds. `lost` does the request and closes the
connection without an answer, `stalls` does so after 3 seconds. `careless` ignores `If-None-Match`.
"""


def options(port: int, **more: str) -> dict[str, str]:
    """The storage options for a server on this port."""
    endpoint = f"http://127.0.0.1:{port}"
    return {
        "endpoint": endpoint,
        "access_key_id": "test",
        "secret_access_key": SECRET,
        "allow_http": "true",
        **more,
    }


def root() -> str:
    """A root of a test's own."""
    return f"s3://test/{next(PREFIXES)}"


@contextmanager
def moto() -> Iterator[int]:
    """Starts a server with the bucket `test`; yields its port."""
    command = [sys.executable, "-u", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        said = iter(server.stderr)
        port = next((int(line.rpartition(":")[2]) for line in said if "Running on" in line), None)
        assert port is not None, "the server has ended"
        # The rest of its output is read, since the server blocks when the pipe is full.
        threading.Thread(target=collections.deque, args=(said, 0), daemon=True).start()
        request(port, "PUT", "/test")
        yield port
    finally:
        server.kill()
        server.wait()


def request(
    port: int, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
) -> tuple[int, list[tuple[str, str]], bytes]:
    """Sends one request. This server needs a signature, but does not check it."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body, headers or {"Authorization": _SIGNATURE})
        answer = connection.getresponse()
        return answer.status, answer.getheaders(), answer.read()
    finally:
        connection.close()


@contextmanager
def proxy(behind: int, fault: Fault) -> Iterator[int]:
    """Starts a server in front of another one, with faults; yields its port."""
    count, counting = itertools.count(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            with counting:
                wrong = fault(next(count), self.command, self.path)
            headers = dict(self.headers)
            if wrong == "careless":
                headers = {
                    name: value
                    for name, value in headers.items()
                    if name.lower() != "if-none-match"
                }
            if wrong in ("busy", "denied"):
                self.answer(503 if wrong == "busy" else 403, [], b"")
                return
            status, given, content = request(behind, self.command, self.path, body, headers)
            if wrong in ("late", "stalls"):
                time.sleep(0.3 if wrong == "late" else 3)
            if wrong in ("lost", "stalls"):
                self.close_connection = True
                return
            self.answer(status, given, content)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward  # noqa: N815

        def answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response(status)
            stored = {
                name: value
                for name, value in headers
                if name.lower() not in ("connection", "transfer-encoding")
            }
            if "content-length" not in map(str.lower, stored):
                stored["Content-Length"] = str(len(body))
            for name, value in stored.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # a client that has gone away

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
