"""Faults of a root: epochs are taken back, disks are full, old or new."""

from __future__ import annotations

import re
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from drivers import committed
from job import PARTITIONS
from soak_job import SoakJob, WrongError, send


class RootFaults:
    """Each method causes a fault, and returns whether it affected something.

    A query that then does not do what the docs say is a `WrongError`.
    """

    def __init__(self, job: SoakJob, *, has_disk: bool) -> None:
        self.job, self.folder, self.root, self.random = job, job.folder, job.root, job.random
        self.has_disk = has_disk
        """Whether the root has a disk of its own."""
        self._older = job.folder / "older"

    @property
    def all(self) -> list[Callable[[], bool]]:
        """The possible faults."""
        found = [
            self.rewind,
            self.delete_databases,
            self.bring_older_databases_back,
            self.stage_with_other_code,
        ]
        return [*found, self.fill_disk] if self.has_disk else found

    # --- epochs
    # ------------------------------------------------------------------------------------------

    def rewind(self) -> bool:
        """Takes back a few epochs; hosts may run. A copy of the databases comes back later."""
        job, back = self.job, self.random.randint(2, 8)
        if self.random.random() < 0.5:
            job.driver.kill()
        else:
            job.nothing_runs()
            if not self._older.exists() and job.databases.exists():
                shutil.copytree(job.databases, self._older)
        job.check()  # the rewind removes results
        newest = committed(self.folder) - 1
        refused = ""
        # Not to epoch 0: other faults need a state.
        for epoch in (max(newest - back, 1), max(newest, 1)):
            ran = job.command("rewind", str(self.root), "--epoch", str(epoch))
            if ran.returncode == 0:
                job.checked.rewind(epoch)
                break
            refused = ran.stderr
            # Snapshots and log do not reach back that far.
            if "the state cannot be rewound" not in refused:
                raise WrongError(f"holdfast rewind --epoch {epoch}: {refused}")
        if ran.returncode:
            job.say(f"no rewind: {refused.strip()}")
        elif committed(self.folder) != epoch:
            raise WrongError(f"{committed(self.folder)} and not {epoch} is next after the rewind")
        job.start()
        return ran.returncode == 0

    def stage_with_other_code(self) -> bool:
        """A run of other code is killed when it has staged an epoch in part or as a whole.

        The next run ignores a part. It refuses a whole until `holdfast epoch drop`.
        """
        job, wants_part = self.job, self.random.random() < 0.6
        other, computed = self.folder / "other", self.folder / "computed"
        job.wait_for_progress()  # so no earlier run has staged the next epoch
        other.touch()
        end = time.monotonic() + 60
        while not computed.exists() and time.monotonic() < end:
            hosts = job.hosts()
            if wants_part and self._stop_at_a_part(other, hosts):
                break
            time.sleep(0.05)
        job.nothing_runs()
        found = next((file.read_text() for file in (other, computed) if file.exists()), "")
        for file in (other, computed):
            file.unlink(missing_ok=True)
        staged = self._staged(int(found)) if found else Counter[str]()
        # An operator that the run did not begin does not count.
        was_whole = set(staged.values()) == {PARTITIONS}
        job.say(f"other code has staged {dict(staged)} of epoch {found or 'none'}")
        before, said = committed(self.folder), job.said()
        job.start()
        if was_whole:
            self._drop(before, said)
        else:
            job.wait_for_progress()
            if "holdfast epoch drop" in job.log_since(said):
                raise WrongError("a run that was staged in part is not ignored")
        return bool(staged)

    def _drop(self, epoch: int, said: int) -> None:
        job, words = self.job, "holdfast epoch drop"
        refused = job.until(
            lambda: words in job.log_since(said) or committed(self.folder) > epoch, 300
        )
        if not refused or committed(self.folder) > epoch:
            raise WrongError(f"epoch {epoch} is not refused, although other code has staged it")
        job.nothing_runs()
        ran = job.command("epoch", "drop", str(self.root), str(epoch))
        if ran.returncode or "nothing" in ran.stdout:
            raise WrongError(f"{words} {epoch}: {ran.stdout}{ran.stderr}")
        job.start()

    def _staged(self, epoch: int) -> Counter[str]:
        """How many partitions of each operator the newest run has staged of an epoch."""
        found: dict[int, Counter[str]] = {}
        for head in self.job.heads(epoch):
            operator, _, run = head.name.split(".")
            found.setdefault(int(run), Counter())[operator] += 1
        return found[max(found)] if found else Counter()

    def _stop_at_a_part(self, other: Path, hosts: list[int]) -> bool:
        """Stops the hosts when an operator of the epoch is staged in part, within some time."""

        def is_part() -> bool:
            with suppress(OSError, ValueError):  # the file is empty or renamed
                counts = self._staged(int(other.read_text())).values()
                return any(count < PARTITIONS for count in counts)
            return False

        end = time.monotonic() + 0.1
        while time.monotonic() < end:
            if is_part():
                for pid in hosts:
                    send(pid, signal.SIGSTOP)
                # Again while all are stopped, in case the moment has passed.
                if is_part():
                    return True
                for pid in hosts:
                    send(pid, signal.SIGCONT)
            time.sleep(0.001)
        return False

    # --- disks
    # ------------------------------------------------------------------------------------------

    def delete_databases(self) -> bool:
        """Restarts the driver with a new disk: no host runs, and the databases are gone."""
        self.job.nothing_runs()
        had = self.job.new_disk()
        self.job.start()
        return had

    def bring_older_databases_back(self) -> bool:
        """The databases are some epochs old, or of epochs that a rewind has taken back since."""
        job = self.job
        job.nothing_runs()
        if not self._older.exists():
            if not job.databases.exists():
                job.start()
                return False
            shutil.copytree(job.databases, self._older)
            job.start()
            job.wait_for_progress(self.random.randint(2, 10))
            job.nothing_runs()
        job.new_disk()
        shutil.copytree(self._older, job.databases)
        shutil.rmtree(self._older)
        job.start()
        return True

    def fill_disk(self) -> bool:
        """Fills the root's disk, and freed space again, until the query has met that."""
        job, filler, said = self.job, self.root / "filler", self.job.said()
        full = re.compile("[Ff]ree space|No space left")

        def fill() -> bool:
            with suppress(OSError):
                while True:
                    file.write(bytes(1 << 20))
            return bool(full.search(job.log_since(said)))

        with filler.open("wb", buffering=0) as file:
            try:
                hit = job.until(fill, 60)
                job.until(lambda: fill() and False, self.random.uniform(0, 5))
            finally:
                filler.unlink()
        return hit
