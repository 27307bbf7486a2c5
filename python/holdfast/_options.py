"""The options of a database and of its queries, and their checks."""

import re
from collections.abc import Mapping
from enum import Enum
from typing import Final

_UNITS: Final = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE: Final = re.compile(r"(\d+)\s*(?:([kmgt])(?:i?b)?|b)", re.IGNORECASE)


class IsolationLevel(Enum):
    """What a query sees of the open transaction."""

    READ_UNCOMMITTED = "read_uncommitted"
    """A query sees all of it, as the writer does.

    A read waits for a running write of one record. It does not wait for a longer write or a commit:
    it returns the state before that call. Exception: it waits for such a call if the call began
    before the database had its first view at this level.
    """
    READ_COMMITTED = "read_committed"
    """A query sees none of it: it reads the last commit, and never waits."""


class ProcessingGuarantee(Enum):
    """How often a record may be applied to the state when the process fails.

    It decides the default isolation level of queries.
    """

    AT_LEAST_ONCE = "at_least_once"
    """A record may be applied twice; queries read READ_UNCOMMITTED by default."""
    EXACTLY_ONCE = "exactly_once"
    """Every record is applied once; queries read READ_COMMITTED by default."""


class Durability(Enum):
    """What restores a commit after a crash. Fixed when the database is created."""

    CHANGELOG = "changelog"
    """A changelog that the caller keeps.

    There is no write-ahead log: a crash may take the whole database back to an earlier commit.
    """
    SYNC = "sync"
    """The database itself: a write-ahead log, with an fsync at every commit."""


class MetricsLevel(Enum):
    """How much `Database.metrics` measures."""

    INFO = "info"
    """Counts of everything, and times of long operations: commits, batches, open iterators."""
    DEBUG = "debug"
    """Also the times of calls that INFO only counts, and RocksDB's own statistics.

    Such calls are those for one record, and those that open a scan or delete a range.
    """


class TransactionMechanism(Enum):
    """Where uncommitted writes are held."""

    AUTO = "auto"
    """In memory up to `uncommitted_max_bytes`, then in sorted files beside the stores.

    A transaction may be larger than memory. `Database.commit_requested` is true when the limit is
    near. Writes of stores in memory stay in memory.
    """
    INDEXED_BATCH = "indexed_batch"
    """In memory, without a limit."""
    SECONDARY_STORE = "secondary_store"
    """In sorted files beside the stores, except for a buffer of at most 1 MiB.

    Committing files is slower than committing memory: their rows are merged into new files, which
    the database then ingests.
    """


def size_bytes(text: str) -> int | None:
    """Returns the bytes of a size with its unit, such as "512m" or "2 GiB"; None for other text."""
    size = _SIZE.fullmatch(text.strip())
    return None if size is None else int(size[1]) * _UNITS[(size[2] or "b").lower()]


def memory_bytes(memory: str) -> int:
    """Returns the bytes of `State(memory=)`: a size such as "512m" or "2 GiB", with its unit.

    Raises `ValueError` for another text and for a size of 0.
    """
    size = size_bytes(memory) if isinstance(memory, str) else None
    if not size:
        raise ValueError(f'memory={memory!r}: give a size such as "512m" or "2g", with its unit')
    return size


def check_choice(argument: str, given: object, choices: type[Enum]) -> None:
    """Raises `TypeError` for a value that is not a member of the enum."""
    if not isinstance(given, choices):
        wanted = ", ".join(f"{choices.__name__}.{name}" for name in choices.__members__)
        raise TypeError(f"{argument} is {given!r:.80}; wanted: one of {wanted}")


def rocksdb_option_rows(options: Mapping[str, str] | None) -> list[tuple[str, str]]:
    """Returns `rocksdb_options` as (name, value) rows; `TypeError` unless all are strings."""
    if options is None:
        return []
    if not isinstance(options, Mapping) or not all(
        isinstance(text, str) for option in options.items() for text in option
    ):
        raise TypeError(
            f"rocksdb_options is {options!r:.80}; wanted: a mapping of names to values, both str"
        )
    return list(options.items())
