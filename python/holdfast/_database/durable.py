"""Makes the names in folders durable."""

import os
from errno import EACCES, EINVAL, ENOSYS, ENOTSUP, EPERM, EROFS
from pathlib import Path


def sync_names(folder: Path) -> None:
    """Makes the names in a folder durable: without it, a loss of power may remove a new one.

    Raises `OSError` if the folder cannot be read or synced.
    """
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def sync_names_if_possible(folder: Path) -> None:
    """Makes the names in a folder durable, if this user can read it and its disk can be synced.

    Another user has made what is in a folder that cannot be read.
    """
    try:
        sync_names(folder)
    except OSError as error:
        if error.errno not in (EACCES, EPERM, EINVAL, ENOSYS, ENOTSUP, EROFS):
            raise
