"""The state host of a Spark executor: `python -m holdfast.host`.

The first task that needs it starts it (`holdfast.spark.worker.state_host`). Its work is in Rust,
except that this module returns freed memory to the system. It ends with its executor, or when no
session has been open for a while.
"""

import ctypes
import sys
import threading
import time
from typing import Final

from holdfast._core import host_main

_TRIM_SECONDS: Final = 5.0


def _return_freed_memory() -> None:
    """Returns freed memory to the system every few seconds, if the C library can (glibc).

    glibc itself does not return memory that is freed between blocks in use. After large epochs this
    can be more memory than the host uses.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    while trim is not None:
        time.sleep(_TRIM_SECONDS)
        trim(0)


if __name__ == "__main__":
    threading.Thread(target=_return_freed_memory, daemon=True).start()
    sys.exit(host_main(sys.argv[1:]))
