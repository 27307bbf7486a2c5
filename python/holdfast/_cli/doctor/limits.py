"""Checks limits of the machine: memory beside the JVM, open files."""

import os
import re
import resource
from pathlib import Path
from typing import Final

from holdfast._cli.doctor.finding import Finding
from holdfast._options import size_bytes

_MIB: Final = 1 << 20
_FILES: Final = 1_024
"""Enough for 70 small partitions on an executor (docs/spark/operating.md)."""


def check_limits(needed: int) -> list[Finding]:
    """Checks the limit of open files, and that a host with `needed` bytes of memory has room."""
    return [_open_files(), _overhead(needed), _container(needed)]


def _size(text: str) -> int:
    """Returns the bytes of a size as Spark writes it; a bare number is MiB.

    Raises `ValueError` for another text.
    """
    size = size_bytes(f"{text}m" if text.strip().isdecimal() else text)
    if size is None:
        raise ValueError(f"{text!r} is no size: write 512m or 2g")
    return size


def _open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = f"{_limit(soft)} (ulimit -n; at most {_limit(hard)})"
    if soft == resource.RLIM_INFINITY or soft >= _FILES:
        return Finding("open files", "ok", found)
    change = (
        f"start executors with ulimit -n {_FILES} or more: a host has 13 files open for each empty "
        "database, and up to 512 for a large one"
    )
    return Finding("open files", "problem", found, change)


def _limit(value: int) -> str:
    return "unlimited" if value == resource.RLIM_INFINITY else str(value)


def _overhead(needed: int) -> Finding:
    """Compares Spark's memory overhead with the memory of a host."""
    title = "memory overhead"
    file = _spark_defaults()
    settings = {} if file is None else _settings(file)
    try:
        overhead = _overhead_of(settings)
    except ValueError as error:
        return Finding(title, "warning", f"{file}: {error}", "write sizes as 512m or 2g")
    where = "no spark-defaults.conf was found; by default" if file is None else f"{file}:"
    found = (
        f"{where} spark.executor.memoryOverhead is {overhead // _MIB} MiB, and a state host has "
        f"{needed // _MIB} MiB"
    )
    if overhead >= needed:
        return Finding(title, "ok", found)
    change = (
        "in containers (YARN, Kubernetes) set spark.executor.memoryOverhead to at least "
        "State(memory=...) plus the memory of the Python workers; in local mode nothing"
    )
    return Finding(title, "warning", found, change)


def _overhead_of(settings: dict[str, str]) -> int:
    given = settings.get("spark.executor.memoryOverhead")
    if given is not None:
        return _size(given)
    factor = float(settings.get("spark.executor.memoryOverheadFactor", "0.1"))
    return max(384 * _MIB, int(_size(settings.get("spark.executor.memory", "1g")) * factor))


def _spark_defaults() -> Path | None:
    """Returns the file of Spark's settings that `spark-submit` reads, if there is one."""
    folder = os.environ.get("SPARK_CONF_DIR")
    home = os.environ.get("SPARK_HOME")
    if folder is None and home is not None:
        folder = str(Path(home) / "conf")
    if folder is None:
        return None
    file = Path(folder) / "spark-defaults.conf"
    return file if file.is_file() else None


def _settings(file: Path) -> dict[str, str]:
    lines = (line.strip() for line in file.read_text(encoding="utf-8").splitlines())
    pairs = (re.split(r"[\s=:]+", line, maxsplit=1) for line in lines if not line.startswith("#"))
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def _container(needed: int) -> Finding:
    """Compares the memory of this container, or of this machine, with that of a host."""
    title = "memory"
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    where = "this machine has"
    if limit.is_file():
        text = limit.read_text(encoding="utf-8").strip()
        if text.isdecimal() and int(text) < available:
            available, where = int(text), "this container has"
    found = f"{where} {available // _MIB} MiB, a state host {needed // _MIB} MiB beside the JVM"
    if available >= 2 * needed:
        return Finding(title, "ok", found)
    return Finding(title, "warning", found, "give State(memory=...) less, or the machine more")
