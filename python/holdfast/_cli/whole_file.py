"""Files that are written whole or not at all."""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast._database.durable import sync_names_if_possible


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yields the name of a file to write, and renames that file to `path` at the end.

    If the block raises, that file is removed and `path` is unchanged. Otherwise the file is there
    also after a loss of power, if its folder can be synced. A link stays a link, and a file keeps
    its mode. A device or a pipe is written directly.
    """
    # This check is before the links are resolved: /dev/stdout may lead to no file.
    if path.exists() and not path.is_file():
        yield path
        return
    path = path.resolve()
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        yield partial
        with partial.open("rb+") as written:
            os.fsync(written.fileno())
        if path.exists():
            partial.chmod(stat.S_IMODE(path.stat().st_mode))
        partial.replace(path)
        sync_names_if_possible(path.parent)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
