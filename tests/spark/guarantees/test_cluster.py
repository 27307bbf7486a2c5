"""Jobs on clusters of several executors give the exact result after kills and restarts."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from cluster import Cluster, Job, parent
from cluster_job import arrive

FIRST, SECOND, THIRD = "127.0.0.2", "127.0.0.3", "127.0.0.4"


@pytest.fixture
def run(tmp_path: Path):
    """Starts jobs and stops them after the test."""
    jobs: list[Job] = []

    def start(master: str, **options) -> Job:
        jobs.append(Job(master, tmp_path / "job", **options))
        return jobs[-1]

    (tmp_path / "job").mkdir()
    yield start
    for job in jobs:
        job.stop()


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "job"


@pytest.fixture
def cluster(tmp_path: Path):
    """A standalone cluster of two workers, each with its own address."""
    cluster = Cluster(tmp_path / "cluster")
    try:
        cluster.worker(FIRST)
        cluster.worker(SECOND)
        yield cluster
    finally:
        cluster.stop()


@pytest.mark.cluster
@pytest.mark.timeout(1800)
def test_two_executors_share_a_job_and_give_the_exact_result(run, base: Path):
    expected = arrive(base, seed=1, batches=3)
    job = run("local-cluster[2,1,1024]", scheduler_minRegisteredResourcesRatio="1.0")
    assert job.finish() == expected
    assert len(job.executors()) == 2
    owners = job.owners()
    assert sorted(owners) == [
        f"{name}/{partition}" for name in ("join", "totals", "updates") for partition in range(2)
    ]
    terms = [term for terms in owners.values() for term in terms]
    assert all(term.startswith("1.") for term in terms), "partitions move within their run"


@pytest.mark.cluster
@pytest.mark.timeout(1800)
def test_kills_in_mid_batch_leave_the_result_exact(run, base: Path, cluster: Cluster):
    expected = arrive(base, seed=2, batches=7)
    job = run(cluster.url)
    # The session runs at the partition's owner; the executor's host may own no partition.
    os.kill(job.owner("updates", job.pause_in(1).partition), signal.SIGKILL)
    os.kill(job.pause_in(2).executor, signal.SIGKILL)
    worker = parent(job.pause_in(3).executor)
    # Add an executor while the job is paused: after the kill it continues, and could end meanwhile.
    cluster.worker(THIRD)
    cluster.kill_worker(
        next(address for address, process in cluster.workers.items() if process.pid == worker)
    )
    # Remove one by terminating its worker.
    worker = parent(job.pause_in(5).executor)
    cluster.workers.pop(
        next(address for address, process in cluster.workers.items() if process.pid == worker)
    ).terminate()
    job.go_on()
    assert job.finish() == expected
    # The added executor either paused in epoch 5, or it was the only one left: the other executor
    # paused and was removed.
    assert job.epochs_at(THIRD), "the executor that was added has run nothing"
    assert any(terms != ["1.1"] for terms in job.owners().values()), (
        "no partition of a killed host has moved"
    )


@pytest.mark.cluster
@pytest.mark.timeout(1800)
def test_partitions_of_a_stopped_state_host_move(run, base: Path, cluster: Cluster):
    expected = arrive(base, seed=3, batches=6)
    job = run(cluster.url)
    task = job.pause_in(2)
    host = job.owner("updates", task.partition)
    os.kill(host, signal.SIGSTOP)
    job.go_on()
    job.epoch(3)
    assert job.owner("updates", task.partition) != host
    with suppress(ProcessLookupError):  # a worker may have killed the host
        os.kill(host, signal.SIGCONT)
    assert job.finish() == expected


@pytest.mark.cluster
@pytest.mark.timeout(1800)
def test_a_restart_with_other_executors_continues(run, base: Path, cluster: Cluster):
    expected = arrive(base, seed=5, batches=6)
    job = run(cluster.url)
    job.pause_in(2)
    job.stop()
    cluster.worker(THIRD)
    job = run(cluster.url)
    job.go_on()
    job.pause_in(4)
    job.stop()
    # Until here, any two of the three executors may have run the tasks. From here on only the added
    # executor is left.
    cluster.kill_worker(FIRST)
    cluster.kill_worker(SECOND)
    job = run(cluster.url)
    job.go_on()
    assert job.finish() == expected
    assert 5 in job.epochs_at(THIRD)
    assert len({executor for epoch, *_, executor in job.tasks() if epoch == 5}) == 1


@pytest.mark.cluster
@pytest.mark.timeout(1800)
def test_a_speculative_copy_of_a_slow_task_leaves_the_result_exact(
    run, base: Path, cluster: Cluster
):
    expected = arrive(base, seed=6, batches=3)
    speculation = {
        "speculation": "true",
        "speculation_interval": "100ms",
        "speculation_quantile": "0.5",
        "speculation_multiplier": "1.1",
        "speculation_minTaskRuntime": "100ms",
    }
    job = run(cluster.url, **speculation)
    slow = job.pause_in(1)
    # Only the speculative copy can end the epoch.
    job.epoch(1)
    copies = {
        executor
        for epoch, partition, _, executor in job.tasks()
        if (epoch, partition) == (1, slow.partition)
    }
    assert copies > {slow.executor}, f"no copy ran elsewhere: {job.tasks()}"
    job.go_on()
    assert job.finish() == expected
