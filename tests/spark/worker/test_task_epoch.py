"""The epoch of a task, from its local properties and the checkpoint in the root."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from holdfast.errors import HoldfastError
from holdfast.spark.epoch import BATCH_ID, DESCRIPTION, JOB_GROUP, QUERY_ID, Epoch
from holdfast.spark.worker.task_epoch import task_epoch

QUERY, OTHER, RUN, LATER = (str(UUID(int=n)) for n in range(4))
SEVEN = Epoch(QUERY, RUN, 7)


def setting(epoch: Epoch) -> dict[str, str]:
    return {epoch.setting: epoch.setting_value}


def streaming(epoch: Epoch, **changed: str) -> dict[str, str]:
    """The properties of a job that Spark starts in a micro-batch."""
    return {
        QUERY_ID: epoch.query_id,
        BATCH_ID: str(epoch.number),
        JOB_GROUP: epoch.run_id,
        DESCRIPTION: f"\nid = {epoch.query_id}\nrunId = {epoch.run_id}\nbatch = {epoch.number}",
        **changed,
    }


@pytest.fixture
def request_(tmp_path: Path) -> dict[str, Any]:
    """The request of an operator in the root of QUERY."""
    (tmp_path / "query").mkdir()
    (tmp_path / "query" / "metadata").write_text(json.dumps({"id": QUERY}))
    return {"root": str(tmp_path), "storage_options": {}, "operator": {"name": "op"}}


@pytest.mark.parametrize(
    ("properties", "captured"),
    [
        (streaming(SEVEN), None),
        (setting(SEVEN), None),
        (setting(SEVEN) | setting(Epoch(OTHER, RUN, 9)), None),
        (streaming(SEVEN) | setting(SEVEN), None),
        # The user has set another job group and description.
        (streaming(SEVEN, **{JOB_GROUP: "mine", DESCRIPTION: "mine"}) | setting(SEVEN), None),
        ({}, SEVEN),
        (streaming(SEVEN, **{JOB_GROUP: "mine"}), SEVEN),
        (setting(SEVEN) | setting(Epoch(OTHER, RUN, 9)), SEVEN),
    ],
)
def test_the_epoch_is_found(request_: dict[str, Any], properties, captured):
    assert task_epoch(properties.get, captured, request_) == SEVEN


@pytest.mark.parametrize(
    ("properties", "captured", "message"),
    [
        ({}, None, "belongs to no micro-batch of that query"),
        (setting(Epoch(OTHER, RUN, 7)), None, "belongs to no micro-batch of that query"),
        (
            streaming(SEVEN) | setting(Epoch(QUERY, RUN, 8)),
            None,
            f"epoch 7 of run {RUN}, but its session has the setting .* of epoch 8 of run {RUN}",
        ),
        (
            streaming(Epoch(QUERY, LATER, 7)) | setting(SEVEN),
            None,
            rf'run {LATER}, .* spark.conf.unset\("spark.holdfast.epoch.{QUERY}"\)',
        ),
        (streaming(SEVEN, **{JOB_GROUP: "mine"}), None, "the job group 'mine' is not the run id"),
        (streaming(Epoch(QUERY, RUN, 8)), SEVEN, "evaluated in epoch 8 .* in every micro-batch"),
        (setting(Epoch(QUERY, RUN, 8)), SEVEN, "evaluated in epoch 8 .* in every micro-batch"),
        (streaming(Epoch(OTHER, RUN, 7)), SEVEN, f"evaluated in epoch 7 of query {OTHER}"),
    ],
)
def test_a_missing_or_different_epoch_is_refused(
    request_: dict[str, Any], properties, captured, message: str
):
    with pytest.raises(HoldfastError, match=message):
        task_epoch(properties.get, captured, request_)


def test_a_root_without_a_checkpoint_has_no_epoch(request_: dict[str, Any]):
    (Path(request_["root"]) / "query" / "metadata").unlink()
    with pytest.raises(HoldfastError, match=re.escape(f"keeps its state in {request_['root']}")):
        task_epoch(setting(SEVEN).get, None, request_)
