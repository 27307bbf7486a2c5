"""Checks a root: that it can be read, put-if-absent, and the clock."""

import time
from collections.abc import Mapping
from typing import Final

import holdfast as hf
from holdfast import _core
from holdfast._cli.doctor.finding import Finding
from holdfast.errors import HoldfastError

_AHEAD: Final = 2.0
"""The greatest accepted difference of clocks, in seconds: object stores round to seconds."""


def check_root(root: str, storage_options: Mapping[str, str]) -> list[Finding]:
    """Checks a root and its store: puts one object of a random name, and removes it."""
    findings = [_state(root, storage_options)]
    before = time.time()
    try:
        refuses_second, put_at = _core.check_store(root, storage_options)
    except (HoldfastError, OSError, ValueError) as error:
        change = "check the address, the credentials and the right to write"
        return [*findings, Finding("put-if-absent", "problem", str(error), change)]
    return [*findings, _put_if_absent(refuses_second), _clock(before, time.time(), put_at)]


def _state(root: str, storage_options: Mapping[str, str]) -> Finding:
    try:
        with hf.connect(root, storage_options=storage_options) as reader:
            found = f"{len(reader.tables)} tables in {reader.partitions} partitions"
            epoch = reader.epoch
    except (HoldfastError, OSError, ValueError) as error:
        return Finding("root", "warning", str(error), "no change if no query has used it yet")
    newest = "no epoch is final yet" if epoch is None else f"the newest final epoch is {epoch}"
    return Finding("root", "ok", f"{found}; {newest}")


def _put_if_absent(refuses_second: bool) -> Finding:
    if refuses_second:
        return Finding("put-if-absent", "ok", "an object cannot be created twice")
    return Finding(
        "put-if-absent",
        "problem",
        "the store allows an object to be created twice, so state is not safe there",
        "choose another file system or object store for the root",
    )


def _clock(before: float, after: float, put_at: int | None) -> Finding:
    if put_at is None:
        return Finding("clock", "warning", "the store does not report when an object was put")
    put = put_at / 1000
    away = max(before - put, put - after, 0.0)
    if away <= _AHEAD:
        return Finding("clock", "ok", f"as the store's, to {_AHEAD:.0f} s")
    change = "synchronise the clocks (NTP): max_ahead and heartbeats compare event times with them"
    return Finding("clock", "warning", f"{away:.0f} s from the store's", change)
