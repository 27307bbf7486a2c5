"""A query without Spark: a state host, the driver's files, and a session per partition."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import holdfast.spark as hfs
from holdfast._core import HostClient

LAYOUT = pa.schema(
    [
        ("pid", pa.int32()),
        ("side", pa.bool_()),
        ("deleted", pa.bool_()),
        ("t", pa.timestamp("us", "UTC")),
        ("k0", pa.string()),
        ("l0", pa.int64()),
        ("r0", pa.int64()),
    ]
)
JOIN = {
    "name": "join",
    "kind": "join_asof",
    "keys": ["currency"],
    "left": ["id"],
    "right": ["rate"],
    "how": "left",
    "history_retention": 1_000_000,
    "order_left": [],
    "order_right": [],
    "output": [
        {"name": "id", "from": "left", "index": 0},
        {"name": "rate", "from": "right", "index": 0},
    ],
}


class Host:
    """A state host. Its executor is this process, or the process id `executor`.

    It ends after `idle` seconds without a session.
    """

    def __init__(self, folder: Path, executor: int | None = None, *, idle: int = 600) -> None:
        self.socket, token = folder / "host.sock", folder / "token"
        self.token = secrets.token_hex(16)
        token.touch(mode=0o600)
        token.write_text(self.token)
        command = [
            sys.executable,
            "-P",
            "-m",
            "holdfast.host",
            "--socket",
            str(self.socket),
            "--token-file",
            str(token),
        ]
        command += ["--executor-pid", str(executor or os.getpid()), "--idle-seconds", str(idle)]
        path = os.pathsep.join(
            filter(None, (str(Path(hfs.__file__).parents[2]), os.environ.get("PYTHONPATH")))
        )
        self.process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path})

    def session(
        self, request: dict[str, Any], batches: Sequence[pa.RecordBatch]
    ) -> list[dict[str, Any]]:
        """Runs a session with this input; returns its result's rows."""
        client = self._connect()
        try:
            client.open_session(json.dumps(request))
            for batch in batches:
                client.push(batch)
            return [
                row for result in client.finish() for row in pa.record_batch(result).to_pylist()
            ]
        finally:
            client.close()

    def _connect(self) -> HostClient:
        deadline = time.monotonic() + 30
        while True:
            try:
                return HostClient.connect(str(self.socket), self.token, 10.0)
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise
                time.sleep(0.01)

    def stop(self) -> None:
        """Ends the host."""
        self.process.kill()
        self.process.wait()


class Query:
    """A query with one operator, whose micro-batches come as lists of batches by partition."""

    def __init__(self, host: Host, root: Path, operator: dict[str, Any], partitions: int) -> None:
        self.host = host
        self.root = root
        self.operator = operator
        self.partitions = partitions
        self.state = hfs.State(str(root), partitions=partitions)
        self.id, self.run = str(uuid.uuid4()), str(uuid.uuid4())
        self.next = 0
        for folder in ("offsets", "commits"):
            (root / "query" / folder).mkdir(parents=True)
        (root / "query/metadata").write_text(json.dumps({"id": self.id}))

    def epoch(
        self, batches: Sequence[Sequence[pa.RecordBatch]], *, commit: bool = True
    ) -> list[dict[str, Any]]:
        """Runs one micro-batch.

        Without `commit` the driver dies before its commit, and the next call repeats it.
        """
        (self.root / f"query/offsets/{self.next}").write_text("v1\n{}\n0")
        rows = [
            row
            for number, ours in enumerate(batches)
            for row in self.host.session(self._request(number), ours)
        ]
        if commit:
            (self.root / f"query/commits/{self.next}").write_text("v1\n{}")
            self.next += 1
        else:
            self.run = str(uuid.uuid4())
        return rows

    def static(self, batches: Sequence[Sequence[pa.RecordBatch]]) -> list[dict[str, Any]]:
        """The operator's result on a static frame."""
        scratch = {"root": None, "scratch": True, "query_id": None, "run_id": None, "epoch": None}
        operator = {**self.operator, "last": True}
        requests = (
            {**self._request(number), **scratch, "operator": operator}
            for number in range(self.partitions)
        )
        return [
            row
            for request, ours in zip(requests, batches, strict=True)
            for row in self.host.session(request, ours)
        ]

    def _request(self, partition: int) -> dict[str, Any]:
        return {
            "root": str(self.root),
            "local_dir": None,
            "scratch": False,
            "partitions": self.partitions,
            "instance": self.id,
            "settings": self.state.settings,
            "operator": self.operator,
            "query_id": self.id,
            "run_id": self.run,
            "epoch": self.next,
            "partition": partition,
            "attempt": int.from_bytes(os.urandom(4)),
        }
