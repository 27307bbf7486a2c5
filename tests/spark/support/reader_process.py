"""Many readers in one process, each of which checks every answer against `readable.py`.

    python tests/spark/support/reader_process.py ROOT READERS SEED

Prints a line of JSON a second, with the number of answers, those of old epochs, and errors by
class, until its input ends. Ends with an error at the first answer that is not the state of the
epoch that it names.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import readable

import holdfast as hf
from holdfast.errors import HoldfastError


class Reader:
    """One reader with a connection of its own."""

    def __init__(self, root: str, seed: int) -> None:
        self.root = Path(root)
        self.state = hf.connect(root)
        self.chance = random.Random(seed)
        self.seen = -1

    def read(self) -> str:
        """Reads once; returns what kind of read it was. Fails if the answer is wrong."""
        kind = self.chance.choice(["keys", "keys", "scan", "versions", "as_of", "old"])
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
            epoch = self.keys(keys, options)
        wanted = options.get("epoch")
        if wanted is not None and epoch != wanted:
            raise AssertionError(f"epoch {wanted} was asked for, and {epoch} answered")
        if wanted is None and epoch < self.seen:
            raise AssertionError(f"epoch {epoch} answers after {self.seen}")
        self.seen = max(self.seen, epoch)
        return kind

    def keys(self, keys: list[int], options: dict[str, Any]) -> int:
        """Reads several keys."""
        asked = [readable.KEYS[key] for key in keys]
        found = self.state["newest"].get_batch(asked, **options)
        epoch = epoch_of(found.schema)
        file = readable.last_file(self.root, epoch)
        equal(found["n"].to_pylist(), [readable.newest(key, file) for key in keys], epoch)
        return epoch

    def as_of(self, keys: list[int], options: dict[str, Any]) -> int:
        """Reads several keys as of an old time."""
        then = max(0, self.seen - self.chance.randint(0, 50))
        asked = [readable.KEYS[key] for key in keys]
        found = self.state["history"].get_batch(asked, as_of=readable.time_of(then), **options)
        epoch = epoch_of(found.schema)
        last = readable.last_file(self.root, epoch)
        rows = [readable.newest(key, min(then, last)) for key in keys]
        equal(found["n"].to_pylist(), rows, epoch)
        return epoch

    def scan(self, options: dict[str, Any]) -> int:
        """Reads the whole table."""
        scan = self.state["newest"].scan(columns=["k", "n"], **options)
        epoch = epoch_of(scan.schema)
        rows = sorted((row["k"], row["n"]) for row in scan.read_all().to_pylist())
        file = readable.last_file(self.root, epoch)
        all_keys = ((name, readable.newest(key, file)) for key, name in enumerate(readable.KEYS))
        equal(rows, [row for row in all_keys if row[1] is not None], epoch)
        return epoch

    def versions(self, key: int, options: dict[str, Any]) -> int:
        """Reads a key's whole history."""
        scan = self.state["history"].versions(readable.KEYS[key], **options)
        epoch = epoch_of(scan.schema)
        file = readable.last_file(self.root, epoch)
        equal(scan.read_all()["n"].to_pylist(), readable.versions(key, file), epoch)
        return epoch


def epoch_of(schema: Any) -> int:
    """The epoch that an answer names."""
    return int(schema.metadata[b"holdfast.epoch"])


def equal(found: list[Any], wanted: list[Any], epoch: int) -> None:
    """Fails if an answer is not the state of its epoch."""
    if found != wanted:
        raise AssertionError(f"epoch {epoch}: {found} in place of {wanted}")


def main() -> int:
    """Runs the readers until the input ends."""
    root, readers, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    counts: Counter[str] = Counter()
    ended, wrong = threading.Event(), threading.Event()

    def run(seed: int) -> None:
        try:
            reader = Reader(root, seed)
            while not ended.is_set():
                try:
                    counts[reader.read()] += 1
                except HoldfastError as error:
                    counts[type(error).__name__] += 1
                    print(f"{type(error).__name__}: {error}", file=sys.stderr)
                    ended.wait(0.1)
        except Exception:  # noqa: BLE001 - a thread's error is the result of the process
            traceback.print_exc()
            wrong.set()

    threads = [threading.Thread(target=run, args=(seed + n,)) for n in range(readers)]
    for thread in threads:
        thread.start()
    listener = threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True)
    listener.start()
    while not ended.wait(1) and not wrong.is_set():
        print(json.dumps(counts), flush=True)
    ended.set()
    for thread in threads:
        thread.join()
    print(json.dumps(counts), flush=True)
    return int(wrong.is_set())


if __name__ == "__main__":
    sys.exit(main())
