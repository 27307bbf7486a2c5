"""Reads of single keys by `holdfast serve`, against a static file of nginx.

Both are loaded in turns by `wrk` with one thread and eight connections. nginx has one worker and
serves a file of 100 bytes. The gateway and the state host are processes of their own. Needs nginx
and wrk.
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING
from urllib.request import urlopen

_BENCHES = Path(__file__).parents[1]
sys.path[:0] = [str(_BENCHES / place) for place in (".", "spark", "spark/reading")]

from _live_table import NAME, live_table
from _streams import session
from figure import Figure, ratios

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYS = 100_000
TURNS = 5
SECONDS = 4
FILE = "static file of 100 bytes by nginx with one worker"
SETTINGS = "HTTP/1.1 without TLS, connections kept open"
DRAWN = f"""
math.randomseed(7)
request = function()
  return wrk.format("GET", "/v1/tables/{NAME}/rows/" .. math.random(0, {KEYS - 1}))
end
"""
NGINX = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
events {{ worker_connections 64; }}
http {{
  access_log off; keepalive_requests 1000000000; root {folder}/files;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{ listen 127.0.0.1:{port}; }}
}}
"""


def figures(*, quick: bool) -> list[Figure]:
    """One key again and again, and keys drawn from all partitions."""
    missing = [name for name in ("nginx", "wrk") if shutil.which(name) is None]
    names = {
        "one": f"one key of {KEYS:,} by holdfast serve, wrk -t1 -c8",
        "drawn": f"keys drawn from {KEYS:,} in 4 partitions by holdfast serve, wrk -t1 -c8",
    }
    if missing:
        note = f"needs {' and '.join(missing)}"
        return [Figure(name, FILE, [], ">= 0.3", "throughput", note) for name in names.values()]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        rates = _measure(Path(folder), *((2, 1) if quick else (TURNS, SECONDS)))
    found = []
    for kind, name in names.items():
        turns = ratios(zip(rates[kind], rates["nginx"], strict=True))
        note = f"{median(rates[kind]):,.0f} requests/s against {median(rates['nginx']):,.0f}"
        found.append(Figure(name, FILE, turns, ">= 0.3", "throughput", note, SETTINGS))
    return found


def _measure(folder: Path, turns: int, seconds: int) -> dict[str, list[float]]:
    """Returns requests a second of each turn, by what was asked."""
    script = folder / "drawn.lua"
    script.write_text(DRAWN)
    with _gateway(folder) as gateway, _nginx(folder) as nginx:
        one = f"{gateway}/v1/tables/{NAME}/rows/4711"
        asked = {
            "nginx": [f"{nginx}/file"],
            "one": [one],
            "drawn": ["-s", str(script), gateway],
        }
        for url in (one, f"{nginx}/file"):
            with urlopen(url) as response:
                assert response.status == 200
        rates: dict[str, list[float]] = {kind: [] for kind in asked}
        for arguments in asked.values():
            _load(arguments, 1)
        for _ in range(turns):
            for kind, arguments in asked.items():
                rates[kind].append(_load(arguments, seconds))
        return rates


def _load(arguments: list[str], seconds: int) -> float:
    """Returns requests a second."""
    command = ["wrk", "-t1", "-c8", f"-d{seconds}s", *arguments]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.search(r"Requests/sec:\s+([\d.]+)", said)
    if found is None or "Non-2xx" in said:
        raise AssertionError(said)
    return float(found[1])


@contextmanager
def _gateway(folder: Path) -> Iterator[str]:
    """A gateway of a running query."""
    spark = session()
    with live_table(spark, folder, KEYS) as root:
        command = [sys.executable, "-m", "holdfast", "serve", str(root), "--listen", "127.0.0.1:0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
            try:
                assert started.stdout is not None
                yield started.stdout.readline().removeprefix("serving at ").strip()
            finally:
                started.terminate()
    spark.stop()


@contextmanager
def _nginx(folder: Path) -> Iterator[str]:
    """Serves a file of 100 bytes by nginx."""
    (folder / "files").mkdir()
    (folder / "files" / "file").write_text("x" * 100)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = folder / "nginx.conf"
    settings.write_text(NGINX.format(folder=folder, port=port))
    # Workers of another user could not read the folder.
    command = ["nginx", "-p", str(folder), "-c", str(settings), "-g", "user root;"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as started:
        try:
            _wait_for(port)
            yield f"http://127.0.0.1:{port}"
        finally:
            started.terminate()


def _wait_for(port: int) -> None:
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except ConnectionError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError("nginx does not listen")


if __name__ == "__main__":
    for figure in figures(quick="--quick" in sys.argv):
        print(figure)
