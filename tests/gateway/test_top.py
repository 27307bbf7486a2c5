"""`holdfast top` beside running hosts."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest

from holdfast.cli import main


def test_a_pipe_gets_the_partitions_once(prices: str, capsys: pytest.CaptureFixture[str]):
    assert main(["top", prices]) == 0
    titles, *rows = capsys.readouterr().out.splitlines()
    assert titles.split()[:4] == ["operator", "partition", "state", "host"]
    assert [row.split()[:2] for row in rows] == [["prices", "0"], ["prices", "1"]]
    assert main(["top", prices, "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [partition["partition"] for partition in found] == [0, 1]
    assert [row.split()[2:4] for row in rows] == [["in", "order"]] * 2
    assert {partition["condition"]["text"] for partition in found} == {"in order"}


def test_a_terminal_is_refreshed_until_ctrl_c(prices: str):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "holdfast", "top", prices, "--interval", "0.1"]
    with subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        env={**os.environ, "COLUMNS": "160", "TERM": "xterm"},
        start_new_session=True,
    ) as started:
        os.close(theirs)
        shown = b""
        while shown.count(b"epoch 0") < 3:
            shown += os.read(ours, 1 << 16)
        started.send_signal(2)
        # A program blocks until the output in its terminal is read.
        while True:
            try:
                os.read(ours, 1 << 16)
            except OSError:
                break
        assert started.wait(30) == 0
    os.close(ours)
    assert b"in order" in shown
