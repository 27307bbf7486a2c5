"""Runs queries of Flink SQL in Flink's own environment.

Each line of the input is a JSON object of a job: its settings, its tables and its query. For each
job a line `SECONDS <time>` is printed: from the start of the job to its end, by the wall. (Flink's
own log has the same output.)
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found]


def seconds(job: dict[str, Any]) -> float:
    """Runs a job until it has read all files."""
    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, value in job["settings"].items():
        environment.get_config().set(name, value)
    for statement in job["tables"]:
        environment.execute_sql(statement)
    start = time.perf_counter()
    environment.execute_sql(job["query"]).wait()
    return time.perf_counter() - start


for line in sys.stdin:
    print("SECONDS", seconds(json.loads(line)), flush=True)
