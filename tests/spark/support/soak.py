"""All faults in random order on a standalone cluster with two workers.

    make soak                       # 30 minutes
    make soak SOAK_MINUTES=10 SEED=7

A new file of numbered rows arrives every half second; a driver (`job.py`) joins and sums them. Its
processes are killed or stopped, its epochs are taken back, and the files of its root are damaged,
lost or old. After each fault, the rows of each micro-batch that Spark has committed must have been
returned once, with the right rate, and every total must be exact. At the end all of them are
compared again. A seed repeats the faults and the pauses between them, but not the moments at which
they happen. Each fault occurs once before any occurs twice. A fault that affected nothing in a soak
long enough for all of them fails the soak. Only root may mount the disk that a fault fills.

No clock jumps: a host compares the time of the machine in one place only, for the age of parts of
files that a killed host left in `snapshots/`.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from drivers import differences, root
from object_faults import ObjectFaults
from process_faults import ProcessFaults
from root_faults import RootFaults
from soak_job import SoakJob, WrongError

END_SECONDS = 900
BEGIN_BATCHES = 5


class Soak:
    """One soak: a job, and the faults that happen to it."""

    def __init__(self, job: SoakJob, minutes: float, *, has_disk: bool) -> None:
        self.job, self.minutes = job, minutes
        self.faults = [
            *ProcessFaults(job).all,
            *RootFaults(job, has_disk=has_disk).all,
            *ObjectFaults(job).all,
        ]
        self.done: Counter[str] = Counter()
        self.tried: Counter[str] = Counter()
        self.next: list[Callable[[], bool]] = []

    def run(self) -> int:
        """Runs the whole soak; returns 0 if nothing is lost, doubled or wrong."""
        ended = threading.Event()
        writer = threading.Thread(target=self.job.write, args=(ended,))
        writer.start()
        found: list[str] = []
        try:
            self.job.wait_for_progress(BEGIN_BATCHES)
            while time.monotonic() - self.job.began < self.minutes * 60:
                self.step()
        except WrongError as wrong:
            found.append(str(wrong))
        finally:
            ended.set()
            writer.join()
        found = found or self.end()
        rows = sum(map(len, self.job.sequence.joined))
        print(
            f"{sum(self.done.values())} faults: "
            + ", ".join(f"{count} {name}" for name, count in self.done.most_common())
        )
        print(f"{self.job.ended_drivers} drivers ended by themselves")
        print(
            "\n".join(found[:10])
            or f"{rows} rows in {len(self.job.sequence.batches)} files: 0 lost, 0 doubled, 0 wrong"
        )
        return 1 if found else 0

    def step(self) -> None:
        """One fault, and what Spark has committed by then."""
        # Most faults hit a query that makes progress. The others may hit a query that still
        # recovers from the last fault.
        alone, pause = self.job.random.random() < 0.75, self.job.random.uniform(0, 5)
        if alone:
            self.job.wait_for_progress()
        self.job.pause(pause)
        if not self.next:
            self.next = list(self.faults)
            self.job.random.shuffle(self.next)
        fault = self.next.pop()
        name = words(fault)
        self.job.hosts()  # those of executors that the fault ends
        self.job.say(name)
        hit = fault()
        self.tried[name] += 1
        self.done[name] += hit
        if not hit:
            self.job.say(f"{name} has met nothing")
        self.job.check()

    def end(self) -> list[str]:
        """Lets the driver process all input; describes what is wrong in all results."""
        job = self.job
        (job.folder / "last").touch()
        job.say(f"the last of {len(job.sequence.batches)} files has arrived")
        if not job.until(
            lambda: job.driver.ended and job.driver.process.returncode == 0, END_SECONDS
        ):
            print(job.driver.words())
        found = differences(job.sequence, job.folder)
        verified = job.command("verify", str(job.root))
        if verified.returncode:
            found += [f"holdfast verify: {verified.stdout}{verified.stderr}"]
        # Some need what others leave, such as the mark of a rewind.
        found += [
            f"{name} has met nothing in {tries} tries"
            for name, tries in self.tried.items()
            if tries >= 3 and not self.done[name]
        ]
        return found


def words(fault: Callable[[], bool]) -> str:
    """The name of a fault, in words."""
    return fault.__name__.replace("_", " ")


@contextmanager
def disk(folder: Path):
    """Mounts a disk at a folder; yields whether this process may do so."""
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=1g", "tmpfs", str(folder)]
    is_mounted = subprocess.run(mount, check=False, capture_output=True).returncode == 0
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def main() -> int:
    """Runs the soak; returns 0 if nothing is lost, doubled or wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument(
        "--seed", type=int, default=None, help="of the rows and of the faults (default: by chance)"
    )
    parser.add_argument(
        "--master", help="a Spark master, such as local[2,8], in place of the cluster"
    )
    options = parser.parse_args()
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    again = f"again: make soak SOAK_MINUTES={options.minutes:g} SEED={seed}"
    print(again, flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-soak-", ignore_cleanup_errors=True) as folder,
        disk(root(Path(folder))) as has_disk,
    ):
        if not has_disk:
            print("no disk is filled: only root may mount one")
        job = SoakJob(Path(folder), seed, options.master)
        code = 1
        try:
            code = Soak(job, options.minutes, has_disk=has_disk).run()
        finally:
            job.stop()
            if code:
                stored = Path(folder).with_name(f"{Path(folder).name}-kept")
                shutil.copytree(folder, stored, ignore_dangling_symlinks=True)
                print(f"kept: {stored}\n{again}")
    return code


if __name__ == "__main__":
    sys.exit(main())
