"""The driver chooses one epoch for the tasks of a micro-batch of `hfs.lookup`."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from pyspark import TaskContext
from streams import KEYS, Stream

import holdfast as hf
import holdfast.spark as hfs
from holdfast._reader.pinned_epoch import PinnedEpoch
from holdfast.errors import HoldfastError, NotUpToBoundError, StateMismatchError
from holdfast.spark.plan.epoch_chooser import chosen_epoch
from holdfast.spark.worker.lookup.chosen_epoch import MAX_MESSAGE, ChosenEpoch, sealed

Task = Callable[..., None]

RUN = "0c7c6e1e-7e3b-4f5c-9d39-6c5d5a3f2b11"
OTHER = "5b1f0c0a-36d8-4f3b-8f59-2f0c7c1de4aa"


@pytest.fixture
def task(monkeypatch) -> Task:
    """Makes this process a task with these local properties."""

    class Stub:
        def __init__(self, properties: dict[str, str]) -> None:
            # The properties of PySpark's `TaskContext`.
            self._localProperties = properties

        def stageId(self) -> int:  # noqa: N802 - PySpark's name
            return 7

    def become(**properties: str) -> None:
        stub = Stub({name.replace("__", "."): value for name, value in properties.items()})
        monkeypatch.setattr(TaskContext, "get", lambda: stub)

    return become


def micro_batch(task: Task, number: int, run: str = RUN) -> None:
    task(
        sql__streaming__queryId="q",
        streaming__sql__batchId=str(number),
        spark__jobGroup__id=run,
        spark__job__description=f"id = q\nrunId = {run}\nbatch = {number}",
    )


def micro_batch_of_the_users_group(task: Task, number: int, group: str) -> None:
    """A task of a job whose function has called `setJobGroup`, which replaces both properties."""
    task(
        sql__streaming__queryId="q",
        streaming__sql__batchId=str(number),
        spark__jobGroup__id=group,
        spark__job__description="a group of my own",
    )


def step(stream: Stream, value: int) -> None:
    """One more epoch of the table."""
    stream.batch(left=[(key, value, value) for key in KEYS])
    table = hfs.materialize(stream.source("left"), by="k", name="table", state=stream.state())
    stream.run(table)


@pytest.fixture
def chosen(stream: Stream, spark) -> ChosenEpoch:
    step(stream, 0)
    return choice(stream, spark)


def choice(stream: Stream, spark) -> ChosenEpoch:
    options = stream.options.get("storage_options", {})
    with hf.connect(stream.address, storage_options=options) as reader:
        return chosen_epoch(spark.sparkContext, reader, options)


def test_a_root_that_was_made_again_has_epochs_of_its_own(
    stream: Stream, spark, task: Task, chosen
):
    step(stream, 1)
    micro_batch(task, 0)
    assert chosen.of_task().number == 1
    shutil.rmtree(stream.root)
    for file in (stream.base / "left").iterdir():
        file.unlink()
    step(stream, 0)
    assert choice(stream, spark).of_task().number == 0
    assert choice(stream, spark) == choice(stream, spark) != chosen
    micro_batch(task, 1)
    with pytest.raises(StateMismatchError, match="made again"):
        chosen.of_task()


def test_the_first_task_of_a_micro_batch_chooses_for_all(stream: Stream, task: Task, chosen):
    micro_batch(task, 0)
    assert chosen.of_task().number == 0
    step(stream, 1)
    assert chosen.of_task().number == 0
    micro_batch(task, 1)
    assert chosen.of_task().number == 1
    micro_batch(task, 0)
    assert chosen.of_task().number == 0
    # Another run that repeats the micro-batch reads the newest rows.
    micro_batch(task, 0, run=OTHER)
    assert chosen.of_task().number == 1


def test_a_choice_has_the_newest_rewind_of_its_epoch(stream: Stream, task: Task, chosen):
    step(stream, 1)
    micro_batch(task, 0)
    assert chosen.of_task() == PinnedEpoch(1, 0)
    stream.rewind(1)
    step(stream, 2)
    # The tasks that still run fail, since the epoch is another one now.
    assert chosen.of_task() == PinnedEpoch(1, 0)
    micro_batch(task, 1)
    assert chosen.of_task().rewind > 0


def test_a_job_group_of_the_user_does_not_choose_again(stream: Stream, task: Task, chosen):
    # A regression test: each job group was the name of a run, so one micro-batch read two epochs.
    micro_batch(task, 0)
    assert chosen.of_task().number == 0
    step(stream, 1)
    for group in ("mine", "yours", OTHER):
        micro_batch_of_the_users_group(task, 0, group)
        assert chosen.of_task().number == 0
    micro_batch(task, 0, run=OTHER)
    assert chosen.of_task().number == 1
    # Without a run, it is the last one.
    micro_batch_of_the_users_group(task, 0, RUN)
    assert chosen.of_task().number == 1


def test_the_first_job_of_a_micro_batch_may_have_a_group_of_the_user(
    stream: Stream, task: Task, chosen
):
    micro_batch_of_the_users_group(task, 0, "mine")
    assert chosen.of_task().number == 0
    step(stream, 1)
    micro_batch(task, 0)
    assert chosen.of_task().number == 0
    micro_batch(task, 0, run=OTHER)
    assert chosen.of_task().number == 1


def test_a_thread_inside_foreach_batch_has_the_epoch_of_its_micro_batch(
    stream: Stream, task: Task, chosen
):
    # A regression test: a thread has no properties of the micro-batch, only those of its session.
    micro_batch(task, 3)
    assert chosen.of_task().number == 0
    step(stream, 1)
    setting = {"spark__holdfast__epoch__q": f"{RUN} 3 1700000000000"}
    task(spark__sql__execution__id="1", **setting)
    assert chosen.of_task().number == 0
    task(spark__sql__execution__id="2", spark__jobGroup__id="mine", **setting)
    assert chosen.of_task().number == 0
    task(spark__sql__execution__id="3", spark__holdfast__epoch__q=f"{RUN} 4 1700000000000")
    assert chosen.of_task().number == 1


def test_a_task_outside_a_micro_batch_has_the_epoch_of_its_execution(
    stream: Stream, task: Task, chosen
):
    task(spark__sql__execution__id="1")
    assert chosen.of_task().number == 0
    step(stream, 1)
    assert chosen.of_task().number == 0
    task(spark__sql__execution__id="2")
    assert chosen.of_task().number == 1
    task()
    assert chosen.of_task().number == 1


def test_peers_without_the_secret_get_nothing_and_block_no_task(task: Task, chosen):
    micro_batch(task, 0)
    silent = socket.create_connection((chosen.host, chosen.port))
    for line in (b"\n", b"[]\n", b"{}\n", b'{"secret": 1}\n', b"\xff\xfe\n", b"x" * MAX_MESSAGE):
        with socket.create_connection((chosen.host, chosen.port), 10) as peer:
            peer.sendall(line)
            assert b"epoch" not in peer.recv(1000)
    with pytest.raises(HoldfastError, match="does not choose the epoch"):
        replace(chosen, secret="0" * 64).of_task()
    assert chosen.of_task().number == 0
    silent.close()


def test_a_driver_that_does_not_answer_is_named(task: Task, chosen):
    micro_batch(task, 0)
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(HoldfastError, match=f"port {port}.* inside foreachBatch"):
        replace(chosen, port=port).of_task()


def test_an_answer_of_another_process_at_the_port_is_refused(task: Task, chosen):
    micro_batch(task, 0)
    with socket.create_server(("localhost", 0)) as other:
        answers = [sealed("0" * 64, {"epoch": 7}), sealed(chosen.secret, {"epoch": 7})]

        def answer() -> None:
            for line in answers:
                peer, _ = other.accept()
                with peer:
                    peer.recv(1000)
                    peer.sendall(line)

        thread = threading.Thread(target=answer)
        thread.start()
        moved = replace(chosen, port=other.getsockname()[1])
        with pytest.raises(HoldfastError, match="another driver"):
            moved.of_task()
        with pytest.raises(HoldfastError, match="another request"):
            moved.of_task()
        thread.join()


def test_before_the_first_epoch_there_is_nothing_to_choose(
    stream: Stream, task: Task, chosen, monkeypatch
):
    def none_is_final(_: object) -> int:
        raise NotUpToBoundError("no epoch is final yet")

    monkeypatch.setattr("holdfast._reader.state_reader.StateReader.final_epoch", none_is_final)
    micro_batch(task, 9)
    with pytest.raises(NotUpToBoundError, match="no epoch is final yet"):
        chosen.of_task()
