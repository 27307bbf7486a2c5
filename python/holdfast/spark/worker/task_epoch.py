"""Which epoch a Spark task belongs to."""

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.spark.epoch import BATCH_ID, DESCRIPTION, QUERY_ID, Epoch, run_id_in

Properties = Callable[[str], str | None]
"""Returns a local property of the task."""


def task_epoch(get: Properties, captured: Epoch | None, request: Mapping[str, Any]) -> Epoch:
    """Returns the epoch of a task of the operator.

    `captured`: the epoch in which the operator was called, None if it is part of the streaming
    plan. Raises `HoldfastError` if the task belongs to no epoch, or to another one.
    """
    name = request["operator"]["name"]
    if captured is not None:
        for other in (_of_stream(get), _of_setting(get, captured.query_id)):
            # Jobs of other sessions have no setting, and jobs of other threads have no properties.
            # An epoch that is found must be the captured one.
            if other is not None and other != (captured.query_id, captured.number):
                raise HoldfastError(
                    f"operator {name!r} was called in epoch {captured.number} of query "
                    f"{captured.query_id} and is evaluated in epoch {other[1]} of query "
                    f"{other[0]}: call it again in every micro-batch"
                )
        return captured
    streaming = _of_stream(get)
    if streaming is None:
        return _of_root(get, request)
    epoch = Epoch.of_settings(get, streaming[0])
    if epoch is None:
        return _checked(Epoch.of_properties(get), request)
    run_id = run_id_in(get(DESCRIPTION)) or epoch.run_id
    if streaming[1] != epoch.number or run_id != epoch.run_id:
        raise HoldfastError(
            f"operator {name!r}: this job belongs to epoch {streaming[1]} of run {run_id}, but its "
            f"session has the setting {epoch.setting} of epoch {epoch.number} of run "
            f"{epoch.run_id}. If that run was stopped inside hfs.foreach_batch, remove the "
            f'setting: spark.conf.unset("{epoch.setting}")'
        )
    return epoch


def _of_stream(get: Properties) -> tuple[str, int] | None:
    """Returns the query and the batch in Spark's properties."""
    query, batch = get(QUERY_ID), get(BATCH_ID)
    return None if query is None or batch is None else (query, int(batch))


def _of_setting(get: Properties, query_id: str) -> tuple[str, int] | None:
    epoch = Epoch.of_settings(get, query_id)
    return None if epoch is None else (epoch.query_id, epoch.number)


def _of_root(get: Properties, request: Mapping[str, Any]) -> Epoch:
    """Returns the epoch of a job without Spark's properties, from its query's setting."""
    from holdfast._core import checkpoint_query

    query_id = checkpoint_query(request["root"], request["storage_options"])
    return _checked(None if query_id is None else Epoch.of_settings(get, query_id), request)


def _checked(epoch: Epoch | None, request: Mapping[str, Any]) -> Epoch:
    if epoch is not None:
        return epoch
    raise HoldfastError(
        f"operator {request['operator']['name']!r} keeps its state in {request['root']}, and this "
        "job belongs to no micro-batch of that query: start it as a streaming query, wrap the "
        "function, foreachBatch(hfs.foreach_batch(fn)), or give State.scratch(). Inside such a "
        "function, evaluate frames of its session, and join your threads before it returns"
    )
