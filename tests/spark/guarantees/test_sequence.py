"""`Sequence`, which checks the results of killed jobs, reports each kind of mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from drivers import Checked, files_read
from sequence import Sequence


@pytest.fixture
def sequence() -> Sequence:
    sequence = Sequence(3, rows=50, keys=5)
    for _ in range(4):
        sequence.next()
    return sequence


def right(sequence: Sequence) -> tuple[dict[int, list[Any]], dict[int, list[Any]]]:
    joined = {batch: list(rates.items()) for batch, rates in enumerate(sequence.joined)}
    totals = {
        batch: [(key, *group) for key, group in groups.items()]
        for batch, groups in enumerate(sequence.totals)
    }
    return joined, totals


def test_correct_results_pass_in_any_order(sequence: Sequence):
    joined, totals = right(sequence)
    assert sequence.differences({n: rows[::-1] for n, rows in joined.items()}, totals) == []


def test_each_kind_of_mistake_is_reported(sequence: Sequence):
    for mistake, words in {
        "lost": "1 rows lost, 0 doubled",
        "doubled": "0 rows lost, 1 doubled",
        "wrong": "0 doubled, 1 with a wrong rate",
        "skipped": "50 rows lost",
        "total": "totals",
        "total doubled": "totals",
        "totals skipped": "totals",
    }.items():
        joined, totals = right(sequence)
        match mistake:
            case "lost":
                joined[2].pop()
            case "doubled":
                joined[2].append(joined[2][0])
            case "wrong":
                joined[2][0] = (joined[2][0][0], 7)
            case "skipped":
                del joined[2]
            case "total":
                key, count, total = totals[2][0]
                totals[2][0] = (key, count + 1, total)
            case "total doubled":
                totals[2].append(totals[2][0])
            case "totals skipped":
                del totals[2]
        (difference,) = sequence.differences(joined, totals)
        assert difference.startswith("micro-batch 2: "), mistake
        assert words in difference, mistake


def test_the_model_equals_a_search_through_every_rate(sequence: Sequence):
    rates: list[tuple[str, int, int]] = []
    counts: dict[str, list[int | None]] = {}
    for batch, rows in enumerate(sequence.batches):
        rates += [row for row in rows if row[2] < 0]
        for key, time, x in rows:
            if x >= 0:
                known = [
                    (since, number) for of, since, number in rates if of == key and since <= time
                ]
                assert sequence.joined[batch][x] == (max(known)[1] if known else None)
                counts.setdefault(key, []).append(sequence.joined[batch][x])
        for key, group in sequence.totals[batch].items():
            found = [rate for rate in counts[key] if rate is not None]
            assert group == (len(counts[key]), sum(found) if found else None)


def test_rows_are_numbered_without_a_gap(sequence: Sequence):
    numbers = [x for rates in sequence.joined for x in rates]
    assert sorted(numbers) == list(range(200))


def test_a_micro_batch_that_read_two_files_has_the_rows_of_both(sequence: Sequence, tmp_path: Path):
    same = sequence.cut([1, 1, 1, 1])
    assert (same.joined, same.totals) == (sequence.joined, sequence.totals)
    offsets = tmp_path / "state" / "query" / "offsets"
    offsets.mkdir(parents=True)
    for batch, end in enumerate((0, 2, 3)):
        (offsets / str(batch)).write_text(f'v1\n{{}}\n{{"logOffset":{end}}}')
    assert files_read(tmp_path) == [1, 2, 1]
    cut = sequence.cut(files_read(tmp_path))
    assert [set(rates) for rates in cut.joined] == [
        set(sequence.joined[0]),
        {*sequence.joined[1], *sequence.joined[2]},
        set(sequence.joined[3]),
    ]
    # In the micro-batch of two files, rows of the first file are also joined with rates of the
    # second one. The results of the next micro-batch do not change.
    assert cut.joined[1] != {**sequence.joined[1], **sequence.joined[2]}
    assert cut.joined[2] == sequence.joined[3]


def commit(folder: Path, batch: int, sequence: Sequence, model: Sequence) -> None:
    """Leaves the files of a job that has committed the next micro-batch of the model."""
    query = folder / "state" / "query"
    for log, text in {
        "offsets": f'v1\n{{}}\n{{"logOffset":{batch}}}',
        "commits": "v1\n{}",
    }.items():
        (query / log).mkdir(parents=True, exist_ok=True)
        (query / log / str(batch)).write_text(text)
    model.read(sequence, [1])
    totals = [(key, *group) for key, group in model.totals[batch].items()]
    for sink, rows in {"joined": model.joined[batch].items(), "totals": totals}.items():
        out = folder / sink / f"{batch}-a"
        out.mkdir(parents=True)
        columns = [pa.array(column, None) for column in zip(*rows, strict=True)]
        table = pa.table(columns, names=[str(number) for number in range(len(columns))])
        pq.write_table(table, out / "part.parquet")
        (out / "_SUCCESS").touch()


def test_committed_micro_batches_are_compared_once_and_again_after_a_rewind(
    sequence: Sequence, tmp_path: Path
):
    checked, model = Checked(sequence, tmp_path), sequence.cut([])
    for batch in range(3):
        commit(tmp_path, batch, sequence, model)
    assert checked.differences() == []
    commit(tmp_path, 3, sequence, model)
    (tmp_path / "joined" / "3-a" / "part.parquet").unlink()
    pq.write_table(pa.table({"x": [0], "v": [7]}), tmp_path / "joined" / "3-a" / "part.parquet")
    (difference,) = checked.differences()
    assert difference.startswith("micro-batch 3: ")
    assert checked.differences() == [], "nothing was committed since"
    checked.rewind(2)
    assert sorted(batch.name for batch in (tmp_path / "totals").iterdir()) == ["0-a", "1-a"]
    lost = checked.differences()
    assert [words.split(":")[0] for words in lost] == ["micro-batch 2"] * 2 + ["micro-batch 3"] * 2
