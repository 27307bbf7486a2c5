"""The cases of `versioned.jsonl`.

Each runs by scalar calls in one transaction, with a commit after every operation and with a reopen
after every operation. A case that only puts and gets also runs as one mixed Arrow batch.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

CASES = [
    json.loads(line)
    for line in (Path(__file__).parent / "versioned.jsonl").read_text().splitlines()
]
LATEST = 2**63 - 1


def encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def record(found) -> dict | None:
    if found is None:
        return None
    return {"value": found.value.decode(), "timestamp": found.timestamp, "valid_to": found.valid_to}


def run(rates, operation: dict):
    """Returns the operation's result in the notation of the file."""
    key = encoded(operation["key"])
    match operation["op"]:
        case "put":
            result = rates.put(key, encoded(operation["value"]), operation["timestamp"])
            return result.valid_to if result.accepted else "EXPIRED"
        case "get":
            return record(rates.get(key, as_of=operation.get("as_of")))
        case "delete":
            return record(rates.delete(key, operation["timestamp"]))
        case "versions":
            start, end = operation["from"], operation["to"]
            found = list(rates.versions(key, start, end, descending=operation["descending"]))
            assert {found_key for found_key, _ in found} <= {key}
            return [record(version) for _, version in found]
    raise AssertionError(operation)


def expected(operation: dict):
    return operation["valid_to"] if operation["op"] == "put" else operation["result"]


@pytest.mark.parametrize("mode", ["one transaction", "commit after each", "reopen after each"])
@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_a_case_gives_its_results(open_bench, case, mode):
    bench = open_bench(
        history_retention=case["history_retention"], segment_interval=case["segment_interval"]
    )
    for number, operation in enumerate(case["operations"]):
        assert run(bench.rates, operation) == expected(operation), (
            case["point"],
            number,
            operation,
        )
        if mode == "commit after each":
            bench.db.commit()
        elif mode == "reopen after each":
            bench.reopen()


ONLY_PUTS_AND_GETS = [
    case for case in CASES if {op["op"] for op in case["operations"]} <= {"put", "get"}
]


@pytest.mark.parametrize("committed_up_to", [0, 1, 2, 4])
@pytest.mark.parametrize(
    "case", ONLY_PUTS_AND_GETS, ids=[case["id"] for case in ONLY_PUTS_AND_GETS]
)
def test_a_case_as_one_mixed_batch_gives_its_results(open_bench, case, committed_up_to):
    bench = open_bench(
        history_retention=case["history_retention"], segment_interval=case["segment_interval"]
    )
    for operation in case["operations"][:committed_up_to]:
        run(bench.rates, operation)
    bench.db.commit()
    operations = case["operations"][committed_up_to:]
    batch = bench.rates.apply_batch(
        pa.array([op["op"] == "put" for op in operations], pa.bool_()),
        pa.array([encoded(op["key"]) for op in operations], pa.binary()),
        pa.array([encoded(op.get("value")) for op in operations], pa.binary()),
        pa.array([op.get("timestamp", op.get("as_of", LATEST)) for op in operations], pa.int64()),
    )
    rows = pa.record_batch(batch).to_pylist()
    assert len(rows) == len(operations)
    for row, operation in zip(rows, operations, strict=True):
        if operation["op"] == "put":
            found = row["valid_to"] if row["accepted"] else "EXPIRED"
            assert (row["value"], row["timestamp"]) == (None, None)
        else:
            assert row["accepted"] is None
            found = None
            if row["value"] is not None:
                found = {
                    "value": row["value"].decode(),
                    "timestamp": row["timestamp"],
                    "valid_to": row["valid_to"],
                }
            else:
                assert (row["timestamp"], row["valid_to"]) == (None, None)
        assert found == expected(operation), (case["point"], operation)
