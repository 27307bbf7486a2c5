"""A full disk of a root or of the databases."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from drivers import wait
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from sequence_query import SequenceQuery
from streams import Root, kill_hosts


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A separate disk of 64 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", disk], check=False, capture_output=True
    )
    if mount.returncode:
        pytest.skip(f"only root may mount a disk: {mount.stderr.decode()}")
    yield disk
    kill_hosts()
    subprocess.run(["umount", "--lazy", disk], check=True)


@pytest.mark.survive
@pytest.mark.parametrize("full", ["root", "databases"])
def test_a_full_disk_is_a_named_error(query: SequenceQuery, small_disk: Path, full: str):
    """The error says what to do; after space is freed, the query continues."""
    if full == "root":
        if "HOLDFAST_TEST_S3" in os.environ:
            pytest.skip("this test cannot fill the disk of an S3 server")
        query.place = Root(small_disk / "state")
    else:
        query.settings = {"local_dir": str(small_disk)}
    query.arrive(4)
    filler, ended = small_disk / "filler", threading.Event()

    def fill() -> None:
        """Fills freed space again: RocksDB removes files before it makes new ones."""
        with filler.open("wb", buffering=0) as file:
            while not ended.wait(0.005):
                with suppress(OSError):
                    while True:
                        file.write(bytes(4096))

    thread = threading.Thread(target=fill)

    def each(frame: DataFrame, batch: int, joined: DataFrame) -> None:
        if batch == 2 and thread.ident is None:
            # From now on the driver writes nothing until its tasks have ended.
            thread.start()
            wait(lambda: shutil.disk_usage(small_disk).free == 0, "the disk does not become full")
            if full == "databases":
                kill_hosts()  # the next host opens the databases again
        query.keep(batch, joined.collect())

    try:
        with pytest.raises(StreamingQueryException, match="[Ff]ree space"):
            query.run(each)
    finally:
        ended.set()
        thread.join()
    filler.unlink()
    query.run(each)
    query.check(totals=False)
