"""The arguments of commands, with malformed and extreme values: none ends in a traceback.

All options with values of the top-level commands are tried; `followers` is not.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import reduce
from pathlib import Path

import click
import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from roots import copy_of
from streams import Stream, kill_hosts

import holdfast.spark as hfs
from holdfast._cli.commands import holdfast
from holdfast._reader.text_value import value_of_text
from holdfast.cli import main
from holdfast.gateway import Gateway

VALUES = [
    "",
    "x",
    "-1",
    str(2**63 - 1),
    str(-(2**63)),
    str(2**70),
    "9" * 5_000,
    "1e18",
    "1e400",
    "nan",
    "0000-01-01",
    "0001-01-01T00:00:00+23:59",
    "99999-12-31T23:59:59Z",
    "\udcff",
    "\x1b[31m",
    "\u0663",
    "[" * 100_000,
    "=",
    ",",
    "://",
]
# Columns of the key of the table `typed`: the SQL expression of each, and the text of a value.
KEY = {
    "text": ("k", "a"),
    "whole": ("x", "1"),
    "byte": ("cast(x as tinyint)", "1"),
    "double": ("x / 2D", "0.5"),
    "amount": ("cast(x * 1.05 as decimal(10, 2))", "1.05"),
    "instant": ("t", "2024-01-01T00:00:01Z"),
    "local": ("cast(t as timestamp_ntz)", "2024-01-01T00:00:01"),
    "day": ("date '2024-01-01'", "2024-01-01"),
    "bytes": ("cast(k as binary)", "61"),
    "flag": ("x > 0", "true"),
}


@pytest.fixture(scope="module")
def typed(spark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stopped query with keys of many types, windows, sessions and versions."""
    stream = Stream(spark, tmp_path_factory.mktemp("hostile"))
    if "storage_options" in stream.options:
        pytest.skip("the tests copy files")
    stream.batch(left=[("a", 1, 1), ("b", 2, 2)])
    state, source = stream.state(), stream.source("left")
    wide = source.selectExpr("x AS value", *(f"{sql} AS {name}" for name, (sql, _) in KEY.items()))
    of_time = {"by": "k", "on": "t", "state": state}
    counts = {"aggs": {"n": "count"}, "retention": "1 day"}
    frames = [
        hfs.materialize(wide, by=list(KEY), name="typed", state=state),
        hfs.materialize(source, history_retention="1 day", name="versions", **of_time),
        hfs.aggregate(source, window=hfs.window("2 seconds"), name="windows", **of_time, **counts),
        hfs.aggregate(
            source, window=hfs.session_window("2 seconds"), name="sessions", **of_time, **counts
        ),
    ]
    ones = (frame.select(F.lit(1)).repartition(1) for frame in frames)
    stream.run(reduce(lambda one, other: one.union(other), ones))
    kill_hosts()
    return stream.root


