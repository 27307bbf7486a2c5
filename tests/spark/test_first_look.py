"""The commands and programs of docs/first-look.md, as written, on a state like the demo's."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import holdfast.spark as hfs
from holdfast.gateway import Gateway

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/first-look.md").read_text()
STATE, ADDRESS = "/tmp/demo/state", "http://127.0.0.1:8474"
# Commands that set up a terminal, or run until they are interrupted.
NOT_RUN = (". scripts/env.sh", "python -m holdfast serve")


@pytest.fixture(scope="module")
def state(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state with all rates of the demo."""
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        import ecb_input
    finally:
        sys.path.pop(0)
    folder = tmp_path_factory.mktemp("demo")
    for name in ("rates", "orders"):
        (folder / name).mkdir()
    rates = ecb_input.reference_rates()
    rates.write_parquet(folder / "rates/0.parquet")
    orders = ecb_input.seeded_orders(10, 1, rates)
    orders.write_parquet(folder / "orders/0.parquet")
    frames = {
        name: spark.readStream.schema(spark.read.parquet(str(folder / name)).schema).parquet(
            str(folder / name)
        )
        for name in ("orders", "rates")
    }
    root = hfs.State(str(folder / "state"), partitions=4)
    joined = hfs.join_asof(
        frames["orders"],
        frames["rates"],
        by="currency",
        left_on="ordered_at",
        right_on="valid_from",
        history_retention="14640 days",
        state=root,
        name="rates",
    )
    writer = joined.writeStream.format("noop").trigger(availableNow=True)
    writer.option("checkpointLocation", root.checkpoint_location).start().awaitTermination()
    return folder / "state"


def blocks(kind: str) -> Iterator[tuple[str, str]]:
    """The blocks of a kind, each with the block of text after it."""
    fences = re.findall(r"```(\w*)\n(.*?)```", PAGE, re.DOTALL)
    for (found, text), (after, output) in zip(fences, [*fences[1:], ("", "")], strict=True):
        if found == kind:
            yield text, output if after == "text" else ""


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


def test_the_commands_print_what_the_page_says(state: Path):
    commands = [one for text, _ in blocks("console") for one in text.split("$ ")[1:]]
    assert len(commands) >= 5
    with Gateway({"rates": state}, listen="127.0.0.1:0", offline="auto") as gateway:
        for command, _, expected in (one.partition("\n") for one in commands):
            if command.startswith(NOT_RUN):
                continue
            asked = command.replace(STATE, str(state)).replace(ADDRESS, gateway.url)
            asked = asked.replace("python -m", f"{sys.executable} -m")
            ran = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
            assert lines(ran.stdout) == lines(expected), command


def test_the_programs_print_what_the_page_says(spark: SparkSession, state: Path):
    names: dict[str, Any] = {"__name__": "__main__"}
    programs = list(blocks("python"))
    assert len(programs) == 3
    for program, expected in programs:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(program.replace(STATE, str(state)), names)
        assert lines(printed.getvalue()) == lines(expected), program
    names["reader"].close()
