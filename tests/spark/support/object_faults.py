"""Faults of objects: those of a root, and the files of databases, are damaged or deleted."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from drivers import committed
from soak_job import SoakJob, WrongError

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


class ObjectFaults:
    """Each method causes a fault, and returns whether it affected something.

    A query that then does not do what the docs say is a `WrongError`.
    """

    def __init__(self, job: SoakJob) -> None:
        self.job, self.folder, self.root, self.random = job, job.folder, job.root, job.random

    @property
    def all(self) -> list[Callable[[], bool]]:
        """The possible faults."""
        return [
            self.damage_a_database,
            self.damage_newest_snapshot,
            self.damage_a_log_object,
            self.damage_a_decision,
            self.damage_newest_claim_of_a_run,
            self.delete_claims_of_runs,
            self.damage_identity,
            self.damage_an_operator,
            self.damage_a_claim_of_an_owner,
            self.damage_a_mark_of_a_rewind,
        ]

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
        job.new_disk()
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
        heads = self.job.heads(committed(self.folder) - 1)
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
        self.job.new_disk()

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
