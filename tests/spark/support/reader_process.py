"""Many readers in one process, each of which checks every answer against `readable.py`.

    python tests/spark/support/reader_process.py ROOT READERS SEED [GATEWAY]

They ask the gateway at the address GATEWAY, or read the root. The process prints a line of JSON a
second, with the number of answers by kind of read and of errors by class, until its input ends. It
ends with an error at the first answer that is not the state of the named epoch.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import sys
import threading
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlencode

import readable

import holdfast as hf
from holdfast.errors import HoldfastError

Rows = list[dict[str, Any] | None]


class NoAnswerError(Exception):
    """The gateway did not answer, or answered with an error; the text is the error's class."""


class Source(Protocol):
    """Reads of the tables; each returns the epoch that the answer names, and the rows."""

    def get_batch(self, table: str, keys: list[str], options: dict[str, Any]) -> tuple[int, Rows]:
        """Reads keys."""
        ...

    def scan(self, table: str, options: dict[str, Any]) -> tuple[int, Rows]:
        """Reads the whole table."""
        ...

    def versions(self, table: str, key: str, options: dict[str, Any]) -> tuple[int, Rows]:
        """Reads a key's whole history."""
        ...


class Connected:
    """A connection to the root."""

    def __init__(self, root: Path) -> None:
        self.state = hf.connect(root)

    def get_batch(self, table: str, keys: list[str], options: dict[str, Any]) -> tuple[int, Rows]:
        found = self.state[table].get_batch(keys, **options)
        values = found.column("n").to_pylist()
        return epoch_of(found.schema), [None if n is None else {"n": n} for n in values]

    def scan(self, table: str, options: dict[str, Any]) -> tuple[int, Rows]:
        scan = self.state[table].scan(columns=["k", "n"], **options)
        return epoch_of(scan.schema), list(scan.read_all().to_pylist())

    def versions(self, table: str, key: str, options: dict[str, Any]) -> tuple[int, Rows]:
        scan = self.state[table].versions(key, **options)
        return epoch_of(scan.schema), list(scan.read_all().to_pylist())


class Gateway:
    """A gateway that serves the root."""

    def __init__(self, address: str) -> None:
        self.address = address

    def get_batch(self, table: str, keys: list[str], options: dict[str, Any]) -> tuple[int, Rows]:
        return self.ask(f"{table}/rows", options, json.dumps(keys).encode())

    def scan(self, table: str, options: dict[str, Any]) -> tuple[int, Rows]:
        return self.ask(f"{table}/scan", options)

    def versions(self, table: str, key: str, options: dict[str, Any]) -> tuple[int, Rows]:
        return self.ask(f"{table}/versions/{quote(key)}", options)

    def ask(
        self, path: str, options: dict[str, Any], body: bytes | None = None
    ) -> tuple[int, Rows]:
        """Sends a request."""
        if "as_of" in options:
            options = {**options, "as_of": options["as_of"].isoformat()}
        connection = http.client.HTTPConnection(self.address, timeout=60)
        try:
            path = f"/v1/tables/{path}?{urlencode(options)}"
            connection.request("GET" if body is None else "POST", path, body)
            answer = connection.getresponse()
            rows = json.loads(answer.read())
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswerError(type(error).__name__) from error
        finally:
            connection.close()
        if answer.status != http.HTTPStatus.OK:
            raise NoAnswerError(rows["class"])
        return int(answer.headers["Holdfast-Epoch"]), rows


