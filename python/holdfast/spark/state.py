"""Where a query's state lives, and what may be said about it."""

import os
import re
import threading
import uuid
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import unquote, urlsplit

from holdfast._options import IsolationLevel
from holdfast.errors import HoldfastError, UnsupportedOperationError
from holdfast.spark.span import Span, micros

if TYPE_CHECKING:
    from holdfast.spark.epoch import Epoch

_MAX_PARTITIONS: Final = 1 << 16
_SIZES: Final = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE: Final = re.compile(r"(\d+)\s*(?:([kmgt])(?:i?b)?|b)", re.IGNORECASE)
_SPARK_SCHEMES: Final = {"s3": "s3a", "s3a": "s3a", "gs": "gs", "az": "abfss"}
_AZURE_ACCOUNT: Final = ("account_name", "azure_storage_account_name")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")


class State:
    """The state of one query: a folder that holds Spark's checkpoint and the operators' stores.

    `root` is a local path, made if it is absent, or an address in an object store:
    `s3://bucket/prefix`, `gs://` or `az://`; one root belongs to one query. `storage_options` say
    how an object store is reached (`region`, `endpoint`, `access_key_id`, ...: the names of the
    object_store library); what they leave out comes from the environment of driver and executors.
    They are kept in memory only, and are no options of Spark's own client of the store.
    `partitions`, up to 65,536, is fixed with the first run. `local_dir` is where executors keep
    their databases, a folder of theirs (default: under `root`, or in the temporary folder if that
    is no local path). `memory` ("512m") is one state host's: a quarter each for its block cache,
    its write buffers and rows that are put in order; its open epochs may hold
    `uncommitted_max_bytes` bytes, but no more than the last one. Its partitions share them fairly;
    what is beyond goes to disk. Every `snapshot_interval` a partition's database is copied into the
    root, new files only; a new machine begins with the newest copy and replays the changelog behind
    it. `retain_epochs` is how many epochs of the changelog are kept at least; older ones go once
    every partition has two snapshots behind them. `processing_guarantee="at_least_once"` takes jobs
    whose micro-batches cannot be repeated: one that is computed again may come to other results, of
    which the state keeps the first (`docs/spark/exactly-once.md`). It may change between two starts
    of the query.

    Raises `ValueError` or `TypeError` naming the argument, `HoldfastError` where the root cannot be
    written, and `UnsupportedOperationError` for addresses of other kinds, and for a store that lets
    an object be created twice.
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
        default_isolation_level: IsolationLevel | None = None,
        retain_epochs: int = 100,
        snapshot_interval: Span = "5 minutes",
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        _check_partitions(partitions)
        if processing_guarantee not in ("exactly_once", "at_least_once"):
            raise ValueError(
                f"processing_guarantee={processing_guarantee!r}: there are 'exactly_once' and "
                "'at_least_once'"
            )
        if not isinstance(default_isolation_level, IsolationLevel | None):
            levels = ", ".join(f"hf.{level}" for level in IsolationLevel)
            raise TypeError(
                f"default_isolation_level={default_isolation_level!r}: give one of {levels}"
            )
        if _not_whole(uncommitted_max_bytes) or uncommitted_max_bytes <= 0:
            raise ValueError(
                f"uncommitted_max_bytes={uncommitted_max_bytes!r}: give a number of bytes above "
                "zero"
            )
        if _not_whole(retain_epochs) or retain_epochs < 1:
            raise ValueError(f"retain_epochs={retain_epochs!r}: give a whole number of 1 or more")
        self.partitions: Final = partitions
        self.default_isolation_level: Final = default_isolation_level
        self.settings: Final[dict[str, Any]] = {
            "memory": _bytes(memory),
            "uncommitted_max_bytes": min(uncommitted_max_bytes, _bytes(memory) // 4),
            "retain_epochs": retain_epochs,
            "snapshot_interval": micros(snapshot_interval, "snapshot_interval"),
            "processing_guarantee": processing_guarantee,
        }
        self.storage_options: Final = _options(storage_options)
        self._checkpoint: Final = _checkpoint(root, self.storage_options)
        self.root: Final[str | None] = _opened(root, self.storage_options)
        self.local_dir: Final[Path | None] = (
            None if local_dir is None else _local(local_dir, "local_dir")
        )
        self._operators = _Operators()

    @staticmethod
    def scratch(*, partitions: int = 16) -> "State":
        """A state that is kept nowhere: each evaluation starts empty. For static DataFrames.

        Raises `ValueError` for `partitions` that are no whole number from 1 to 65,536.
        """
        _check_partitions(partitions)
        state = State.__new__(State)
        state.__dict__.update(
            partitions=partitions,
            default_isolation_level=None,
            settings={"memory": 512 << 20, "uncommitted_max_bytes": 64 << 20},
            storage_options={},
            root=None,
            local_dir=None,
            _operators=_Operators(),
        )
        return state

    @property
    def is_scratch(self) -> bool:
        """Whether this is `State.scratch()`."""
        return self.root is None

    @property
    def checkpoint_location(self) -> str:
        """`<root>/query`: hand it to `.option("checkpointLocation", ...)`, so that checkpoint and
        state stay together.

        In an object store it is spelled as Spark's own client of it wants: `s3a://`, `gs://`,
        `abfss://`. Raises `UnsupportedOperationError` for `State.scratch()`, which has none.
        """
        if self.root is None:
            raise UnsupportedOperationError(
                "State.scratch() keeps nothing and has no checkpoint: give State(root)"
            )
        return self._checkpoint or str(Path(self.root) / "query")

    def claim(self, operators: Sequence[str], epoch: "Epoch | None") -> None:
        """Take operators' names, all or none; a name is taken once, or once an epoch inside
        `foreachBatch`.

        Raises `ValueError` for one that is taken, or is not 1 to 100 ASCII letters, digits, `_` or
        `-`.
        """
        for operator in operators:
            if _NAME.fullmatch(operator) is None:
                raise ValueError(
                    f"name={operator!r}: an operator's name is part of file names; "
                    "give 1 to 100 ASCII letters, digits, '_' or '-'"
                )
        if not self.is_scratch:
            self._operators.claim(operators, epoch, self.root)

    def __repr__(self) -> str:
        place = "State.scratch(" if self.root is None else f"State({self.root!r}, "
        return f"{place}partitions={self.partitions})"


class _Operators:
    """The names that a state's operators have taken in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._epoch: Epoch | None = None
        self._of_plans: set[str] = set()
        self._of_epoch: set[str] = set()

    def claim(self, names: Sequence[str], epoch: "Epoch | None", root: str | None) -> None:
        with self._lock:
            if epoch is not None and epoch != self._epoch:
                self._epoch, self._of_epoch = epoch, set()
            for name in names:
                if name in self._of_plans or (epoch is not None and name in self._of_epoch):
                    raise ValueError(
                        f"the state at {root} has an operator named {name!r} already: give this "
                        "one another name=, "
                        "or make a new State for a new query"
                    )
            (self._of_plans if epoch is None else self._of_epoch).update(names)

    def __reduce__(self) -> tuple[type["_Operators"], tuple[()]]:
        # A state that is pickled into foreachBatch's function arrives in another process, where
        # nothing is named yet.
        return _Operators, ()


