"""A process ends while a thread still reads ahead in a scan."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest
from hosted import JOIN, LAYOUT, Host, Query
from reading import stored
from streams import Stream, kill_hosts

# Arrow reads 32 batches ahead, and a batch has at most 10,000 rows.
ROWS = 400_000
# The scan of the first key makes a copy of each partition: this takes longer than a process's exit.
PARTITIONS = 48


@pytest.fixture(scope="module")
def root(spark, tmp_path_factory: pytest.TempPathFactory) -> str:
    stream = Stream(spark, tmp_path_factory.mktemp("exit"))
    if "storage_options" in stream.options:
        pytest.skip("a folder is enough")
    stream.batch(left=[(str(row), 0, row) for row in range(ROWS)])
    stream.run(
        stored(stream), each=lambda frame, _: frame.write.format("noop").mode("append").save()
    )
    kill_hosts()
    return stream.address


@pytest.mark.parametrize(
    "code",
    [
        "print(table.dataset().head(5).num_rows)",
        "print(len(reader.sql('select * from \"table\" limit 5').fetchall()))",
        "print(polars.scan_pyarrow_dataset(table.dataset()).head(5).collect().height)",
    ],
)
def test_a_process_exits_after_the_first_rows(root: str, code: str):
    begin = f"import polars, holdfast as hf; reader = hf.connect({root!r}, offline='only'); "
    ran = process("-c", f"{begin}table = reader['table']; {code}")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "5\n", "")


def test_the_command_sql_exits_after_the_first_rows(root: str):
    ran = process("-m", "holdfast", "sql", root, 'select x from "table" limit 3', "--json")
    assert (ran.returncode, len(ran.stdout.splitlines())) == (0, 3), ran.stderr


def test_a_statement_that_fails_ends_the_command(root: str):
    ran = process("-m", "holdfast", "sql", root, 'select k::date from "table"')
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "date" in ran.stderr


@pytest.fixture(scope="module")
def partitioned_root(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The root of a join, made without Spark: a key in each partition."""
    folder = tmp_path_factory.mktemp("partitioned")
    host = Host(folder)
    query = Query(host, folder / "root", JOIN, PARTITIONS)
    query.epoch([[rate(partition)] for partition in range(PARTITIONS)])
    host.stop()
    return str(folder / "root")


def rate(partition: int) -> pa.RecordBatch:
    """A right row of the join, with a key of this partition."""
    row = (partition, False, None, 0, f"{partition:02}", None, partition)
    arrays = [pa.array([cell], field.type) for cell, field in zip(row, LAYOUT, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=LAYOUT)


@pytest.mark.parametrize(
    "code",
    [
        "print(len(next(iter(table.scan(end='00')))))",
        "rows = table.scan(end='00'); print(len(next(rows))); leak(rows)",
        "print(len(reader.sql('select * from \"join\" limit 1').fetchall()))",
    ],
)
def test_a_process_exits_while_a_scan_makes_copies(partitioned_root: str, code: str):
    begin = f"""
import ctypes, holdfast as hf
leak = lambda rows: ctypes.pythonapi.Py_IncRef(ctypes.py_object(rows))
reader = hf.connect({partitioned_root!r}, offline="only")
table = reader["join"]
"""
    for _ in range(10):
        ran = process("-c", begin + code)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "1\n", "")


def process(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)
