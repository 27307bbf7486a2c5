"""A task that records its request, in a module because Python workers import it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from holdfast.spark.worker.task import OperatorTask


class RecordingTask(OperatorTask):
    """Writes each request into the folder `requests` beside the root."""

    def _results(self, client: Any, request: dict[str, Any]) -> Any:
        folder = Path(request["root"]).parent / "requests"
        folder.mkdir(exist_ok=True)
        # Tasks of several operators may write the same file at the same time.
        written = folder.with_name(f"request-{request['attempt']}")
        written.write_text(json.dumps(request))
        written.replace(folder / f"{request['epoch']}.{request['partition']}")
        return super()._results(client, request)


def requests_of(root: Path) -> dict[tuple[int, int], dict[str, Any]]:
    """Returns the last request of each epoch and partition, of any operator."""
    found = {}
    for file in (root.parent / "requests").iterdir():
        epoch, _, partition = file.name.partition(".")
        found[int(epoch), int(partition)] = json.loads(file.read_text())
    return found
