"""The root of a state: a local folder or an address in an object store, checked on the driver."""

import os
import re
import uuid
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from holdfast._database.durable import sync_names_if_possible
from holdfast.errors import HoldfastError, UnsupportedOperationError

_SPARK_SCHEMES: Final = {"s3": "s3a", "s3a": "s3a", "gs": "gs", "az": "abfss"}
_REFUSED_SCHEMES: Final = ("s3", "s3a", "gs", "az", "abfs", "abfss", "hdfs")
_ADDRESS: Final = re.compile(r"[^/]*:/")
"""Also matches `dbfs:/x`, which would otherwise be a path in a folder `dbfs:`."""

_AZURE_ACCOUNT: Final = ("account_name", "azure_storage_account_name")


def check_options(options: Mapping[str, str] | None) -> dict[str, str]:
    """Returns the storage options; raises `TypeError` if they are no dict of strings."""
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(
            f"storage_options is a {type(options).__name__}: give a dict of names and values"
        )
    for name, value in (options or {}).items():
        if not isinstance(name, str) or not isinstance(value, str):
            # The value is left out: it may be a secret.
            raise TypeError(
                f"storage_options: {name!r} has a {type(value).__name__}; names and values are "
                "strings"
            )
    return dict(options or {})


def remote_checkpoint(root: str, options: Mapping[str, str]) -> str | None:
    """Returns the checkpoint's address as Spark writes it; None for a local root."""
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


def checked_root(root: str, options: Mapping[str, str]) -> str:
    """Checks, before any task runs, that state can be stored in the root, and returns the root."""
    if remote_checkpoint(root, options) is not None:
        from holdfast._core import check_root

        check_root(str(root), options)
        return str(root).rstrip("/").replace("s3a://", "s3://", 1)
    folder = _writable(local_folder(root, "root"), "root")
    if options:
        raise ValueError(
            f"storage_options={sorted(options)}: {folder} is a local root and takes none"
        )
    return str(folder)


def local_folder(location: str | PathLike[str], argument: str) -> Path:
    """Returns the absolute path of a local folder; `argument` names it in errors."""
    if not isinstance(location, str | PathLike):
        raise TypeError(f"{argument}={location!r}: give a folder, as a string or a path")
    text = str(location)
    if not text.strip():
        raise ValueError(f"{argument} is empty: give a folder")
    address = urlsplit(text)
    if address.scheme == "file":
        text = unquote(address.path)
    elif address.scheme in _REFUSED_SCHEMES or _ADDRESS.match(text):
        others = " or an address of s3://, gs:// or az://" if argument == "root" else ""
        raise UnsupportedOperationError(f"{argument}={location!r}: give a local folder{others}")
    return Path(text).expanduser().absolute()


def _writable(folder: Path, argument: str) -> Path:
    """Creates the folder and a file in it, so that a failure is raised before the first task.

    The names of new folders are durable: a host syncs only those from the root on.
    """
    probe = folder / f".holdfast-probe-{uuid.uuid4().hex}"
    try:
        missing = [above for above in (folder, *folder.parents) if not above.exists()]
        # A process that was killed here may have left the name of the last one unsynced.
        found = missing[-1].parent if missing else folder
        sync_names_if_possible(found.parent)
        for above in reversed(missing):
            above.mkdir(exist_ok=True)
            sync_names_if_possible(above.parent)
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        raise HoldfastError(
            f"{argument} {folder} cannot be written ({error.strerror or error}): "
            "give a folder that the driver and the executors may write"
        ) from error
    return folder
