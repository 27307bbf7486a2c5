"""The changes of a table."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from gateway_client import ARROW, Client

import holdfast as hf
from holdfast.cli import main

PATH = "/v1/tables/moving/changes"


def of_key(client: Client, query: str = "") -> list[tuple[int, int]]:
    """The epochs and values of the key that each epoch changes."""
    rows: list[dict[str, Any]] = client.get(PATH + query).json
    return [(row["epoch"], row["v"]) for row in rows if row["k"] == "a"]


def test_changes_come_by_epoch_in_each_format(serve, moving: str):
    client = serve(moving)
    answer = client.get(PATH)
    assert (answer.status, answer.epoch) == (200, 2)
    assert of_key(client) == [(0, 0), (1, 1), (2, 2)]
    assert {row["k"] for row in answer.json} == {"a", "only 0", "only 1", "only 2"}
    assert not any(row["deleted"] for row in answer.json)
    lines = client.get(PATH, Accept="application/x-ndjson").body.splitlines()
    assert [json.loads(line) for line in lines] == answer.json
    with hf.connect(moving) as reader:
        expected = reader["moving"].changes().read_all()
    assert client.get(PATH, Accept=ARROW).table.equals(expected)


def test_changes_are_limited_by_epochs_and_partition(serve, moving: str):
    client = serve(moving)
    assert of_key(client, "?from_epoch=1") == [(1, 1), (2, 2)]
    assert of_key(client, "?to_epoch=1") == [(0, 0), (1, 1)]
    assert client.get(PATH + "?to_epoch=1").epoch == 1
    assert of_key(client, "?from_epoch=1&to_epoch=1") == [(1, 1)]
    assert client.get(PATH + "?from_epoch=3").json == []
    of_partitions = [of_key(client, f"?partition={number}") for number in range(2)]
    assert sorted(of_partitions) == [[], [(0, 0), (1, 1), (2, 2)]]


@pytest.mark.parametrize(
    ("query", "status", "kind"),
    [
        ("?to_epoch=3", 503, "NotUpToBoundError"),
        ("?from_epoch=x", 400, "ValueError"),
        ("?partition=2", 400, "ValueError"),
        ("?partition=99999999999", 400, "ValueError"),
    ],
)
def test_wrong_ranges_are_problems(serve, moving: str, query: str, status: int, kind: str):
    problem = serve(moving).problem(PATH + query)
    assert (problem["status"], problem["class"]) == (status, kind)


def test_changes_that_are_lost_are_a_problem_with_the_oldest_epoch(
    serve, moving: str, tmp_path: Path
):
    root = shutil.copytree(moving, tmp_path / "moving")
    (oldest,) = (folder for folder in (root / "log").iterdir() if int(folder.name) == 0)
    shutil.rmtree(oldest)
    client = serve(root)
    problem = client.problem(PATH + "?from_epoch=0")
    assert (problem["status"], problem["class"]) == (410, "ChangesLostError")
    assert problem["oldest_epoch"] == 1
    assert "the oldest epoch that it holds is 1" in problem["detail"]
    assert of_key(client) == [(1, 1), (2, 2)]


def copied(moving: str, tmp_path: Path) -> Path:
    """A copy of the root, without the addresses of its state hosts."""
    root = tmp_path / "moving"
    shutil.copytree(moving, root, ignore=shutil.ignore_patterns("state", "owners", "readers"))
    return root


def test_a_client_that_follows_changes_notices_a_rewind(serve, moving: str, tmp_path: Path):
    root = copied(moving, tmp_path)
    client = serve(str(root))
    answer = client.get(PATH)
    assert (answer.epoch, answer.headers["Holdfast-Rewind"]) == (2, "0")
    assert client.get(PATH + "?from_epoch=3&rewind=0").json == []
    assert main(["rewind", str(root), "--epoch", "2"]) == 0
    problem = client.problem(PATH + "?from_epoch=3&rewind=0")
    assert (problem["status"], problem["class"]) == (410, "RestoreError")
    scan = client.get("/v1/tables/moving/scan")
    assert (scan.epoch, scan.headers["Holdfast-Rewind"]) == (1, "0")
    assert client.get(PATH + "?from_epoch=2&rewind=0").json == []


def test_a_client_notices_a_rewind_before_other_errors(serve, moving: str, tmp_path: Path):
    root = copied(moving, tmp_path)
    client = serve(str(root))
    assert main(["rewind", str(root), "--epoch", "1"]) == 0
    for parameters in ("from_epoch=3&rewind=0", "from_epoch=3&to_epoch=9&rewind=0"):
        problem = client.problem(f"{PATH}?{parameters}")
        assert (problem["status"], problem["class"]) == (410, "RestoreError")


def test_changes_before_the_first_final_epoch_are_a_problem(serve, moving: str, tmp_path: Path):
    """An empty answer with an epoch would make a client skip the first final epoch."""
    root = copied(moving, tmp_path)
    (commits,) = root.rglob("commits")
    shutil.rmtree(commits)
    problem = serve(str(root)).problem(PATH)
    assert (problem["status"], problem["class"]) == (503, "NotUpToBoundError")