@pytest.fixture
def copy(typed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the root, in a folder where relative files do no harm."""
    monkeypatch.chdir(tmp_path)
    # If a gateway can start, it ends at once.
    monkeypatch.setattr(Gateway, "run", Gateway.close)
    yield copy_of(typed, tmp_path / "root")
    shutil.rmtree(tmp_path, ignore_errors=True)


def keys_with(name: str) -> list[str]:
    """Returns all key columns of `typed` with a value; the column `name` has VALUE."""
    return [f"{one}={'VALUE' if one == name else given}" for one, (_, given) in KEY.items()]


OPTIONS = {
    "tables ROOT": ["storage-option"],
    "get ROOT versions a": ["as-of", "columns", "epoch", "timeout", "offline", "isolation-level"],
    "get ROOT versions a --columns=x": ["arrow"],
    "get ROOT versions a --timeout=0.1": ["at-least"],
    "get ROOT windows a": ["start", "end"],
    "get ROOT windows a --start=2024-01-01T00:00:00Z": ["as-of", "columns", "end"],
    "get ROOT sessions a --start=2024-01-01T00:00:01Z": ["end"],
    "scan ROOT windows": ["time-from", "time-to", "limit", "columns"],
    "scan ROOT sessions": ["time-from", "time-to"],
    "scan ROOT versions": ["as-of", "time-from", "prefix", "start", "end"],
    "versions ROOT versions": ["start", "end", "limit", "columns"],
    "changes ROOT versions": ["from-epoch", "to-epoch"],
    "sql ROOT": ["as-of"],
    "export ROOT versions out.parquet": ["as-of", "columns", "limit"],
    "epochs ROOT": ["last"],
    "rewind ROOT": ["epoch"],
    "top ROOT": ["interval"],
    "doctor": ["memory", "local-dir"],
    "serve ROOT": ["listen"],
    "serve ROOT --listen=127.0.0.1:0": [
        *(
            "timeout",
            "max-requests",
            "token-file",
            "cert",
            "key",
            "cache-dir",
            "cache-bytes",
            "offline",
        )
    ],
}
# Command lines: VALUE stands for each of `VALUES`, ROOT for the root.
PLACES = [
    *(f"{command} --{option}=VALUE" for command, names in OPTIONS.items() for option in names),
    *(f"get ROOT typed -- {' '.join(keys_with(name))}" for name in KEY),
    *(
        f"scan ROOT typed {' '.join(f'--{bound}={one}' for one in keys_with(name))}"
        for bound in ("prefix", "start", "end")
        for name in ("text", "whole", "instant", "bytes")
    ),
    *(f"{command} -- VALUE" for command in ("tables", "verify", "epochs", "top", "doctor")),
    "get ROOT -- VALUE a",
    "get ROOT versions -- VALUE",
    "get ROOT versions -- VALUE VALUE",
    "get ROOT sessions -- VALUE",
    "versions ROOT versions -- VALUE",
    "versions ROOT -- VALUE",
    "changes ROOT -- VALUE",
    "sql ROOT -- VALUE",
    "export ROOT versions -- VALUE",
    "rewind --epoch=1 -- VALUE",
    "epoch drop ROOT -- VALUE",
    "serve --listen=127.0.0.1:0 -- VALUE",
    "serve --listen=127.0.0.1:0 -- VALUE=ROOT",
]


def ended(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int | str | None, str]:
    """Returns the status of a command, and its standard error."""
    capsys.readouterr()
    try:
        status: int | str | None = main(arguments)
    except SystemExit as error:
        status = error.code
    return status, capsys.readouterr().err


@pytest.mark.spark
@pytest.mark.parametrize("place", PLACES)
def test_no_value_ends_in_a_traceback(
    copy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, place: str
):
    # This check starts the Python of Spark's workers.
    monkeypatch.setattr("holdfast._cli.doctor.command.check_programs", list)
    for value in VALUES:
        words = place.replace("ROOT", str(copy)).split()
        status, error = ended([word.replace("VALUE", value) for word in words], capsys)
        shown = f"{value[:40]!r}: {status} {error[:400]}"
        assert status in (0, 1, 2), shown
        if status == 2:
            usage, _, error = error.partition("\nError: ")
            assert usage.startswith("Usage: "), shown
        if status == 1 and not place.startswith("doctor"):
            assert error.startswith("holdfast: "), shown
        # DuckDB shows the place of an error in a statement on separate lines.
        assert len(error.splitlines()) <= 1 or place.startswith("sql"), shown


def test_every_option_has_hostile_values():
    tried = {option for names in OPTIONS.values() for option in names}
    for name, command in holdfast.commands.items():
        for option in command.params:
            if isinstance(option, click.Option) and not option.is_flag:
                assert {text.lstrip("-") for text in option.opts} <= tried, (name, option)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.struct([("a", pa.int32())]), '{"a": 1180591620717411303424}'),
        (pa.struct([("a", pa.int32())]), '{"a": "x"}'),
        (pa.list_(pa.int64()), "[1180591620717411303424]"),
        (pa.list_(pa.int64()), "[" * 100_000),
        (pa.date32(), "0000-01-01"),
        (pa.timestamp("us", "UTC"), "0001-01-01T00:00:00+23:59"),
        (pa.string(), "\udcff"),
        (pa.float64(), "9007199254740993"),
        (pa.float64(), "9" * 5000),
    ],
)
def test_a_value_that_its_column_cannot_have_is_refused(kind: pa.DataType, text: str):
    with pytest.raises(ValueError, match=r"KEY: k(\.a)? is"):
        value_of_text(text, kind, "KEY: k")
