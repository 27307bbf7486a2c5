"""The commands that read, such as `get`, `scan` and `sql`, on the state of a stopped query."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from roots import copy_of, run

from holdfast._cli.keys import parse_key
from holdfast._cli.output import RowsForm, cell_text

NEWEST = "2024-01-01T00:01:00Z"


def lines(out: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.splitlines()]


def test_tables_are_listed(root: Path, capsys: pytest.CaptureFixture[str]):
    shown = run(capsys, "tables", root)
    assert shown.status == 0
    titles, row = shown.out.splitlines()
    assert titles.split()[0] == "table"
    assert row.split()[:4] == ["prices", "materialize", "versioned", "k"]
    (table,) = lines(run(capsys, "tables", root, "--json").out)
    assert table["table"] == "prices"
    assert table["columns"]["k"] == "string"
    assert table["key"] == ["k"]


def test_get_returns_one_row(root: Path, capsys: pytest.CaptureFixture[str]):
    (row,) = lines(run(capsys, "get", root, "prices", "a", "--json").out)
    assert (row["k"], row["x"], row["valid_from"]) == ("a", 7, NEWEST)
    by_column = run(capsys, "get", root, "prices", "k=a", "--columns", "x,k", "--json")
    assert by_column.out == '{"x": 7, "k": "a"}\n'
    older = run(capsys, "get", root, "prices", "a", "--as-of", "2024-01-01T00:00:02.5Z", "--json")
    assert lines(older.out)[0]["x"] == 2
    at_epoch = run(capsys, "get", root, "prices", "a", "--epoch", "4", "--json")
    assert lines(at_epoch.out)[0]["x"] == 4
    plain = run(capsys, "get", root, "prices.table", "e", "--columns", "k,note")
    assert plain.out == "k  note\ne  with space\n"


def test_a_key_without_a_row_is_an_error(root: Path, capsys: pytest.CaptureFixture[str]):
    ran = run(capsys, "get", root, "prices", "zz")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err == "holdfast: table prices has no row of the key zz\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["get", "prices", "a", "b"], "too many values"),
        (["get", "prices", "a", "--json", "--arrow", "x"], "not both"),
        (["get", "prices", "a", "--as-of", "2024-01-01"], "has no time zone"),
        (["scan", "prices", "--epoch", "-1"], "is not an epoch"),
        (["scan", "prices", "--limit", "-1"], "--limit"),
        (["scan", "prices", "--offline", "maybe"], "--offline"),
    ],
)
def test_wrong_arguments_are_usage_errors(
    root: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], text: str
):
    with pytest.raises(SystemExit) as ended:
        run(capsys, arguments[0], root, *arguments[1:])
    assert ended.value.code == 2
    assert text in capsys.readouterr().err


def test_wrong_names_and_epochs_are_errors(root: Path, capsys: pytest.CaptureFixture[str]):
    for arguments, text in [
        (["get", root, "rates", "a"], "no table of an operator 'rates'"),
        (["get", root, "prices", "a", "--columns", "y"], 'no column "y"'),
        (["scan", root, "prices", "--epoch", "99"], "99"),
        (["scan", root, "prices", "--at-least", "99", "--timeout", "0.1"], "within 0.1 s"),
        (["scan", root, "prices", "--offline", "never", "--timeout", "0.1"], "no state host"),
        (["scan", root / "rot", "prices"], "rot"),
    ]:
        ran = run(capsys, *arguments)
        assert ran.status == 1, arguments
        assert ran.err.startswith("holdfast: ")
        assert text in ran.err


def test_scan_returns_ranges(root: Path, capsys: pytest.CaptureFixture[str]):
    everything = lines(run(capsys, "scan", root, "prices", "--columns", "k,x", "--json").out)
    assert sorted(row["k"] for row in everything) == ["a", "b", "c", "d", "e"]
    some = run(capsys, "scan", root, "prices", "--start", "b", "--end", "c", "--json")
    assert sorted(row["k"] for row in lines(some.out)) == ["b", "c"]
    one = run(capsys, "scan", root, "prices", "--prefix", "d", "--columns", "k", "--json")
    assert lines(one.out) == [{"k": "d"}]
    assert len(lines(run(capsys, "scan", root, "prices", "--limit", "2", "--json").out)) == 2
    titles, *rows = run(capsys, "scan", root, "prices", "--columns", "k,x").out.splitlines()
    assert titles == "k  x"
    assert len(rows) == 5


def test_versions_come_oldest_first(root: Path, capsys: pytest.CaptureFixture[str]):
    found = lines(run(capsys, "versions", root, "prices", "b", "--columns", "x", "--json").out)
    assert [row["x"] for row in found] == [0, 1, 2, 3, 4]
    some = run(
        capsys, "versions", root, "prices", "b", "--start", "1704067201000000", "--limit", "2"
    )
    assert len(some.out.splitlines()) == 3


def test_rows_come_out_as_arrow(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "rows.arrow"
    assert run(capsys, "scan", root, "prices", "--arrow", file).out == ""
    with pa.ipc.open_file(file) as reader:
        assert sorted(reader.read_all()["k"].to_pylist()) == ["a", "b", "c", "d", "e"]
    assert run(capsys, "get", root, "prices", "a", "--arrow", file).status == 0
    with pa.ipc.open_file(file) as reader:
        assert reader.read_all()["x"].to_pylist() == [7]
    streamed = process("get", root, "prices", "a", "--arrow", "-")
    assert pa.ipc.open_stream(streamed.stdout).read_all()["x"].to_pylist() == [7]


def test_rows_that_end_with_an_error_are_no_whole_arrow_stream(
    capsysbinary: pytest.CaptureFixture[bytes],
):
    batch = pa.RecordBatch.from_pydict({"k": ["a"]})

    def failing() -> Iterator[pa.RecordBatch]:
        yield batch
        raise OSError("the host is gone")

    rows = pa.RecordBatchReader.from_batches(batch.schema, failing())
    with pytest.raises(OSError, match="the host is gone"):
        RowsForm(as_json=False, arrow_file="-").show(rows)
    written = pa.ipc.open_stream(capsysbinary.readouterr().out)
    assert written.read_next_batch() == batch
    with pytest.raises(pa.ArrowInvalid):
        written.read_next_batch()


def test_export_writes_a_whole_file_or_none(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "prices.parquet"
    ran = run(capsys, "export", root, "prices", file, "--columns", "k,x")
    assert ran.out == f"5 rows of prices are in {file}\n"
    assert sorted(pq.read_table(file)["k"].to_pylist()) == ["a", "b", "c", "d", "e"]
    before = file.read_bytes()

    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", fail)
    failed = run(capsys, "export", root, "prices", file)
    assert (failed.status, failed.err) == (1, "holdfast: the disk is full\n")
    assert [one.name for one in tmp_path.iterdir()] == [file.name]
    assert file.read_bytes() == before


def test_export_has_the_rows_of_a_time(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "prices.parquet"
    asked = ["--as-of", "2024-01-01T00:00:03Z", "--json"]
    assert json.loads(run(capsys, "export", root, "prices", file, *asked).out)["rows"] == 4
    assert set(pq.read_table(file)["x"].to_pylist()) == {3}


def test_epochs_are_lines_of_json(root: Path, capsys: pytest.CaptureFixture[str]):
    found = lines(run(capsys, "epochs", root, "--last", "2", "--json").out)
    assert [epoch["epoch"] for epoch in found] == [5, 6]
    assert found[0]["operators"]["prices"]["ahead"] == 1


def test_sql_shows_all_columns_and_times(root: Path, capsys: pytest.CaptureFixture[str]):
    beyond = "select date '290000-01-01' as d, 'infinity'::timestamp as t"
    assert run(capsys, "sql", root, beyond).out.split()[:3] == ["d", "t", "<value"]
    assert run(capsys, "sql", root, beyond, "--json").out.startswith('{"d": "<value out of range')
    assert run(capsys, "sql", root, "select 1 as a, 2 as a").out == "a  a\n1  2\n"
    twice = run(capsys, "sql", root, "select 1 as a, 2 as a", "--json")
    assert (twice.status, "rename one" in twice.err) == (1, True)
    nested = run(capsys, "sql", root, "select [date '290000-01-01'] as d")
    assert (nested.status, "write it by --arrow" in nested.err) == (1, True)
    assert run(capsys, "sql", root, "create table one (a int)").status == 0


def process(*arguments: object, **options: object) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "holdfast", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, **options)


def test_rows_of_a_staged_epoch_are_read_if_asked_for(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    copy = copy_of(root, tmp_path / "copy")
    (copy / "query/commits/6").unlink()
    get = ["get", copy, "prices", "a", "--columns", "x", "--offline", "only", "--json"]
    committed = lines(run(capsys, *get).out)
    staged = lines(run(capsys, *get, "--isolation-level", "read_uncommitted").out)
    assert (committed, staged) == ([{"x": 39}], [{"x": 7}])


def test_a_terminal_shows_a_table_and_its_epoch(root: Path):
    # The pseudo-terminal merges stdout and stderr of the command.
    code = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"
    command = [sys.executable, "-m", "holdfast", "scan", str(root), "prices", "--columns", "k,x"]
    ran = subprocess.run([sys.executable, "-c", code, *command], capture_output=True)
    shown = ran.stdout.decode()
    assert ran.returncode == 0
    assert "│ e │ 1 │" in shown
    assert "of epoch 6" in shown


def test_a_closed_pipe_ends_the_command_without_an_error(root: Path):
    command = [sys.executable, "-m", "holdfast", "versions", str(root), "prices", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as ran:
        assert ran.stdout is not None
        ran.stdout.readline()
        ran.stdout.close()
        assert ran.stderr is not None
        assert ran.stderr.read() == b""
    assert ran.returncode == 0


def test_the_shell_completes_commands_and_tables(root: Path):
    def complete(words: str, position: int) -> list[str]:
        asked = {"_HOLDFAST_COMPLETE": "bash_complete", "COMP_WORDS": words}
        ran = process(env={**os.environ, **asked, "COMP_CWORD": str(position)})
        return [line.partition(",")[2] for line in ran.stdout.decode().split()]

    assert "tables" in complete("holdfast ta", 1)
    assert complete(f"holdfast get {root} pr", 3) == ["prices"]
    assert complete("holdfast get /nowhere pr", 3) == []


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_its_packages_the_command_says_what_to_install(missing: str):
    code = f"import sys; sys.modules[{missing!r}] = None; import holdfast.cli as c; "
    ran = subprocess.run(
        [sys.executable, "-c", code + "sys.exit(c.main(['tables', '/']))"], capture_output=True
    )
    assert ran.returncode == 1
    assert ran.stderr.decode() == (
        f'holdfast: the command line needs {missing}: install holdfast with the extra "cli": '
        "see Installation in the README\n"
    )


def table_of(**columns: pa.DataType) -> SimpleNamespace:
    return SimpleNamespace(key=tuple(columns), schema=pa.schema(columns))


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (pa.int64(), "-7", -7),
        (pa.float64(), "1.5", 1.5),
        (pa.bool_(), "true", True),
        (pa.binary(), "00ff", b"\x00\xff"),
        (pa.string(), "", ""),
        (pa.struct({"a": pa.int64()}), '{"a": 1}', {"a": 1}),
    ],
)
def test_a_key_is_parsed_by_the_type_of_its_column(kind: pa.DataType, text: str, value: object):
    assert parse_key(table_of(k=kind), [text], "KEY") == value


def test_times_and_dates_are_keys():
    moment = parse_key(table_of(k=pa.timestamp("us", "UTC")), ["2024-01-01T00:00:00Z"], "KEY")
    assert moment == datetime(2024, 1, 1, tzinfo=UTC)
    assert parse_key(table_of(k=pa.date32()), ["2024-01-01"], "KEY") == date(2024, 1, 1)
    naive = parse_key(table_of(k=pa.timestamp("us")), ["2024-01-01T00:00:00"], "KEY")
    assert naive == datetime(2024, 1, 1)


def test_a_key_of_several_columns_is_given_by_position_or_name():
    table = table_of(a=pa.int64(), b=pa.string())
    assert parse_key(table, ["1", "x"], "KEY") == (1, "x")
    assert parse_key(table, ["b=x", "a=1"], "KEY") == (1, "x")
    assert parse_key(table, ["1"], "--prefix", whole=False) == (1,)
    for texts, wanted in [
        (["1"], "'b' is missing"),
        (["1", "a=2"], "'a' is given twice"),
        (["x", "y"], "is int64, and 'x' is not"),
        (["1", "x", "y"], "too many"),
    ]:
        with pytest.raises(click.UsageError, match=wanted):
            parse_key(table, texts, "KEY")


def test_a_cell_has_no_control_sequences():
    assert cell_text("a\x1b[31mb\n") == "a\\u001b[31mb\\n"
    assert cell_text("naïve 🍵") == "naïve 🍵"


def test_a_file_keeps_its_mode_and_a_pipe_is_not_replaced(root: Path, tmp_path: Path, capsys):
    file, link, pipe = tmp_path / "rows.arrow", tmp_path / "link", tmp_path / "pipe"
    file.write_bytes(b"old")
    file.chmod(0o600)
    link.symlink_to(file)
    assert run(capsys, "scan", root, "prices", "--arrow", link).status == 0
    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o600
    os.mkfifo(pipe)
    reading = threading.Thread(target=pipe.read_bytes)
    reading.start()
    # An Arrow file cannot be written into a pipe: `--arrow -` writes a stream.
    assert run(capsys, "scan", root, "prices", "--arrow", pipe).status == 1
    reading.join()
    assert pipe.is_fifo()
