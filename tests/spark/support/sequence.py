"""Numbered rows in numbered micro-batches, with the expected results of a killed job."""

from __future__ import annotations

import bisect
import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from streams import LEFT, at

SCHEMA = LEFT.set(2, pa.field("x", pa.int64()))
DDL = "k string, t timestamp, x long"


class Sequence:
    """Rows (key, seconds, x): those with x >= 0 are numbered without a gap, the others are rates.

    A row gets the newest rate of its key that is not later than the row and that arrived in the
    row's micro-batch or before. Some rows and rates are late. Totals are the count of a key's rows
    and the sum of their rates.
    """

    def __init__(self, seed: int, *, rows: int = 200, keys: int = 20) -> None:
        self._random = random.Random(seed)
        self._rows, self._keys = rows, [f"key{number}" for number in range(keys)]
        self._numbers = {"row": 0, "rate": 0}
        self.batches: list[list[tuple[str, int, int]]] = []
        self.joined: list[dict[int, int | None]] = []
        """For each micro-batch, the rate of each row by the row's number."""
        self.totals: list[dict[str, tuple[int, int | None]]] = []
        """For each micro-batch, the count and sum of each key that has rows in it."""
        self._rates: dict[str, list[tuple[int, int]]] = {key: [] for key in self._keys}
        self._read = 0  # batches of another sequence
        self._stored: dict[str, tuple[int, int | None]] = {}

    def next(self) -> list[tuple[str, int, int]]:
        """Returns the rows of the next micro-batch."""
        now = 1_000 * len(self.batches)
        # No two rates of a key have the same time, so their order does not matter.
        rates = [
            (key, now - late * 1_000 + 10 * self._random.randrange(100), -1 - self._number("rate"))
            for late in (0, 0, 3)
            for key in self._random.sample(self._keys, len(self._keys) // 2)
        ]
        rates = [
            rate for rate in rates if all(rate[1] != since for since, _ in self._rates[rate[0]])
        ]
        rates = list({rate[:2]: rate for rate in rates}.values())
        rows = [
            (
                self._random.choice(self._keys),
                now - 1_000 * self._random.choice((0, 0, 0, 2, 5)) + self._random.randrange(1_000),
                self._number("row"),
            )
            for _ in range(self._rows)
        ]
        self._expect(rows, rates)
        self.batches.append(self._random.sample(rows + rates, len(rows) + len(rates)))
        return self.batches[-1]

    def write(self, folder: Path) -> None:
        """Adds the next micro-batch atomically to a folder that Spark reads."""
        folder.mkdir(exist_ok=True)
        number = len(self.batches)
        columns = list(zip(*((key, at(time), x) for key, time, x in self.next()), strict=True))
        table = pa.Table.from_arrays(
            [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)],
            schema=SCHEMA,
        )
        hidden = folder.parent / f".{number:06}.parquet"
        pq.write_table(table, hidden)
        # Spark's file source reads files in the order of their modification times.
        os.utime(hidden, (1_700_000_000 + number,) * 2)
        hidden.replace(folder / f"{number:06}.parquet")

    def differences(
        self, joined: dict[int, list[Any]], totals: dict[int, list[Any]], first: int = 0
    ) -> list[str]:
        """Describes what is lost, doubled or wrong in rows (x, v) and (k, count, sum).

        Micro-batches before `first` are not compared.
        """
        found = []
        for batch in range(first, len(self.batches)):
            rates, groups = self.joined[batch], self.totals[batch]
            got = sorted(joined.get(batch, []), key=str)
            wanted = sorted(rates.items(), key=str)
            if got != wanted:
                numbers = [x for x, _ in got]
                lost, doubled = len(rates.keys() - set(numbers)), len(numbers) - len(set(numbers))
                wrong = sum(rates.get(x, "none") != v for x, v in got)
                found.append(
                    f"micro-batch {batch}: {lost} rows lost, {doubled} doubled, {wrong} with a "
                    "wrong rate"
                )
            reported = {(key, *rest) for key, *rest in totals.get(batch, [])}
            if reported != {(key, *group) for key, group in groups.items()} or len(reported) != len(
                totals.get(batch, [])
            ):
                found.append(
                    f"micro-batch {batch}: totals {sorted(reported, key=str)[:3]}..., wanted "
                    f"{sorted(groups.items())[:3]}..."
                )
        return found

    def cut(self, files: list[int]) -> Sequence:
        """Returns the same rows in other micro-batches: batch n reads the next `files[n]` files."""
        other = Sequence(0, keys=len(self._keys))
        other.read(self, files)
        return other

    def read(self, other: Sequence, files: list[int]) -> None:
        """Adds micro-batches: each has the rows of the next `files[n]` ones of the other."""
        for count in files:
            written = other.batches[self._read : self._read + count]
            self._read += count
            batch = [row for rows in written for row in rows]
            self._expect(
                [row for row in batch if row[2] >= 0], [row for row in batch if row[2] < 0]
            )
            self.batches.append(batch)

    def _number(self, kind: str) -> int:
        self._numbers[kind] += 1
        return self._numbers[kind] - 1

    def _expect(self, rows: list[tuple[str, int, int]], rates: list[tuple[str, int, int]]) -> None:
        for key, since, number in rates:
            bisect.insort(self._rates[key], (since, number))
        joined: dict[int, int | None] = {}
        for key, time, x in rows:
            before = bisect.bisect_left(self._rates[key], (time + 1,))
            joined[x] = self._rates[key][before - 1][1] if before else None
            count, total = self._stored.get(key, (0, None))
            rate = joined[x]
            self._stored[key] = (count + 1, total if rate is None else (total or 0) + rate)
        self.joined.append(joined)
        self.totals.append({key: self._stored[key] for key, _, _ in rows})