def _not_whole(value: object) -> bool:
    return isinstance(value, bool) or not isinstance(value, int)


def _check_partitions(partitions: int) -> None:
    if _not_whole(partitions) or not 1 <= partitions <= _MAX_PARTITIONS:
        raise ValueError(
            f"partitions={partitions!r}: give a whole number from 1 to {_MAX_PARTITIONS:,}"
        )


def _bytes(memory: str) -> int:
    size = _SIZE.fullmatch(memory.strip()) if isinstance(memory, str) else None
    if size is None or int(size[1]) == 0:
        raise ValueError(f'memory={memory!r}: give a size such as "512m" or "2g", with its unit')
    return int(size[1]) * _SIZES[(size[2] or "b").lower()]


def _options(options: Mapping[str, str] | None) -> dict[str, str]:
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(
            f"storage_options is a {type(options).__name__}: give a dict of names and values"
        )
    for name, value in (options or {}).items():
        if not isinstance(name, str) or not isinstance(value, str):
            # Not the value: it may be a secret.
            raise TypeError(
                f"storage_options: {name!r} has a {type(value).__name__}; names and values are "
                "strings"
            )
    return dict(options or {})


def _checkpoint(root: str, options: Mapping[str, str]) -> str | None:
    """Where Spark's checkpoint lies if the root is in an object store, as Spark spells it."""
    scheme, found, rest = str(root).partition("://")
    if not found or scheme not in _SPARK_SCHEMES:
        return None
    bucket, _, prefix = rest.strip("/").partition("/")
    if scheme == "az":
        account = next((options[name] for name in options if name.lower() in _AZURE_ACCOUNT), None)
        account = account or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
        if account is None:
            raise ValueError(
                f"root={root!r} belongs to a storage account: "
                'give storage_options={"account_name": ...} '
                "or set AZURE_STORAGE_ACCOUNT_NAME"
            )
        bucket = f"{bucket}@{account}.dfs.core.windows.net"
    return "/".join(
        part for part in (f"{_SPARK_SCHEMES[scheme]}://{bucket}", prefix, "query") if part
    )


def _opened(root: str, options: Mapping[str, str]) -> str:
    """The root, once it is known, here and not in the first task, that state can be kept there."""
    if _checkpoint(root, options) is not None:
        # Imported here: executors unpickle states, and need no way to the store themselves.
        from holdfast._core import check_root

        check_root(str(root), options)
        return str(root).rstrip("/").replace("s3a://", "s3://", 1)
    folder = _writable(_local(root, "root"), "root")
    if options:
        raise ValueError(
            f"storage_options={sorted(options)}: {folder} is a local root and takes none"
        )
    return str(folder)


def _local(location: str | PathLike[str], argument: str) -> Path:
    if not isinstance(location, str | PathLike):
        raise TypeError(f"{argument}={location!r}: give a folder, as a string or a path")
    text = str(location)
    if not text.strip():
        raise ValueError(f"{argument} is empty: give a folder")
    address = urlsplit(text)
    if address.scheme == "file":
        text = unquote(address.path)
    elif "://" in text or address.scheme in ("s3", "s3a", "gs", "az", "abfs", "abfss", "hdfs"):
        others = " or an address of s3://, gs:// or az://" if argument == "root" else ""
        raise UnsupportedOperationError(f"{argument}={location!r}: give a local folder{others}")
    return Path(text).expanduser().absolute()


def _writable(folder: Path, argument: str) -> Path:
    """Make the folder and prove now, not in the first task, that files can be written there."""
    probe = folder / f".holdfast-probe-{uuid.uuid4().hex}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        raise HoldfastError(
            f"{argument} {folder} cannot be written ({error.strerror or error}): "
            "give a folder that the driver and the executors may write"
        ) from error
    return folder
