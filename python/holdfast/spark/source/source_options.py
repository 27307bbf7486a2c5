"""The options of the data source."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, cast, get_args

from holdfast._options import IsolationLevel
from holdfast._reader.read_source import Offline, ReadSource
from holdfast._reader.state_reader import StateReader, connect
from holdfast._reader.state_table import StateTable
from holdfast._time import Timestamp, timestamp_micros
from holdfast.spark.operator_names import is_name_part

_STORAGE: Final = "storage."
"""The prefix of the names of storage options."""


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """The options of a data source, parsed."""

    root: str
    table: str | None = None
    columns: list[str] | None = None
    key: str | None = None
    as_of: int | None = None
    versions: bool = False
    epoch: int | None = None
    changes: bool = False
    starting_epoch: str | None = None
    ending_epoch: int | None = None
    max_epochs: int | None = None
    follower: str | None = None
    offline: Offline = "auto"
    timeout: float = 30.0
    cache_dir: str | None = None
    cache_bytes: int | None = None
    storage_options: dict[str, str] = field(default_factory=dict[str, str])

    @staticmethod
    def parse(options: Mapping[str, str]) -> "SourceOptions":
        """Parses options; their names are in lower case.

        Raises `ValueError` for an unknown option or an invalid value.
        """
        storage = {
            name.removeprefix(_STORAGE): value
            for name, value in options.items()
            if name.startswith(_STORAGE)
        }
        given = {
            name: value
            for name, value in options.items()
            # The names of Spark's options begin with two underscores.
            if not name.startswith((_STORAGE, "__"))
        }
        unknown = given.keys() - {name.lower() for name in _NAMES}
        if unknown:
            raise ValueError(
                f"{min(unknown)!r} is no option of the data source holdfast; its options are "
                f"{', '.join(sorted(_NAMES))} and {_STORAGE}…"
            )
        if "path" not in given:
            raise ValueError("name the root of the state: .load(root)")
        offline = given.get("offline", "auto")
        if offline not in get_args(Offline):
            raise ValueError(f"offline is {offline!r}; it is one of {get_args(Offline)}")
        changes = _flag("changes", given.get("changes", "false"))
        _check_together(changes, given)
        return SourceOptions(
            root=given["path"],
            table=given.get("table"),
            columns=_columns(given.get("columns")),
            key=given.get("key"),
            as_of=_moment(given.get("as_of")),
            versions=_flag("versions", given.get("versions", "false")),
            epoch=_number("epoch", given),
            changes=changes,
            starting_epoch=_start(given.get("startingepoch")),
            ending_epoch=_number("endingEpoch", given),
            max_epochs=_number("maxEpochsPerTrigger", given, least=1),
            follower=_follower(given.get("follower")),
            offline=cast("Offline", offline),
            timeout=_seconds(given.get("timeout", "30")),
            cache_dir=given.get("cache_dir"),
            cache_bytes=_number("cache_bytes", given),
            storage_options=storage,
        )

    def connect(self) -> StateReader:
        """Connects to the root."""
        return connect(
            self.root,
            storage_options=self.storage_options,
            offline=self.offline,
            cache_dir=self.cache_dir,
            cache_bytes=self.cache_bytes,
        )

    def find_table(self, reader: StateReader) -> StateTable:
        """Returns the table, and checks that it can be read as the options say.

        Raises `StateMismatchError` if the option `table` names no table, or an operator that has
        several; `ValueError` if the option is missing and there is not exactly one table, and for
        options that do not fit the table.
        """
        if self.table is None:
            tables = list(reader.tables.values())
            if len(tables) != 1:
                names = [f"{table.operator}.{table.store}" for table in tables]
                raise ValueError(f"set the option table to one of {names}")
            found = tables[0]
        else:
            operator, _, store = self.table.partition(".")
            found = reader.table(operator, store or None)
        if (self.versions or self.as_of is not None) and found.kind != "versioned":
            option = "versions" if self.versions else "as_of"
            raise ValueError(
                f"option {option}: {found.operator}.{found.store} is a {found.kind} table; only a "
                "versioned one has versions"
            )
        if self.versions and self.as_of is not None:
            raise ValueError("give as_of or versions, not both")
        return found

    @property
    def first_epoch(self) -> int | None:
        """The epoch number in the option startingEpoch; None if it is not set or is a word."""
        start = self.starting_epoch
        return int(start) if start is not None and start.isdecimal() else None

    def source(self, epoch: int) -> ReadSource:
        """Returns the options of a read of exactly this epoch."""
        # Staged rows of the next epoch may differ from task to task.
        level = IsolationLevel.READ_COMMITTED
        return {"epoch": epoch, "timeout": self.timeout, "isolation_level": level}


_OF_TABLE: Final = ("key", "as_of", "versions", "epoch")
_OF_CHANGES: Final = ("startingEpoch", "endingEpoch", "maxEpochsPerTrigger", "follower")
_NAMES: Final = (
    "path",
    "table",
    "columns",
    *_OF_TABLE,
    "changes",
    *_OF_CHANGES,
    "offline",
    "timeout",
    "cache_dir",
    "cache_bytes",
)


def _check_together(changes: bool, given: Mapping[str, str]) -> None:
    """Checks that the options fit what is read: the table, or its changes."""
    for name in _OF_TABLE if changes else _OF_CHANGES:
        if name.lower() in given:
            of = "the table" if changes else "its changes"
            raise ValueError(f"option {name} is for {of}; changes is {str(changes).lower()}")


def _columns(text: str | None) -> list[str] | None:
    if text is None:
        return None
    if text.lstrip().startswith("["):
        try:
            names = cast("list[object]", json.loads(text))
        except ValueError as error:
            raise ValueError(f"option columns is {text!r}, which is no JSON: {error}") from error
        return [str(name) for name in names]
    return [name.strip() for name in text.split(",")]


def _moment(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        moment: Timestamp = int(text) if text.lstrip("-").isdecimal() else _time(text)
        return timestamp_micros(moment, "as_of")
    except ValueError as error:
        raise ValueError(
            f"option as_of is {text!r}; give epoch microseconds, or a time with its zone as in "
            "2026-03-01T18:00:00Z"
        ) from error


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"option {name} is {text!r}; give true or false")
    return text.lower() == "true"


def _number(name: str, given: Mapping[str, str], least: int = 0) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if not text.isdecimal() or not least <= int(text) < 2**63:
        raise ValueError(f"option {name} is {text!r}; give a number from {least}")
    return int(text)


def _start(text: str | None) -> str | None:
    if text is None or text in ("snapshot", "earliest", "latest") or text.isdecimal():
        return text
    raise ValueError(
        f"option startingEpoch is {text!r}; give snapshot, earliest, latest or a number"
    )


def _follower(name: str | None) -> str | None:
    if name is None or is_name_part(name):
        return name
    raise ValueError(
        f"option follower is {name!r}; give 1 to 100 ASCII letters, digits, '_' or '-'"
    )


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"option timeout is {text!r}; give a number of seconds") from error
