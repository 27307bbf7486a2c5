"""Makes the names in folders durable."""

import os
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
