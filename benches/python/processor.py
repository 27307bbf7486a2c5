"""Scalar calls of a processor, without Spark.

A `get` and a `put` of keys of its batch, through a real state host.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
from figure import Figure

import holdfast as hf
from holdfast import _core
from holdfast.spark.worker.processor.context import ProcessorContext

ROWS, TOKEN = 10_000, "bench"
SCHEMA = pa.schema(
    [
        ("pid", pa.int32()),
        ("side", pa.bool_()),
        ("deleted", pa.bool_()),
        ("t", pa.timestamp("us", tz="UTC")),
        ("k0", pa.string()),
    ]
)


def figures(*, quick: bool) -> list[Figure]:
    """One figure for bytes, one for typed keys and values."""
    batches, rounds = (5, 3) if quick else (30, 5)
    text = (hf.serde.STRING, hf.serde.INT64)
    with tempfile.TemporaryDirectory() as folder:
        socket = _host(Path(folder))
        kinds = {"bytes": (hf.serde.BYTES, hf.serde.BYTES), "STRING to INT64": text}
        _pair(socket, 1, *text)  # imports what the first use imports, before the clock starts
        taken = {
            kind: [_pair(socket, batches, *serdes) for _ in range(rounds)]
            for kind, serdes in kinds.items()
        }
    what = "scalar `get` + `put` in a processor, keys of the batch, flush and fetch ahead included"
    return [
        Figure(
            f"{what}: {kind}",
            "nothing (absolute)",
            [clock for clock, _ in pairs],
            "<= 3",
            "us a pair",
            f"{median(busy for _, busy in pairs):.2f} us of it on the worker's processor; "
            f"{batches} batches of {ROWS:,} keys",
            "state of the epoch in memory; cache 128 MiB",
        )
        for kind, pairs in taken.items()
    ]


def _pair(
    socket: Path, batches: int, key: hf.serde.Serde, value: hf.serde.Serde
) -> tuple[float, float]:
    """Microseconds for a `get` and a `put`: elapsed, and of this process's processor time."""
    builder = hf.stores.key_value("hits", key=key, value=value)
    client = _core.HostClient.connect(str(socket), TOKEN, 10.0)
    client.open_session(json.dumps(_request()))
    numbers = np.random.default_rng(1).permutation(batches * ROWS)
    for batch in range(batches):
        keys = pa.array(
            [f"key-{number:08}" for number in numbers[batch * ROWS : (batch + 1) * ROWS]]
        )
        times = pa.array(np.arange(batch * ROWS, (batch + 1) * ROWS), SCHEMA.field("t").type)
        columns = [
            pa.array([0] * ROWS, pa.int32()),
            pa.array([True] * ROWS),
            pa.nulls(ROWS, pa.bool_()),
            times,
            keys,
        ]
        client.push(pa.record_batch(columns, schema=SCHEMA))
    calls = client.end_input()
    context = ProcessorContext(
        calls,
        [builder],
        epoch=0,
        partition=0,
        keys=pa.schema([("k", pa.string())]),
        timed=False,
        fires=False,
    )
    clock = busy = 0.0
    while len((rows := calls.rows())[0]):
        batch = pa.record_batch(rows[0])
        keys = batch["k"].to_pylist()
        if key is hf.serde.BYTES:
            keys, one = [text.encode() for text in keys], b"1"
        else:
            one = 1
        began = time.perf_counter(), time.process_time()
        context.begin_batch(batch, rows[1])
        hits = context["hits"]
        for found in keys:
            hits.get(found)
            hits.put(found, one)
        context.flush()
        clock += time.perf_counter() - began[0]
        busy += time.process_time() - began[1]
    calls.done()
    return clock / (batches * ROWS) * 1e6, busy / (batches * ROWS) * 1e6


def _request() -> dict[str, object]:
    operator = {
        "name": "bench",
        "kind": "process",
        "keys": ["k"],
        "left": [],
        "output": [{"name": "k", "from": "key", "index": 0}],
        "stores": [{"name": "hits", "kind": "key_value"}],
        "deterministic": True,
    }
    place = {"partition": 0, "partitions": 1, "attempt": 1, "instance": "bench"}
    return {"scratch": True, **place, "settings": {}, "operator": operator}


def _host(folder: Path) -> Path:
    (folder / "token").write_text(TOKEN)
    socket = folder / "host.sock"
    arguments = ["--socket", str(socket), "--token-file", str(folder / "token")]
    command = [
        sys.executable,
        "-m",
        "holdfast.host",
        *arguments,
        "--executor-pid",
        str(os.getpid()),
        "--idle-seconds",
        "5",
    ]
    subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while not socket.exists():
        time.sleep(0.01)
    return socket


if __name__ == "__main__":
    for figure in figures(quick="--quick" in sys.argv):
        print(figure)
