"""`rewind`, `epoch drop` and `followers remove` without a query; `test_epochs.py` rewinds one."""

import json
from pathlib import Path

import pytest

from holdfast.cli import main


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "COMMAND"),
        (["rewind", "/nowhere"], "--epoch"),
        (["rewind", "/nowhere", "--epoch", "-1"], "is not an epoch"),
        (["rewind", "/nowhere", "--epoch", "99999999999999999999"], "is not an epoch"),
        (["epoch", "drop", "/nowhere", "x"], "is not an epoch: give Spark's batch id"),
        (["epoch", "drop", "/nowhere", "1", "--storage-option", "region"], "is not KEY=VALUE"),
    ],
)
def test_wrong_arguments_name_the_wanted_ones(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert text in capsys.readouterr().err


def test_a_folder_without_state_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for command in (
        ["rewind", str(tmp_path), "--epoch", "3"],
        ["epoch", "drop", str(tmp_path), "3"],
        ["followers", "remove", str(tmp_path), "billing"],
    ):
        assert main(command) == 1
        assert "there is no state here" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_mistyped_root_is_not_created(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    root = tmp_path / "rot"
    for command in (["rewind", str(root), "--epoch", "3"], ["epoch", "drop", str(root), "3"]):
        assert main(command) == 1
        assert (
            f"there is no such folder: give the root that State(...) was given [path: {root}]"
            in capsys.readouterr().err
        )
    assert list(tmp_path.iterdir()) == []


def test_dropping_an_epoch_without_staged_objects_removes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "meta.json").write_text(
        '{"format": 1, "id": "1f", "query_id": "q", "partitions": 2}'
    )
    assert main(["epoch", "drop", str(tmp_path), "500"]) == 0
    assert (
        capsys.readouterr().out
        == f"nothing is staged of epoch 500 in {tmp_path}: nothing was removed\n"
    )
    # A running query is not fenced by it.
    assert [path.name for path in tmp_path.iterdir()] == ["meta.json"]


def test_an_invalid_root_is_an_error_without_a_traceback(capsys: pytest.CaptureFixture[str]):
    assert main(["rewind", "ftp://example/state", "--epoch", "3"]) == 1
    assert capsys.readouterr().err.startswith("holdfast: ")


def test_json_has_the_fields_of_the_docs(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "meta.json").write_text(
        '{"format": 1, "id": "1f", "query_id": "q", "partitions": 2}'
    )
    assert main(["epoch", "drop", str(tmp_path), "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "root": str(tmp_path),
        "epoch": 0,
        "run": None,
        "objects": 0,
    }
