"""Asks the driver for the epoch that a task reads."""

import hashlib
import hmac
import json
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pyspark import TaskContext

from holdfast import errors
from holdfast._reader.pinned_epoch import PinnedEpoch
from holdfast.errors import HoldfastError
from holdfast.spark.epoch import BATCH_ID, DESCRIPTION, QUERY_ID, SETTING, Epoch, run_id_in

MAX_MESSAGE: Final = 1 << 16
"""The maximum size of a request or an answer, in bytes."""

_EXECUTION: Final = "spark.sql.execution.id"
_TIMEOUT: Final = 60.0
"""Seconds. The driver may have to list an object store, or may pause."""


class MicroBatch(NamedTuple):
    """The work that reads one epoch: a micro-batch, or an execution outside of one."""

    name: str
    run_id: str | None
    """The run; None if it is not known.

    If a new run computes a micro-batch again, the driver chooses its epoch again. The micro-batch
    may then find newer rows, but needs no copies of an old epoch.
    """

    @staticmethod
    def of_properties(properties: Mapping[str, str]) -> "MicroBatch | None":
        """Returns the micro-batch of a job with these properties, None if they name none.

        The job group is not read: it may be one of the user's own. A thread that the user has
        started has only the setting of `hfs.foreach_batch`.
        """
        query, batch = properties.get(QUERY_ID), properties.get(BATCH_ID)
        if query is None or batch is None:
            set_for = [
                name.removeprefix(SETTING) for name in properties if name.startswith(SETTING)
            ]
            if len(set_for) != 1:
                return None
            query, batch = set_for[0], None
        epoch = Epoch.of_settings(properties.get, query)
        if epoch is not None and batch in (None, str(epoch.number)):
            return MicroBatch(f"query {query} batch {epoch.number}", epoch.run_id)
        return MicroBatch(f"query {query} batch {batch}", run_id_in(properties.get(DESCRIPTION)))


@dataclass(frozen=True)
class ChosenEpoch:
    """The address at which a task asks for its epoch, pickled with a look-up join's function."""

    host: str
    port: int
    secret: str = field(repr=False)
    root: int
    """The number that the driver has given to the root."""

    def of_task(self) -> PinnedEpoch:
        """Returns the epoch that the tasks of this micro-batch read.

        Raises `NotUpToBoundError` if no epoch is final yet, `HoldfastError` if the driver does not
        answer.
        """
        nonce = secrets.token_hex(16)
        of = _micro_batch()
        request = {"root": self.root, "micro_batch": of.name, "run": of.run_id, "nonce": nonce}
        try:
            with socket.create_connection((self.host, self.port), _TIMEOUT) as connection:
                connection.sendall(sealed(self.secret, request))
                with connection.makefile("rb") as stream:
                    line = stream.readline(MAX_MESSAGE)
            if not line:
                raise ValueError("it closes the connection without an answer")
            answer = opened(self.secret, line)
            if answer.get("nonce") != nonce:
                raise ValueError("the answer is to another request")
        except (OSError, ValueError) as error:
            raise HoldfastError(
                f"the driver at {self.host}, port {self.port}, does not choose the epoch of this "
                f"look-up: {error}. Executors must reach all ports of the driver's host. If they "
                "cannot, call hfs.lookup inside foreachBatch: a static frame needs no connection"
            ) from error
        if "epoch" not in answer:
            kind = getattr(errors, answer["error"], HoldfastError)
            raise kind(answer["message"])
        return PinnedEpoch(answer["epoch"], answer["rewind"])


def sealed(secret: str, message: dict[str, Any]) -> bytes:
    """Returns a message as a line with the proof that the sender has the secret."""
    text = json.dumps(message)
    return json.dumps([_proof(secret, text), text]).encode() + b"\n"


def opened(secret: str, line: bytes) -> dict[str, Any]:
    """Returns the message of a line.

    Raises `ValueError` if it is not a result of `sealed`, or if the sender has another secret.
    """
    parts = json.loads(line)
    if not isinstance(parts, list) or [type(part) for part in parts] != [str, str]:
        raise ValueError("the peer does not speak this protocol")
    proof, text = parts
    if not hmac.compare_digest(proof.encode(), _proof(secret, text).encode()):
        raise ValueError("the peer has the secret of another driver")
    message: dict[str, Any] = json.loads(text)
    return message


def _proof(secret: str, text: str) -> str:
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def _micro_batch() -> MicroBatch:
    """Returns the task's micro-batch; without one, its execution."""
    task: Any = TaskContext.get()
    if task is None:
        raise HoldfastError("hfs.lookup runs in the tasks of Spark only")
    properties: Mapping[str, str] = task._localProperties or {}
    execution = properties.get(_EXECUTION)
    stage = task.stageId() if execution is None else ""
    return MicroBatch.of_properties(properties) or MicroBatch(
        f"execution {execution} stage {stage}", None
    )