class Reader:
    """One reader with a connection of its own."""

    def __init__(self, root: str, seed: int, gateway: str | None) -> None:
        self.root = Path(root)
        self.source: Source = Connected(self.root) if gateway is None else Gateway(gateway)
        self.name = "" if gateway is None else "gateway: "
        self.chance = random.Random(seed)
        self.seen = -1

    def read(self) -> str:
        """Reads once; returns what kind of read it was. Fails if the answer is wrong."""
        kind = self.chance.choice(["keys", "key", "scan", "versions", "as_of", "old"])
        options: dict[str, Any] = {}
        if kind == "old" and self.seen > 0:
            options["epoch"] = self.chance.randint(max(0, self.seen - 10), self.seen)
        elif self.seen >= 0:
            options["at_least"] = self.seen
        keys = self.chance.sample(range(len(readable.KEYS)), 8)
        if kind == "scan":
            epoch = self.scan(options)
        elif kind == "versions":
            epoch = self.versions(keys[0], options)
        elif kind == "as_of":
            epoch = self.as_of(keys, options)
        else:
            epoch = self.keys(keys[:1] if kind == "key" else keys, options)
        wanted = options.get("epoch")
        if wanted is not None and epoch != wanted:
            raise AssertionError(f"epoch {wanted} was asked for, and {epoch} answered")
        if wanted is None and epoch < self.seen:
            raise AssertionError(f"epoch {epoch} answers after {self.seen}")
        self.seen = max(self.seen, epoch)
        return self.name + kind

    def keys(self, keys: list[int], options: dict[str, Any]) -> int:
        """Reads one key or several."""
        asked = [readable.KEYS[key] for key in keys]
        epoch, rows = self.source.get_batch("newest", asked, options)
        file = self.last_file(epoch)
        equal(numbers(rows), [readable.newest(key, file) for key in keys], epoch)
        return epoch

    def as_of(self, keys: list[int], options: dict[str, Any]) -> int:
        """Reads several keys as of an old time."""
        then = max(0, self.seen - self.chance.randint(0, 50))
        options = {**options, "as_of": readable.time_of(then)}
        asked = [readable.KEYS[key] for key in keys]
        epoch, rows = self.source.get_batch("history", asked, options)
        last = self.last_file(epoch)
        equal(numbers(rows), [readable.newest(key, min(then, last)) for key in keys], epoch)
        return epoch

    def scan(self, options: dict[str, Any]) -> int:
        """Reads the whole table."""
        epoch, rows = self.source.scan("newest", options)
        found = sorted((row["k"], row["n"]) for row in rows if row is not None)
        file = self.last_file(epoch)
        all_keys = ((name, readable.newest(key, file)) for key, name in enumerate(readable.KEYS))
        equal(found, [row for row in all_keys if row[1] is not None], epoch)
        return epoch

    def versions(self, key: int, options: dict[str, Any]) -> int:
        """Reads a key's whole history."""
        epoch, rows = self.source.versions("history", readable.KEYS[key], options)
        equal(numbers(rows), readable.versions(key, self.last_file(epoch)), epoch)
        return epoch

    def last_file(self, epoch: int) -> int:
        """The last file of an epoch that an answer names. Fails if it is not committed."""
        if not (self.root / "query" / "commits" / str(epoch)).exists():
            raise AssertionError(f"epoch {epoch} is answered, and is not committed")
        return readable.last_file(self.root, epoch)


def epoch_of(schema: Any) -> int:
    """The epoch that an answer names."""
    return int(schema.metadata[b"holdfast.epoch"])


def numbers(rows: Rows) -> list[int | None]:
    """The numbers of rows."""
    return [None if row is None else row["n"] for row in rows]


def equal(found: list[Any], wanted: list[Any], epoch: int) -> None:
    """Fails if an answer is not the state of its epoch."""
    if found != wanted:
        raise AssertionError(f"epoch {epoch}: {found} in place of {wanted}")


def main() -> None:
    """Runs the readers until the input ends."""
    root, readers, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    gateway = sys.argv[4] if len(sys.argv) > 4 else None
    counts: Counter[str] = Counter()
    reported = time.monotonic()
    ended, wrong = threading.Event(), threading.Event()

    def run(seed: int) -> None:
        try:
            reader = Reader(root, seed, gateway)
            while not ended.is_set():
                try:
                    counts[reader.read()] += 1
                except HoldfastError as error:
                    counts[type(error).__name__] += 1
                    print(f"{type(error).__name__}: {error}", file=sys.stderr)
                    ended.wait(0.1)
                except NoAnswerError as error:
                    counts[f"gateway: {error}"] += 1
                    ended.wait(0.1)
        except Exception:  # noqa: BLE001 - a thread's error is the result of the process
            traceback.print_exc()
            wrong.set()

    threads = [threading.Thread(target=run, args=(seed + n,)) for n in range(readers)]
    for thread in threads:
        thread.start()
    listener = threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True)
    listener.start()
    while not ended.wait(0.1) and not wrong.is_set():
        if time.monotonic() >= reported + 1:
            reported = time.monotonic()
            print(json.dumps(counts), flush=True)
    if not wrong.is_set():
        for thread in threads:
            thread.join()
    print(json.dumps(counts), flush=True)
    # After a wrong answer the process does not wait for reads in progress.
    os._exit(int(wrong.is_set()))


if __name__ == "__main__":
    main()
