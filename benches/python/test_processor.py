"""Scalar calls of a processor, without Spark.

A `get` and a `put` of keys of its batch, through a real state host.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from figure import Figure

import holdfast as hf
from holdfast import _core
from holdfast.spark.worker.processor.context import ProcessorContext

if TYPE_CHECKING:
    from pathlib import Path

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


@pytest.fixture
def host(tmp_path):
    """The socket of a new state host."""
    (tmp_path / "token").write_text(TOKEN)
    socket = tmp_path / "host.sock"
    command = [sys.executable, "-m", "holdfast.host", "--socket", str(socket)]
    command += ["--token-file", str(tmp_path / "token")]
    command += ["--executor-pid", str(os.getpid()), "--idle-seconds", "5"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        while not socket.exists():
            time.sleep(0.01)
        yield socket
        process.terminate()


@pytest.mark.parametrize("kind", ["bytes", "STRING to INT64"])
def test_get_and_put(benchmark, publish, quick, host, kind):
    batches = 5 if quick else 30
    is_text = kind != "bytes"
    key, value = (hf.serde.STRING, hf.serde.INT64) if is_text else (hf.serde.BYTES, hf.serde.BYTES)
    calls = _calls(host, batches)
    context = ProcessorContext(
        calls,
        [hf.stores.key_value("hits", key=key, value=value)],
        epoch=0,
        partition=0,
        keys=pa.schema([("k", pa.string())]),
        timed=False,
        fires=False,
    )

    def next_batch() -> tuple[tuple[object, ...], dict[str, object]]:
        rows, time = calls.rows()
        batch = pa.record_batch(rows)
        assert len(batch) == ROWS
        keys = batch["k"].to_pylist()
        return (batch, time, keys if is_text else [text.encode() for text in keys]), {}

    def process(batch: pa.RecordBatch, time: int | None, keys: list[object]) -> None:
        context.begin_batch(batch, time)
        hits, one = context["hits"], 1 if is_text else b"1"
        for found in keys:
            hits.get(found)
            hits.put(found, one)
        context.flush()

    # The first use imports modules.
    benchmark.pedantic(process, setup=next_batch, rounds=batches - 1, warmup_rounds=1)
    assert not len(calls.rows()[0])
    calls.done()
    publish(
        Figure(
            "scalar `get` + `put` in a processor, keys of the batch, flush and fetch ahead "
            f"included: {kind}",
            "nothing (absolute)",
            [seconds / ROWS * 1e6 for seconds in benchmark.stats.stats.data],
            "<= 3",
            "us a pair",
            f"a turn is a batch of {ROWS:,} keys",
            "the transaction in memory; cache 128 MiB, LZ4",
        )
    )


def _calls(host: Path, batches: int) -> Any:
    """A session, to which all rows have been sent."""
    client = _core.HostClient.connect(str(host), TOKEN, 10.0)
    client.open_session(json.dumps(_request()))
    numbers = np.random.default_rng(1).permutation(batches * ROWS)
    for batch in range(batches):
        rows = slice(batch * ROWS, (batch + 1) * ROWS)
        columns = [
            pa.array([0] * ROWS, pa.int32()),
            pa.array([True] * ROWS),
            pa.nulls(ROWS, pa.bool_()),
            pa.array(np.arange(rows.start, rows.stop), SCHEMA.field("t").type),
            pa.array([f"key-{number:08}" for number in numbers[rows]]),
        ]
        client.push(pa.record_batch(columns, schema=SCHEMA))
    return client.end_input()


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
