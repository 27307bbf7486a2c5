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

_STORAGE: Final = "storage."
"""Before the name of each storage option."""


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
    offline: Offline = "auto"
    timeout: float = 30.0
    cache_dir: str | None = None
    storage_options: dict[str, str] = field(default_factory=dict[str, str])

    @staticmethod
    def parse(options: Mapping[str, str]) -> "SourceOptions":
        """Parses options; their names are in lower case.

        Raises `ValueError` for an option that does not exist or that has no such value.
        """
        storage = {
            name.removeprefix(_STORAGE): value
            for name, value in options.items()
            if name.startswith(_STORAGE)
        }
        given = {
            name: value
            for name, value in options.items()
            # Spark's own begin with two underscores.
            if not name.startswith((_STORAGE, "__"))
        }
        unknown = given.keys() - _NAMES
        if unknown:
            raise ValueError(
                f"{min(unknown)!r} is no option of the data source holdfast; they are "
                f"{', '.join(sorted(_NAMES))} and {_STORAGE}…"
            )
        if "path" not in given:
            raise ValueError("name the root of the state: .load(root)")
        offline = given.get("offline", "auto")
        if offline not in get_args(Offline):
            raise ValueError(f"offline is {offline!r}; it is one of {get_args(Offline)}")
        return SourceOptions(
            root=given["path"],
            table=given.get("table"),
            columns=_columns(given.get("columns")),
            key=given.get("key"),
            as_of=_moment(given.get("as_of")),
            versions=_flag("versions", given.get("versions", "false")),
            epoch=None if "epoch" not in given else _number("epoch", given["epoch"]),
            offline=cast("Offline", offline),
            timeout=_seconds(given.get("timeout", "30")),
            cache_dir=given.get("cache_dir"),
            storage_options=storage,
        )

    def connect(self) -> StateReader:
        """Connects to the root."""
        return connect(
            self.root,
            storage_options=self.storage_options,
            offline=self.offline,
            cache_dir=self.cache_dir,
        )

    def find_table(self, reader: StateReader) -> StateTable:
        """Returns the table, and checks that it can be read as the options say.

        Raises `StateMismatchError` if there is no such table, `ValueError` for options that do not
        fit it.
        """
        if self.table is None:
            tables = list(reader.tables.values())
            if len(tables) != 1:
                names = [f"{table.operator}.{table.store}" for table in tables]
                raise ValueError(f"the option table names one of {names}")
            found = tables[0]
        else:
            operator, _, store = self.table.partition(".")
            found = reader.table(operator, store or None)
        if (self.versions or self.as_of is not None) and found.kind != "versioned":
            option = "versions" if self.versions else "as_of"
            raise ValueError(
                f"option {option}: {found.operator}.{found.store} is a {found.kind} table; only a "
                "versioned one keeps versions"
            )
        if self.versions and self.as_of is not None:
            raise ValueError("give as_of or versions, not both")
        return found

    def source(self, epoch: int) -> ReadSource:
        """Returns the options of a read of exactly this epoch."""
        # What is staged of the next epoch differs from task to task.
        level = IsolationLevel.READ_COMMITTED
        return {"epoch": epoch, "timeout": self.timeout, "isolation_level": level}


_NAMES: Final = frozenset(SourceOptions.__dataclass_fields__) - {"root", "storage_options"} | {
    "path"
}


def _columns(text: str | None) -> list[str] | None:
    if text is None:
        return None
    if text.lstrip().startswith("["):
        return [str(name) for name in json.loads(text)]
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


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise ValueError(f"option {name} is {text!r}; give a number") from error


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"option timeout is {text!r}; give a number of seconds") from error
