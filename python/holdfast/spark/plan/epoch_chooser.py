"""Chooses the epochs that look-up joins read: a small server in Spark's driver."""

import secrets
import socket
import socketserver
from collections import OrderedDict
from collections.abc import Mapping
from functools import lru_cache
from os import getpid
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final, cast

from holdfast._reader.pinned_epoch import PinnedEpoch
from holdfast._reader.state_reader import StateReader, connect
from holdfast.errors import HoldfastError
from holdfast.spark.epoch import BATCH_ID, DESCRIPTION, QUERY_ID
from holdfast.spark.worker.lookup.chosen_epoch import (
    MAX_MESSAGE,
    ChosenEpoch,
    MicroBatch,
    opened,
    sealed,
)

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_CHOICES: Final = 1 << 16
"""The maximum number of micro-batches whose choices are stored for a root.

The least recently requested one is dropped first.
"""

_SILENCE: Final = 10.0
"""Seconds after which a connection that sends nothing is closed."""


_STARTING: Final = Lock()


def chosen_epoch(
    context: "SparkContext", reader: StateReader, storage_options: Mapping[str, str]
) -> ChosenEpoch:
    """Returns an object by which a task asks the driver which epoch its micro-batch reads.

    The epochs are those of the root of `reader`. The driver chooses the newest final epoch when the
    first task of a micro-batch asks. All tasks of the micro-batch get the same one, even those of a
    second evaluation in the same run.
    """
    return _started(context).choice(reader, storage_options)


def epoch_of_call(
    session: "SparkSession", reader: StateReader, storage_options: Mapping[str, str]
) -> PinnedEpoch | None:
    """Returns the epoch of the micro-batch whose `foreachBatch` function makes this call.

    It is the epoch that the tasks of the micro-batch read. Returns None outside of a micro-batch.
    """
    context = session.sparkContext
    properties: dict[str, str] = session.conf.getAll
    for name in (QUERY_ID, BATCH_ID, DESCRIPTION):
        value = context.getLocalProperty(name)
        if value is not None:
            properties[name] = value
    batch = MicroBatch.of_properties(properties)
    return None if batch is None else _started(context).epoch(reader, storage_options, batch)


def _started(context: "SparkContext") -> "_EpochChooser":
    """Returns the chooser of this application, which is started if it is not running."""
    conf = context.getConf()
    # Executors connect to the driver at this host, so they can also reach the chooser there.
    host = conf.get("spark.driver.host", None) or "localhost"
    bind = conf.get("spark.driver.bindAddress", None) or host
    master = context.master or ""
    if master == "local" or master.startswith("local["):
        host = bind = "localhost"
    # Each application numbers its executions from 0, so the key includes the application's id.
    key = (getpid(), context.applicationId)
    with _STARTING:
        return _chooser(key, host, bind)


@lru_cache(maxsize=1)
def _chooser(
    key: tuple[int, str],  # noqa: ARG001 - a forked process, or another application, has its own
    host: str,
    bind: str,
) -> "_EpochChooser":
    chooser = _EpochChooser(host, bind)
    Thread(target=chooser.serve_forever, name="holdfast-epochs", daemon=True).start()
    return chooser


class _EpochChooser(socketserver.ThreadingTCPServer):
    """Answers tasks, which prove with a secret that they belong to this driver."""

    daemon_threads = True
    # All tasks of a micro-batch connect at the same time.
    request_queue_size = 4096

    def __init__(self, host: str, bind: str) -> None:
        # An IPv6 address may be in brackets.
        bind = bind.strip("[]")
        self.address_family = socket.getaddrinfo(bind, 0, type=socket.SOCK_STREAM)[0][0]
        super().__init__((bind, 0), _Answer)
        self._host: Final = host.strip("[]")
        self.secret: Final = secrets.token_hex(32)
        self._roots: Final[list[_RootEpochs]] = []
        self._numbers: Final[dict[object, int]] = {}
        self._lock: Final = Lock()

    def choice(self, reader: StateReader, storage_options: Mapping[str, str]) -> ChosenEpoch:
        """Returns an object by which a task asks for the epochs of the root of a reader."""
        number = self._number(reader, storage_options)
        return ChosenEpoch(self._host, self.server_address[1], self.secret, number)

    def epoch(
        self, reader: StateReader, storage_options: Mapping[str, str], batch: MicroBatch
    ) -> PinnedEpoch:
        """Returns the epoch that a micro-batch reads; `reader` names the root."""
        return self._roots[self._number(reader, storage_options)].of(batch)

    def _number(self, reader: StateReader, storage_options: Mapping[str, str]) -> int:
        """Returns the number of the root of a reader."""
        # A root that was deleted and created again has the same path and another id.
        key = (reader.root, reader.root_id, frozenset(storage_options.items()))
        with self._lock:
            number = self._numbers.get(key)
            if number is None:
                # The caller closes its reader, so the chooser opens one of its own.
                own = connect(reader.root, storage_options=dict(storage_options))
                self._roots.append(_RootEpochs(own))
                number = self._numbers[key] = len(self._roots) - 1
            return number

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the epoch of a micro-batch, or why there is none."""
        nonce = request["nonce"]
        try:
            batch = MicroBatch(request["micro_batch"], request["run"])
            epoch = self._roots[request["root"]].of(batch)
        except Exception as error:  # noqa: BLE001 - the task raises it
            kind = type(error).__name__ if isinstance(error, HoldfastError) else "HoldfastError"
            return {"nonce": nonce, "error": kind, "message": str(error)}
        return {"nonce": nonce, "epoch": epoch.number, "rewind": epoch.rewind}


class _RootEpochs:
    """The epochs that were chosen for a root, by micro-batch and run."""

    def __init__(self, reader: StateReader) -> None:
        self._reader: Final = reader
        self._chosen: Final[OrderedDict[str, dict[str | None, PinnedEpoch]]] = OrderedDict()
        self._lock: Final = Lock()

    def of(self, batch: MicroBatch) -> PinnedEpoch:
        """Returns the epoch of a micro-batch; if the run is not known, that of its last run."""
        name, run_id = batch
        with self._lock:
            runs = self._chosen.setdefault(name, {})
            self._chosen.move_to_end(name)
            if len(self._chosen) > _CHOICES:
                self._chosen.popitem(last=False)
            if run_id is None and runs:
                run_id = next(reversed(runs))
            elif None in runs:
                # The micro-batch's first job did not show its run.
                runs[run_id] = runs.pop(None)
            if run_id not in runs:
                runs[run_id] = PinnedEpoch.of(self._reader, self._reader.final_epoch())
            return runs[run_id]


class _Answer(socketserver.StreamRequestHandler):
    """One request and its answer, each a line of JSON."""

    timeout = _SILENCE

    def handle(self) -> None:
        """Answers a request; a peer that sends anything else gets no answer."""
        chooser = cast("_EpochChooser", self.server)
        try:
            request = opened(chooser.secret, self.rfile.readline(MAX_MESSAGE))
            self.wfile.write(sealed(chooser.secret, chooser.answer(request)))
        except (OSError, ValueError):
            # No answer is sent; the task then raises a `HoldfastError`.
            return
