"""Faults of a root: epochs are taken back, disks are full, old or new, and objects are damaged."""

from __future__ import annotations

import os
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

RESTORE, MISMATCH = "RestoreError", "StateMismatchError"


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0x01
    file.write_bytes(content)


def delete(victim: Path) -> None:
    if victim.is_dir():
        shutil.rmtree(victim)
    else:
        victim.unlink()


DAMAGE = {"cut": cut, "flip": flip, "delete": delete}


def is_whole(file: Path) -> bool:
    """Whether an object is not being put: a name with a # is temporary."""
    return file.is_file() and "#" not in file.name


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
            self.damage_a_database,
            self.damage_newest_snapshot,
            self.stage_with_other_code,
            self.damage_a_log_object,
            self.damage_a_decision,
            self.damage_newest_claim_of_a_run,
            self.delete_claims_of_runs,
            self.damage_identity,
            self.damage_an_operator,
            self.damage_a_claim_of_an_owner,
            self.damage_a_mark_of_a_rewind,
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
        for epoch in (max(newest - back, 0), newest):
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
        for head in self._heads(epoch):
            operator, _, run = head.name.split(".")
            found.setdefault(int(run), Counter())[operator] += 1
        return found[max(found)] if found else Counter()

    def _heads(self, epoch: int) -> list[Path]:
        heads = (self.root / "log" / f"{epoch:020}").glob("*.*.*")
        return sorted(head for head in heads if "#" not in head.name)

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
        had = self._new_disk()
        self.job.start()
        return had

    def _new_disk(self) -> bool:
        had = any(self.job.databases.glob("*/*/*"))
        shutil.rmtree(self.job.databases, ignore_errors=True)
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
        self._new_disk()
        shutil.copytree(self._older, job.databases)
        shutil.rmtree(self._older)
        job.start()
        return True

    def damage_a_database(self) -> bool:
        """The host makes a new database without help."""
        job = self.job
        job.nothing_runs()
        words = (".sst", "MANIFEST", "CURRENT")
        files = sorted(
            file
            for file in job.databases.glob("*/*/*/*")
            if file.is_file() and any(word in file.name for word in words)
        )
        if files:
            self._damage(self.random.choice(files), ["cut", "delete"])
        job.start()
        return bool(files)

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

    # --- objects
    # ------------------------------------------------------------------------------------------

    def damage_newest_snapshot(self) -> bool:
        """The hosts use the snapshot before it without help."""
        job = self.job
        job.nothing_runs()
        is_file = self.random.random() < 0.7
        found = self.root.glob("snapshots/*/*/files/*" if is_file else "snapshots/*/*/*.*")
        files = [file for file in found if is_whole(file) and file.suffix != ".removal"]
        if not files:
            job.start()
            return False
        newest = max(files, key=lambda file: file.stat().st_mtime)
        copy = self._copy(newest)
        self._damage(newest, ["cut", "flip"] if is_file else ["cut"])
        self._new_disk()
        job.start()
        job.wait_for_progress()
        job.nothing_runs()
        # A restore that has not read it does not remove it.
        if newest.exists():
            shutil.copy2(copy, newest)
        job.start()
        return True

    def damage_a_log_object(self) -> bool:
        """It is of the newest committed epoch. A snapshot of that epoch may replace it."""
        self._stop()
        heads = self._heads(committed(self.folder) - 1)
        run = max((int(head.suffix[1:]) for head in heads), default=0)
        return self._is_refused(
            [head for head in heads if int(head.suffix[1:]) == run],
            cut=RESTORE,
            flip=RESTORE,
            delete=f"{RESTORE}|{MISMATCH}",
        )

    def damage_a_decision(self) -> bool:
        """It is the newest one. A snapshot may replace it."""
        self._stop()
        decisions = sorted(filter(is_whole, self.root.glob("log/*/decided.*")))
        return self._is_refused(decisions[-1:], cut=RESTORE, flip=RESTORE)

    def damage_newest_claim_of_a_run(self) -> bool:
        self._stop()
        claims = sorted(filter(is_whole, self.root.glob("runs/" + "[0-9]" * 20)))
        return self._is_refused(claims[-1:], certain=True, cut=RESTORE)

    def delete_claims_of_runs(self) -> bool:
        self._stop()
        return self._is_refused([self.root / "runs"], certain=True, delete=RESTORE)

    def damage_identity(self) -> bool:
        self._stop()
        meta = self.root / "meta.json"
        return self._is_refused([meta], certain=True, cut=RESTORE, delete=MISMATCH)

    def damage_an_operator(self) -> bool:
        self._stop()
        operators = list(self.root.glob("operators/*.json"))
        return self._is_refused(operators, certain=True, cut=RESTORE, delete=MISMATCH)

    def damage_a_claim_of_an_owner(self) -> bool:
        self._stop()
        partitions = self.root.glob("owners/*/*")
        newest = [
            max(claims)
            for partition in partitions
            if (claims := list(filter(is_whole, partition.iterdir())))
        ]
        return self._is_refused(newest, certain=True, cut=RESTORE)

    def damage_a_mark_of_a_rewind(self) -> bool:
        self._stop()
        marks = list(filter(is_whole, self.root.glob("rewinds/*")))
        return self._is_refused(marks, certain=True, cut=RESTORE)

    def _stop(self) -> None:
        """Leaves no host and no database, so the next hosts read the root."""
        self.job.nothing_runs()
        self._new_disk()

    def _copy(self, victim: Path) -> Path:
        copy = self.folder / "copy"
        if copy.exists():
            delete(copy)
        (shutil.copytree if victim.is_dir() else shutil.copy2)(victim, copy)
        return copy

    def _damage(self, victim: Path, hows: list[str]) -> str:
        how = self.random.choice(hows)
        self.job.say(f"{how} {victim.relative_to(self.root)}")
        DAMAGE[how](victim)
        return how

    def _is_refused(self, victims: list[Path], *, certain: bool = False, **errors: str) -> bool:
        """Damages one of the objects, checks the error, and restores the object from a copy.

        `errors` has the pattern of the error for each way to damage it. The error of the docs names
        a damaged object. `certain`: no query continues without the object.
        """
        job = self.job
        if not victims:
            job.start()
            return False
        victim = self.random.choice(sorted(victims))
        copy = self._copy(victim)
        how = self._damage(victim, sorted(errors))
        name = str(victim.relative_to(self.root))
        # `verify` does not find each missing object.
        if how != "delete" and job.command("verify", str(self.root)).returncode != 1:
            raise WrongError(f"holdfast verify does not find {name} ({how})")
        before, said = committed(self.folder), job.said()
        pattern = re.compile(rf"holdfast\.errors\.({errors[how]}): .*")

        def refused() -> bool:
            found = pattern.findall(text := job.log_since(said))
            return bool(found) and (found[0] == MISMATCH or name in text)

        job.start()
        if not job.until(lambda: refused() or committed(self.folder) > before, 300):
            raise WrongError(f"{name} ({how}): no {errors[how]}, {job.driver.reason()}")
        is_refused = refused()
        if certain and (not is_refused or committed(self.folder) > before):
            raise WrongError(f"{name} ({how}): the query continues without it")
        job.nothing_runs()
        if victim.exists():
            delete(victim)
        shutil.move(copy, victim)
        ran = job.command("verify", str(self.root))
        if ran.returncode:
            raise WrongError(f"after {name} was restored: {ran.stdout}{ran.stderr}")
        job.start()
        return is_refused
