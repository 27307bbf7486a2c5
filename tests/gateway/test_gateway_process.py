"""The gateway as a process."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from gateway_client import Client

from holdfast.cli import main
from holdfast.gateway import named_roots

PAGE = Path(__file__).parents[2] / "docs" / "serve.md"


@contextmanager
def process(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], Client]]:
    command = [sys.executable, "-m", "holdfast", "serve", "--listen", "127.0.0.1:0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        try:
            assert started.stdout is not None
            url = started.stdout.readline().removeprefix("serving at ").strip()
            yield started, Client(url)
        finally:
            started.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_process_cleanly(prices: str, number: signal.Signals):
    with process(prices, "--offline", "auto") as (started, client):
        assert client.get("/v1/tables/prices/rows/tea").json["price"] == 3.5
        started.send_signal(number)
        assert started.wait(30) == 0


def test_open_requests_end_before_the_process(many: str):
    with process(many) as (started, client):
        scan = client.open("/v1/tables/many/scan?columns=n")
        started.send_signal(signal.SIGTERM)
        assert scan.read().count(b"{") == 200_000
        assert started.wait(30) == 0


def test_wrong_arguments_are_an_error(prices: str, tmp_path: Path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["serve", prices, "--listen", "0.0.0.0:0"])
    assert ended.value.code == 2
    assert "give a token file" in capsys.readouterr().err
    assert main(["serve", str(tmp_path / "none")]) == 1
    assert "holdfast: " in capsys.readouterr().err
    with pytest.raises(ValueError, match="NAME=ROOT"):
        named_roots(["/a/x", "/b/x/"])
    named = named_roots(["/a/x", "y=/b/x/", "s3://bucket/a=b/z", "./p=q"])
    assert named == {"x": "/a/x", "y": "/b/x/", "z": "s3://bucket/a=b/z", "p=q": "./p=q"}


def test_the_examples_of_the_docs_print_what_the_page_says(prices: str):
    page = PAGE.read_text()
    examples = re.findall(r"^\$ (curl [^\n]*)\n(.*?)(?=^\$ |^```)", page, re.DOTALL | re.MULTILINE)
    assert len(examples) >= 5
    with process(prices) as (_, client):
        for command, expected in examples:
            asked = command.replace("127.0.0.1:8474", client.address)
            found = subprocess.run(
                ["bash", "-c", asked], check=True, capture_output=True, text=True
            )
            lines = [line.strip() for line in found.stdout.strip().splitlines()]
            assert lines == [line.strip() for line in expected.strip().splitlines()], command
