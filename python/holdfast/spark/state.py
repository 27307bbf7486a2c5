"""The state of a query: where it is stored, and the settings of its state hosts."""

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from holdfast import _core
from holdfast._options import IsolationLevel, check_choice, memory_bytes, rocksdb_option_rows
from holdfast._progress import EpochProgress, read_progress
from holdfast._requirements import check_java
from holdfast._time import Duration, duration_micros
from holdfast.errors import UnsupportedOperationError
from holdfast.spark.epoch import Epoch
from holdfast.spark.operator_names import OperatorNames, check_name
from holdfast.spark.root import check_options, checked_root, local_folder, remote_checkpoint
from holdfast.spark.spark_session import needs_java

_MAX_PARTITIONS: Final = 1 << 16
_SECRET_OF_PROCESS: Final = secrets.token_hex(32)
"""The secret of all states that this process makes.

It belongs to no run: a plan has it before its query is started, and may be started again.
"""


class State:
    """The state of one query: a root with Spark's checkpoint and the operators' stores.

    `root` is a local path, created if absent, or an address in an object store: `s3://bucket/
    prefix`, `gs://` or `az://`. One root belongs to one query. `storage_options` configure the
    client of an object store (`region`, `endpoint`, `access_key_id`, ...: the names of the
    object_store library). Options that are not given come from the environment of driver and
    executors. They are held in memory only, and do not configure Spark's own client of the store.

    `partitions`, up to 65,536, is fixed by the first run. `local_dir` is a folder of the executors
    for their databases (default: under `root`, or in the temporary folder if `root` is no local
    path).

    `memory` ("512m") is the memory of one state host. The process itself takes 64 MiB of it, at
    most half. The rest has four equal parts: for the block cache, for the write buffers, for the
    sorting of rows, and for readers and open epochs. Open epochs use at most three quarters of the
    last part, and no more than `uncommitted_max_bytes`. The host's partitions share this memory
    fairly; data beyond it spills to disk.

    A host flushes a partition's database to files before an epoch if the last flush is
    `flush_interval` ago or more than `flush_bytes` bytes are not in files. After a kill, the next
    host replays from the log what was not flushed. `rocksdb_options` are RocksDB's own names and
    values for these databases. They take effect when a database is opened. The options that
    `hf.open` refuses are refused here, too.

    Every `snapshot_interval`, or earlier if much has changed, the new files of a partition's
    database are copied into the root. A new machine restores the newest snapshot and replays the
    changelog after it. `retain_epochs` is the least number of epochs in the changelog; older ones
    are deleted after every partition has two later snapshots. For a named follower (option
    `follower` of the stream of changes), the changelog also retains the epochs from the one that
    the follower needs next, but none more than `max_follower_lag` epochs behind the newest one.

    `processing_guarantee="at_least_once"` is for jobs whose micro-batches cannot be repeated: a
    second computation of a micro-batch may give other results than the first, and the state keeps
    the first results (`docs/spark/exactly-once.md`). The guarantee may change between two starts of
    the query.

    `default_isolation_level` is the level of readers (`holdfast.connect`) that do not give one. By
    default it is `READ_COMMITTED`: they read final epochs only. It may change between two starts.

    Raises `ValueError` or `TypeError` naming the argument, `RequirementError` if no session is
    started and there is no Java 17 or newer to start one, `HoldfastError` if the root cannot be
    written, and `UnsupportedOperationError` for addresses of other kinds and for an object store
    without conditional puts.
    """

    def __init__(
        self,
        root: str,
        *,
        partitions: int = 16,
        local_dir: str | None = None,
        memory: str = "512m",
        uncommitted_max_bytes: int = 64 << 20,
        processing_guarantee: Literal["exactly_once", "at_least_once"] = "exactly_once",
        default_isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED,
        retain_epochs: int = 100,
        max_follower_lag: int = 10_000,
        snapshot_interval: Duration = "5 minutes",
        flush_interval: Duration = "30 seconds",
        flush_bytes: int = 32 << 20,
        rocksdb_options: Mapping[str, str] | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        check_java(is_needed=needs_java())
        _check_partitions(partitions)
        if processing_guarantee not in ("exactly_once", "at_least_once"):
            raise ValueError(
                f"processing_guarantee={processing_guarantee!r}: there are 'exactly_once' and "
                "'at_least_once'"
            )
        check_choice("default_isolation_level", default_isolation_level, IsolationLevel)
        if _is_no_int(uncommitted_max_bytes) or uncommitted_max_bytes <= 0:
            raise ValueError(
                f"uncommitted_max_bytes={uncommitted_max_bytes!r}: give a number of bytes above "
                "zero"
            )
        if _is_no_int(retain_epochs) or retain_epochs < 1:
            raise ValueError(f"retain_epochs={retain_epochs!r}: give a whole number of 1 or more")
        if _is_no_int(max_follower_lag) or not 0 <= max_follower_lag < 1 << 63:
            raise ValueError(
                f"max_follower_lag={max_follower_lag!r}: give a whole number of 0 or more"
            )
        if _is_no_int(flush_bytes) or not 0 < flush_bytes < 1 << 63:
            raise ValueError(f"flush_bytes={flush_bytes!r}: give a number of bytes above zero")
        options = rocksdb_option_rows(rocksdb_options)
        _core.check_rocksdb_options(options)
        self.partitions: Final = partitions
        self.settings: Final[dict[str, Any]] = {
            "memory": memory_bytes(memory),
            # The host gives a transaction at least 1 MiB of memory, unless this is less.
            "uncommitted_max_bytes": min(uncommitted_max_bytes, memory_bytes(memory) // 4),
            "retain_epochs": retain_epochs,
            "max_follower_lag": max_follower_lag,
            "snapshot_interval": duration_micros(snapshot_interval, "snapshot_interval"),
            "processing_guarantee": processing_guarantee,
            "flush_interval": duration_micros(flush_interval, "flush_interval"),
            "flush_bytes": flush_bytes,
            "rocksdb_options": options,
            "default_isolation_level": default_isolation_level.value,
        }
        self.storage_options: Final = check_options(storage_options)
        self._checkpoint: Final = remote_checkpoint(root, self.storage_options)
        self.root: Final[str | None] = checked_root(root, self.storage_options)
        self.local_dir: Final[Path | None] = (
            None if local_dir is None else local_folder(local_dir, "local_dir")
        )
        self.writer_secret: Final[str | None] = _SECRET_OF_PROCESS
        """The secret by which state hosts recognise this driver's tasks, pickled with the state."""
        self._operators = OperatorNames()

    @staticmethod
    def scratch(*, partitions: int = 16) -> "State":
        """Returns a state that is not stored and is empty at each evaluation, for static frames.

        Raises `ValueError` if `partitions` is no whole number from 1 to 65,536.
        """
        _check_partitions(partitions)
        state = State.__new__(State)
        state.__dict__.update(
            partitions=partitions,
            settings={"memory": 512 << 20, "uncommitted_max_bytes": 64 << 20},
            storage_options={},
            root=None,
            local_dir=None,
            writer_secret=None,
            _operators=OperatorNames(),
        )
        return state

    @property
    def is_scratch(self) -> bool:
        """Whether this is `State.scratch()`."""
        return self.root is None

    @property
    def checkpoint_location(self) -> str:
        """`<root>/query`: give it to `.option("checkpointLocation", ...)`.

        Checkpoint and state then stay together. In an object store its scheme is the one that
        Spark's client expects: `s3a://`, `gs://`, `abfss://`.

        Raises `UnsupportedOperationError` for `State.scratch()`, which has none.
        """
        if self.root is None:
            raise UnsupportedOperationError(
                "State.scratch() keeps nothing and has no checkpoint: give State(root)"
            )
        return self._checkpoint or str(Path(self.root) / "query")

    def progress(self, epoch: int | None = None) -> EpochProgress | None:
        """Returns what happened in an epoch: rows by operator, late and dropped ones included.

        Without `epoch`, it is the newest epoch. Returns None if the root has nothing of the epoch:
        no task has staged anything, or the epoch's log was removed. The call reads only the root,
        so it works anywhere and while the query runs.

        Raises `UnsupportedOperationError` for `State.scratch()`, otherwise as `holdfast epochs`:
        `StateMismatchError` if the root does not exist, `RestoreError` for an object that cannot be
        read, `HoldfastError` for an error of the object store.
        """
        if self.root is None:
            raise UnsupportedOperationError("State.scratch() keeps nothing: give State(root)")
        found = read_progress(self.root, self.storage_options, epoch=epoch)
        return found[-1] if found else None

    def claim(self, operators: Sequence[str], epoch: Epoch | None) -> None:
        """Takes operators' names, all or none.

        A name can be taken once, or, inside `foreachBatch`, once per epoch. Raises `ValueError` for
        a name that is taken already or is not 1 to 100 ASCII letters, digits, `_` or `-`.
        """
        for operator in operators:
            check_name(operator)
        if not self.is_scratch:
            self._operators.claim(operators, epoch, self.root)

    def __repr__(self) -> str:
        if self.root is None:
            return f"State.scratch(partitions={self.partitions})"
        operators = self._operators.in_use()
        named = f", operators={operators}" if operators else ""
        guarantee = self.settings["processing_guarantee"]
        chosen = "" if guarantee == "exactly_once" else f", processing_guarantee={guarantee!r}"
        return f"State({self.root!r}, partitions={self.partitions}{chosen}{named})"


def _is_no_int(value: object) -> bool:
    return isinstance(value, bool) or not isinstance(value, int)


def _check_partitions(partitions: int) -> None:
    if _is_no_int(partitions) or not 1 <= partitions <= _MAX_PARTITIONS:
        raise ValueError(
            f"partitions={partitions!r}: give a whole number from 1 to {_MAX_PARTITIONS:,}"
        )
