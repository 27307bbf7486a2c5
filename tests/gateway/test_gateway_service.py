"""The command lines, the health checks and the figures of docs/gateway-service.md."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from gateway_client import Client

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "gateway-service.md").read_text()
TOKEN = "0123456789abcdef0123456789abcdef"


def block(kind: str) -> str:
    """The only block of this kind on the page."""
    (found,) = re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)
    return found


def of_unit() -> list[str]:
    """The arguments of the command of the systemd unit."""
    (line,) = re.findall(r"^ExecStart=(.*)$", block("ini"), re.MULTILINE)
    return shlex.split(line)[1:]


def of_image() -> list[str]:
    """The arguments of the command of the container image."""
    lines = re.findall(r"^(?:ENTRYPOINT|CMD) (\[.*\])$", block("dockerfile"), re.MULTILINE)
    return [word for line in lines for word in json.loads(line)][1:]


@contextmanager
def process(words: list[str], prices: str, folder: Path) -> Iterator[Client]:
    """Runs a command line of the page with a token, a root and a free port of the test."""
    token = folder / "token"
    token.write_text(TOKEN)
    own = {
        "/etc/holdfast/token": str(token),
        "/run/secrets/token": str(token),
        "/var/cache/holdfast": str(folder),
        "/var/lib/shop": prices,
        "s3://bucket/shop": prices,
        "0.0.0.0:8474": "0.0.0.0:0",
    }
    words = [own.get(word, word) for word in words]
    assert prices in words
    if "--listen" not in words:
        words += ["--listen", "127.0.0.1:0"]
    command = [sys.executable, "-m", "holdfast", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        try:
            assert started.stdout is not None
            url = started.stdout.readline().removeprefix("serving at ").strip()
            yield Client(url.replace("0.0.0.0", "127.0.0.1"))
            started.terminate()
            assert started.wait(30) == 0
        finally:
            started.kill()


@pytest.mark.parametrize("words", [of_unit(), of_image()], ids=["systemd", "container"])
def test_the_command_lines_serve_with_a_token(words: list[str], prices: str, tmp_path: Path):
    right = {"Authorization": f"Bearer {TOKEN}"}
    with process(words, prices, tmp_path) as client:
        # A supervisor asks by the address of a container.
        assert client.get("/healthz", Host="10.1.2.3:8474").status == 200
        for path in ("/v1/roots", "/metrics"):
            assert client.get(path).status == 401, path
            assert client.get(path, Host="state.example.org", **right).status == 200, path
        assert client.get("/v1/roots", **right).json[0]["epoch"] == 0


def test_without_a_token_no_other_host_name_is_answered(serve, prices: str):
    client = serve(prices)
    for path in ("/healthz", "/v1/roots", "/metrics"):
        assert client.get(path, Host="state.example.org").status == 421, path
        assert client.get(path, Host="127.0.0.1:8474").status == 200, path


def test_the_page_names_figures_that_exist():
    figures = set(re.findall(r"`(holdfast_\w+)`", (DOCS / "metrics.md").read_text()))
    named = set(re.findall(r"`(holdfast_\w+)`", PAGE))
    assert len(named) > 5
    assert named <= figures
