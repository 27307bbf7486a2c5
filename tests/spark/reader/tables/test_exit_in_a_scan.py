"""A process ends while Arrow still reads ahead in a scan."""

from __future__ import annotations

import subprocess
import sys

import pytest
from reading import stored
from streams import Stream, kill_hosts

# Arrow reads 32 batches ahead, and a batch has at most 10,000 rows.
ROWS = 400_000


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


def process(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)
