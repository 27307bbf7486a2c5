"""Checks the disk of the executors' databases."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from holdfast._cli.doctor.finding import Finding

_GIB: Final = 1 << 30
_NETWORK: Final = ("nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "glusterfs", "lustre", "afs")
_MOUNTS: Final = Path("/proc/self/mounts")


def default_local_dir(root: str | None) -> Path:
    """Returns the folder of an executor's databases if `State` is given no `local_dir`."""
    address = urlsplit(root or "")
    if address.scheme == "file":
        return Path(unquote(address.path)) / "state"
    if root is not None and "://" not in root:
        return Path(root).expanduser() / "state"
    return Path(tempfile.gettempdir()) / f"holdfast-{os.getuid()}" / "state"


def check_disk(folder: Path) -> list[Finding]:
    """Checks that a folder can be written, has space, and is on a local disk."""
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    if not os.access(there, os.W_OK | os.X_OK):
        text = f"{there} cannot be written by this user"
        return [Finding("local_dir", "problem", text, "give State(local_dir=...) another folder")]
    return [_space(folder, there), _file_system(there)]


def _space(folder: Path, there: Path) -> Finding:
    free = shutil.disk_usage(there).free
    found = f"{folder}: {free / _GIB:.1f} GiB are free"
    if free >= _GIB:
        return Finding("disk space", "ok", found)
    change = "free some, or give State(local_dir=...): databases need twice the size of the state"
    return Finding("disk space", "problem" if free < _GIB // 10 else "warning", found, change)


def _file_system(there: Path) -> Finding:
    kind = _kind(there)
    found = f"{there} is on {kind or 'an unknown file system'}"
    if kind in _NETWORK or (kind or "").startswith("fuse"):
        change = "give State(local_dir=...) a folder on a fast local disk of each executor"
        return Finding("file system", "warning", found, change)
    if kind in ("tmpfs", "ramfs"):
        change = (
            "databases in memory count towards the machine's memory, and are lost with it: give "
            "State(local_dir=...) a folder on a disk"
        )
        return Finding("file system", "warning", found, change)
    return Finding("file system", "ok", found)


def _kind(there: Path) -> str | None:
    """Returns the kind of the file system that a folder is on."""
    if not _MOUNTS.is_file():
        return None
    resolved, best, kind = there.resolve(), 0, None
    for line in _MOUNTS.read_text(encoding="utf-8").splitlines():
        _, escaped, mounted, *_ = line.split(" ")
        mount = Path(escaped.replace("\\040", " "))
        # Of several mounts on one folder, the last one is visible.
        if resolved.is_relative_to(mount) and len(mount.parts) >= best:
            best, kind = len(mount.parts), mounted
    return kind
