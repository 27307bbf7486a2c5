"""Which requests a gateway answers: addresses, tokens, methods and limits."""

from __future__ import annotations

import base64
import http.client
import socket
import ssl
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from gateway_client import Client

import holdfast as hf
from holdfast.gateway import Gateway

TOKEN = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    return file


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(cert)),
        ],
        check=True,
        capture_output=True,
    )
    return cert, key


def test_other_addresses_need_a_token_and_encryption(
    prices: str, token_file: Path, certificate: tuple[Path, Path]
):
    with pytest.raises(ValueError, match="give a token file"):
        Gateway(prices, listen="0.0.0.0:0")
    with pytest.raises(ValueError, match="give a certificate and its key"):
        Gateway(prices, listen="0.0.0.0:0", token_file=token_file)
    cert, key = certificate
    for open_ in ({"insecure": True}, {"cert": cert, "key": key}):
        options: dict[str, Any] = open_
        Gateway(prices, listen="0.0.0.0:0", token_file=token_file, **options).close()


def test_requests_without_the_token_are_refused(serve, prices: str, token_file: Path):
    client = serve(prices, token_file=token_file)
    path = "/v1/tables/prices/rows/tea"
    password = base64.b64encode(f"me:{TOKEN}".encode()).decode()
    for right in (f"Bearer {TOKEN}", f"Basic {password}"):
        assert client.get(path, Authorization=right).status == 200
    for wrong in ({}, {"Authorization": "Bearer x"}, {"Authorization": f"Bearer {TOKEN}0"}):
        for asked in (path, "/v1/roots", "/openapi.json", "/nothing", "/"):
            answer = client.get(asked, **wrong)
            assert answer.status == 401, asked
            schemes = answer.headers.get_all("WWW-Authenticate")
            assert [scheme.split()[0] for scheme in schemes] == ["Bearer", "Basic"]
            assert TOKEN not in answer.body.decode()
    assert client.get("/healthz").json == {"status": "ok"}


def test_a_page_of_another_site_cannot_read(serve, prices: str):
    client = serve(prices)
    for host in ("evil.example", "evil.example:80", "localhost.evil.example"):
        assert client.problem("/v1/tables", Host=host)["status"] == 421
    answer = client.get("/v1/tables", Host="localhost:99", Origin="http://evil.example")
    assert answer.status == 200
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "POST", "OPTIONS"])
def test_no_method_writes(serve, prices: str, method: str):
    answer = serve(prices).ask(method, "/v1/tables/prices/rows/tea", headers={})
    assert answer.status == 405


def test_connections_are_encrypted(prices: str, token_file: Path, certificate: tuple[Path, Path]):
    cert, key = certificate
    with Gateway(
        prices, listen="127.0.0.1:0", token_file=token_file, cert=cert, key=key, offline="auto"
    ) as gateway:
        assert gateway.url.startswith("https://")
        address = gateway.url.removeprefix("https://")
        trusted = ssl.create_default_context(cafile=str(cert))
        connection = http.client.HTTPSConnection(address, context=trusted, timeout=30)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        connection.request("GET", "/v1/tables/prices/rows/tea", headers=headers)
        response = connection.getresponse()
        assert response.status == 200
        response.read()
        connection.close()
        with pytest.raises((http.client.HTTPException, OSError)):
            Client(f"http://{address}").get("/healthz")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cert": "cert.pem"}, "a certificate and its key"),
        ({"cert": "none.pem", "key": "none.pem"}, "not usable for TLS"),
        ({"listen": "somewhere"}, "Give an address and a port"),
        ({"offline": "maybe"}, "offline is"),
        ({"max_requests": 0}, "give 1 to"),
        ({"max_requests": 2**62}, "give 1 to"),
        ({"timeout": -1}, "timeout is"),
    ],
)
def test_wrong_settings_are_refused(prices: str, options: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        Gateway(prices, **{"listen": "127.0.0.1:0", **options})


def test_short_tokens_are_refused(prices: str, tmp_path: Path):
    file = tmp_path / "token"
    file.write_text("secret\n")
    with pytest.raises(ValueError, match="at least 16"):
        Gateway(prices, listen="127.0.0.1:0", token_file=file)


def test_roots_without_state_are_refused(tmp_path: Path):
    with pytest.raises(hf.errors.HoldfastError):
        Gateway(tmp_path / "none", listen="127.0.0.1:0")
    with pytest.raises(ValueError, match="at least one root"):
        Gateway({}, listen="127.0.0.1:0")


def test_bodies_and_keys_are_limited(serve, prices: str):
    client = serve(prices)
    path = "/v1/tables/prices/rows"
    assert len(client.post(path, ["tea"] * 10_000).json) == 10_000
    answer = client.post(path, ["tea"] * 10_001)
    assert answer.status == 413
    assert "send several requests" in answer.json["detail"]
    assert client.post(path, b" " * (5 << 20)).status == 413


def test_requests_beyond_the_limit_are_refused(serve, many: str):
    client = serve(many, offline="never", max_requests=2)
    scans = [client.open("/v1/tables/many/scan") for _ in range(2)]
    answer = client.get("/v1/tables/many/rows/1")
    assert answer.status == 503
    assert answer.headers["Retry-After"] == "1"
    # The limit does not apply to the paths that show the load.
    for path in ("/healthz", "/metrics", "/v1/partitions", "/v1/hosts"):
        assert client.get(path).status == 200
    for scan in scans:
        scan.close()
    # A scan ends when its client closes the connection.
    while client.get("/v1/tables/many/rows/1").status == 503:
        pass
    assert client.get("/v1/tables/many/rows/1").json["n"] == 1


def test_a_client_that_does_not_read_is_disconnected(serve, many: str):
    client = serve(many, timeout=1)
    host, port = client.address.split(":")
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect((host, int(port)))
        # 40 MB, which no buffer of the system holds.
        slow.sendall(b"GET /v1/tables/many/scan HTTP/1.1\r\nHost: localhost\r\n\r\n")
        ours = slow.getsockname()[1]
        given_up = time.monotonic() + 60
        while is_established(int(port), ours):
            assert time.monotonic() < given_up, "the gateway keeps the connection"
            time.sleep(0.1)
    assert client.get("/healthz").status == 200


def is_established(port: int, peer: int) -> bool:
    """Whether the end of a connection at `port` of this machine is open."""
    ends = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    wanted = [f"0100007F:{port:04X}", f"0100007F:{peer:04X}"]
    return any(end[1:3] == wanted and end[3] == "01" for end in ends)


def test_damaged_requests_are_refused(serve, prices: str):
    client = serve(prices)
    host, port = client.address.split(":")
    for request in (
        b"\x00\x01\x02\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"GET /" + b"a" * (1 << 17) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 10_000 + b"\r\n",
    ):
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            try:
                connection.sendall(request)
                answer = connection.recv(1 << 16)
            except ConnectionError:
                continue
            assert answer == b"" or answer.split()[1].startswith(b"4"), request[:50]
    assert client.get("/healthz").status == 200
