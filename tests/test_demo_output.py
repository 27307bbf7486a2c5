"""README shows what the demo prints; `spark/guarantees/test_kill.py` looks at the real demo."""

from __future__ import annotations

import doctest
import re
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import demo_output
import polars as pl
import pytest

ORDERS = 1_000_000


def test_readme_has_the_figures_of_the_demos_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """The demo with a driver that computes no join: polars does."""
    sys.path.insert(0, str(demo_output.ROOT / "examples"))
    try:
        import ecb_orders
    finally:
        sys.path.pop(0)
    readme = demo_output.of_readme()
    monkeypatch.setattr(ecb_orders, "Driver", driver(range(ecb_orders.MICRO_BATCHES)))
    monkeypatch.setattr(ecb_orders, "committed_output", joined)
    monkeypatch.setattr(ecb_orders, "last_rates", lambda _: readme[4].partition("\n")[2])
    real = pl.DataFrame.sample
    ids = [int(number) for number in re.findall(r"^│ (\d+) ", readme[3], re.MULTILINE)]

    def sample(frame: pl.DataFrame, n: int | None = None, **options: Any) -> pl.DataFrame:
        # Which orders the demo shows depends on the order of Spark's rows.
        return real(frame, **options) if n is None else frame.filter(pl.col("order_id").is_in(ids))

    monkeypatch.setattr(pl.DataFrame, "sample", sample)
    folder = tmp_path / "demo"
    options = Namespace(rows=ORDERS, seed=1, kill=False, kill_at=None, dir=folder)
    assert ecb_orders.demo(ecb_orders.Folders(folder), options) == 0
    printed = demo_output.of_demo(capsys.readouterr().out, folder)
    assert len(ids) == 6
    assert len(printed) == len(readme)
    for found, shown in zip(printed, readme, strict=True):
        wanted = re.sub(r"^  …$", "  ...", shown, flags=re.MULTILINE)
        is_same = doctest.OutputChecker().check_output(wanted, found, doctest.ELLIPSIS)
        assert is_same, f"{shown}\n\nThe demo prints:\n{found}"


def driver(batches: range) -> type:
    """A class that reports the micro-batches, as the job in a child process does."""
    left = iter(batches)

    class Driver:
        def __init__(self, folders: Any, *, stop_after: int = batches[-1]) -> None:
            self.folders, self.stop_after = folders, stop_after
            self.started = time.monotonic()

        def reports(self) -> Iterator[dict[str, Any]]:
            for batch in left:
                counts = {
                    name: pl.read_parquet(folder / f"{batch:04}.parquet").height
                    for name, folder in (
                        ("orders", self.folders.orders),
                        ("rates", self.folders.rates),
                    )
                }
                yield {"batch": batch, "millis": {"triggerExecution": 1_000}, **counts}
                if batch == self.stop_after:
                    return

    return Driver


def joined(folder: Path) -> pl.DataFrame:
    """The rows that Spark writes to this folder."""
    orders, rates = (
        pl.read_parquet(folder.parent / name / "*.parquet") for name in ("orders", "rates")
    )
    found = orders.sort("ordered_at").join_asof(
        rates.sort("valid_from"),
        left_on="ordered_at",
        right_on="valid_from",
        by="currency",
        coalesce=False,
        check_sortedness=False,
    )
    return found.with_columns(pl.col("ordered_at", "valid_from").dt.replace_time_zone(None))
