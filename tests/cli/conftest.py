"""The root of a query, made once for all tests of the command line."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pyarrow as pa
import pytest
from streams import Stream, kill_hosts

import holdfast.spark as hfs

ROWS = pa.schema(
    [("k", pa.string()), ("t", pa.timestamp("us", "UTC")), ("x", pa.int32()), ("note", pa.string())]
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent == item.path.parent and "root" in getattr(
            item, "fixturenames", ()
        ):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def root(spark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stopped query: a versioned table `prices`, snapshots, chunks, far-future rows."""
    base = tmp_path_factory.mktemp("cli")
    stream = Stream(spark, base, left=ROWS)
    if "storage_options" in stream.options:
        pytest.skip("the tests damage files")
    for epoch in range(5):
        stream.batch(left=[(key, epoch, epoch, f"{key}{epoch}") for key in "abcd"])
    # Records of more than 16 MiB are in chunks. A row of the year 2124 is a far-future row.
    big = [("a", 10 + row, row, random_text(row)) for row in range(40)]
    stream.batch(left=[*big, ("b", 100 * 366 * 86_400, 0, "far")])
    stream.batch(left=[("a", 60, 7, "newest"), ("e", 60, 1, "with space")])
    state = stream.state(snapshot_interval="0 seconds", retain_epochs=3)
    table = hfs.materialize(
        stream.source("left"),
        by="k",
        on="t",
        history_retention="3650 days",
        max_ahead="1 day",
        name="prices",
        state=state,
    )
    stream.run(table, each=lambda frame, _: frame.collect() and None)
    kill_hosts()
    finish_removal(stream.root)
    return stream.root


def finish_removal(root: Path) -> None:
    """Removes the snapshots that the killed host was removing, and files that no snapshot names.

    `holdfast verify` does not check them, but the tests damage any object that is there.
    """
    for mark in root.glob("snapshots/*/*/*.removal"):
        mark.with_suffix("").unlink(missing_ok=True)
        mark.unlink()
    for files in root.glob("snapshots/*/*/files"):
        manifests = [file for file in files.parent.iterdir() if file.is_file()]
        named = {
            "{digest}-{bytes}.{term[run]}.{term[generation]}".format(**file)
            for manifest in manifests
            for file in json.loads(manifest.read_text())["files"]
        }
        for file in files.iterdir():
            if file.name not in named:
                file.unlink()


def random_text(seed: int) -> str:
    """600,000 characters that do not compress, the same for the same seed."""
    return random.Random(seed).randbytes(300_000).hex()
