"""The choices that a database is opened with and queries are made with."""

from enum import Enum


class IsolationLevel(Enum):
    """What a query sees of the open transaction."""

    READ_UNCOMMITTED = "read_uncommitted"
    """All of it, as the writer does. A read waits for a write call of one record; of a longer one
    and of a commit it shows what was there before.
    """
    READ_COMMITTED = "read_committed"
    """Nothing of it: the last commit. A read waits for nobody."""


class ProcessingGuarantee(Enum):
    """What a record may do to the state after a failure; decides the default isolation level of
    queries.
    """

    AT_LEAST_ONCE = "at_least_once"
    """A record may be applied twice; queries read READ_UNCOMMITTED unless they say otherwise."""
    EXACTLY_ONCE = "exactly_once"
    """Every record is applied once; queries read READ_COMMITTED unless they say otherwise."""


class Durability(Enum):
    """What brings a commit back after a crash. Fixed when the database is made."""

    CHANGELOG = "changelog"
    """A changelog that the caller keeps: no write-ahead log, a crash falls back to some earlier
    commit as a whole.
    """
    SYNC = "sync"
    """The database itself: write-ahead log, fsync at every commit."""


class MetricsLevel(Enum):
    """How much `Database.metrics` measures."""

    INFO = "info"
    """Counts of everything, and times of what takes long: commits, batches, how long iterators are
    open.
    """
    DEBUG = "debug"
    """Also the time of each call for one record, and RocksDB's own counts."""


class TransactionMechanism(Enum):
    """Where uncommitted writes are kept."""

    AUTO = "auto"
    """In memory, and from `uncommitted_max_bytes` on in sorted files beside the stores, so a
    transaction may be larger than memory. `Database.commit_requested` tells when that point is
    near.
    """
    INDEXED_BATCH = "indexed_batch"
    """In memory, however much it is."""
    SECONDARY_STORE = "secondary_store"
    """In sorted files beside the stores, but for a buffer of 1 MiB. A commit of files is slower
    than one from memory: rows are merged into files that the database then takes in.
    """
