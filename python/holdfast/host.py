"""The state host of a Spark executor: `python -m holdfast.host`.

Started by the first task that needs it (`holdfast.spark.worker.state_host`), not by hand. All of
its work is in Rust; it ends with its executor, or when no session has been open for a while.
"""

import sys

from holdfast._core import host_main

if __name__ == "__main__":
    sys.exit(host_main(sys.argv[1:]))
