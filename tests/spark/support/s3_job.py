"""A query without Spark whose root is in the server of `s3_server.py`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import s3_server
from hosted import JOIN, LAYOUT

import holdfast.spark as hfs
from holdfast._core import HostClient

QUERY = "query-1"


class Job:
    """A query's driver and one task an epoch, with a state host in a process of its own."""

    def __init__(self, port: int, base: Path, behind: int | None = None, **options: str) -> None:
        self.port, self.base = port if behind is None else behind, base
        self.state = hfs.State(
            s3_server.root(), partitions=1, storage_options=s3_server.options(port, **options)
        )
        self.put("query/metadata", json.dumps({"id": QUERY}).encode())
        self.host: subprocess.Popen[bytes] | None = None
        self.epoch = -1
        self.snapshot_interval = 300_000_000

    def path(self, name: str) -> str:
        assert self.state.root is not None
        return f"{self.state.root.removeprefix('s3:/')}/{name}"

    def put(self, name: str, content: bytes) -> None:
        assert s3_server.request(self.port, "PUT", self.path(name), content)[0] == 200

    def names(self) -> list[str]:
        prefix = self.path("").removeprefix("/test/")
        content = s3_server.request(self.port, "GET", f"/test?list-type=2&prefix={prefix}")[
            2
        ].decode()
        return [
            part.partition("</Key>")[0].removeprefix(prefix) for part in content.split("<Key>")[1:]
        ]

    def heads(self) -> list[str]:
        """The names of the staged objects."""
        log = [name for name in self.names() if name.startswith("log/")]
        return sorted(name for name in log if "/decided." not in name)

    def start(self) -> None:
        (self.base / "token").write_text("a token")
        command = [sys.executable, "-m", "holdfast.host", "--socket", str(self.base / "host.sock")]
        command += [
            "--token-file",
            str(self.base / "token"),
            "--executor-pid",
            str(os.getpid()),
            "--idle-seconds",
            "60",
        ]
        with (self.base / "log").open("ab") as log:
            self.host = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, "TMPDIR": str(self.base)}
            )

    def kill(self) -> None:
        if self.host is not None:
            self.host.kill()
            self.host.wait()
            self.host = None

    def connect(self) -> HostClient:
        if self.host is None:
            self.start()
        deadline = time.monotonic() + 30
        while True:
            try:
                return HostClient.connect(str(self.base / "host.sock"), "a token", 10)
            except OSError:
                assert time.monotonic() < deadline, (self.base / "log").read_text()
                time.sleep(0.01)

    def run(self, *rows: tuple[bool, int, str, int]) -> list[tuple[int, int | None]]:
        """Runs an epoch with its offsets and commit.

        A row is (is left, time, currency, id of a left row or rate of a right row).
        """
        self.epoch += 1
        self.put(f"query/offsets/{self.epoch}", b"v1\n{}\n0")
        got = self.attempt(*rows)
        self.put(f"query/commits/{self.epoch}", b"v1\n{}")
        return got

    def attempt(
        self, *rows: tuple[bool, int, str, int], attempt: int = 1
    ) -> list[tuple[int, int | None]]:
        request: dict[str, Any] = {
            "root": self.state.root,
            "storage_options": self.state.storage_options,
            "query_id": QUERY,
            "run_id": "run-1",
            "epoch": self.epoch,
            "partition": 0,
            "partitions": 1,
            "attempt": attempt,
            "instance": "call-1",
            "settings": {"snapshot_interval": self.snapshot_interval},
            "operator": JOIN,
        }
        columns = [
            [0 for _ in rows],
            [row[0] for row in rows],
            [False for _ in rows],
            [row[1] for row in rows],
            [row[2] for row in rows],
            [row[3] if row[0] else None for row in rows],
            [None if row[0] else row[3] for row in rows],
        ]
        arrays = [
            pa.array(column, field.type) for column, field in zip(columns, LAYOUT, strict=True)
        ]
        client = self.connect()
        try:
            client.open_session(json.dumps(request))
            client.push(pa.RecordBatch.from_arrays(arrays, schema=LAYOUT))
            batches = [pa.record_batch(batch) for batch in client.finish()]
        finally:
            client.close()
        return [(row["id"], row["rate"]) for batch in batches for row in batch.to_pylist()]
